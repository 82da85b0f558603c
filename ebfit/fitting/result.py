"""What a fit of one target is: estimates, intervals, and plain words about them."""

from dataclasses import dataclass, field

from ebfit.fitting.intervals import Interval
from ebfit.laws import FloatArray


@dataclass(frozen=True)
class SecondOpinion:
    """What another law says of the same points, and the weight it has in the intervals (0 to 1)."""

    law: str
    weight: float
    b_min: float
    b_opt: float
    rms_log_residual: float


@dataclass(frozen=True)
class TargetFit:
    """A law fitted at one target.

    Attributes
    ----------
    law : str
    free : ndarray, shape (p,)
        The law's free parameters, as `ebfit.laws` takes them.
    params : dict
        The law's parameters, steps and tokens.
    numbers : dict
        name -> Interval for b_min and b_opt, or b_crit; tokens.
    s_min, e_min, s_opt : float or None
        Steps, tokens, steps; None where they would be extrapolated (revised), and s_opt for the classic law.
    rms_log_residual : float
        Over the points that reached the target, natural log.
    misfit_log_sd : float
        Scatter of log steps beyond the error of the crossings.
    second_opinion : SecondOpinion or None
    draws : dict
        name -> natural logs of the bootstrap replicates, shape (N,).
    warnings : list of str
    """

    law: str
    free: FloatArray
    params: dict[str, float]
    numbers: dict[str, Interval]
    s_min: float | None
    e_min: float | None
    s_opt: float | None
    rms_log_residual: float
    misfit_log_sd: float
    second_opinion: SecondOpinion | None
    draws: dict[str, FloatArray]
    warnings: list[str] = field(default_factory=list)
