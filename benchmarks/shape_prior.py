"""Where the shape of the revised law lies when the truth is a three-term surface: the centre of its weak prior.

Fits the revised law, with next to no prior, to noise-free S(B) of the law `power` over a grid of exponents and
prints the logits of (m, u, v, w), their median and their spread.

    python benchmarks/shape_prior.py
"""

from dataclasses import dataclass

import numpy as np

from ebfit.fitting.observations import Observations
from ebfit.fitting.point import fit_points
from ebfit.laws import FloatArray, ShapePrior, power, revised

BETAS = (0.4, 0.6, 0.8, 1.0, 1.5)
GAMMAS = (0.3, 0.5, 0.7, 1.0)


@dataclass(frozen=True)
class _NearlyFree:
    """The revised law with a prior so wide that it only keeps logits finite."""

    name = "revised"
    free_names = revised.free_names
    prior = ShapePrior(np.zeros(6), np.array([np.inf, np.inf, 10.0, 10.0, 10.0, 10.0]))
    log_steps = staticmethod(revised.log_steps)
    log_steps_jacobian = staticmethod(revised.log_steps_jacobian)
    log_numbers = staticmethod(revised.log_numbers)
    starts = staticmethod(revised.starts)
    params = staticmethod(revised.params)
    tokens_at = staticmethod(revised.tokens_at)


def shape_of_surface(beta: float, gamma: float) -> tuple[FloatArray, float]:
    """Return the logits of the best shape, shape (4,), and the RMS log residual that is left."""
    surface = np.array([0.0, 0.0, np.log(beta), np.log(gamma)])
    log_b_opt = float(power.log_numbers(surface)["b_opt"])
    log_batch = np.linspace(np.log(1.08), log_b_opt + np.log(60.0), 24)
    log_steps = power.log_steps(surface, log_batch)[:, None]
    data = Observations(log_batch, log_steps, np.zeros((24, 1), dtype=bool), np.zeros((24, 1, 1)))
    fit = fit_points(_NearlyFree(), data)
    return fit.free[0, 2:], float(fit.rms_log_residual[0])


def main() -> None:
    print("beta  gamma   logit m   logit u   logit v   logit w   rms")
    logits = []
    for beta in BETAS:
        for gamma in GAMMAS:
            shape, rms = shape_of_surface(beta, gamma)
            logits.append(shape)
            print(f"{beta:4.1f}  {gamma:5.1f}  " + "  ".join(f"{x:8.2f}" for x in shape) + f"  {rms:.3f}")
    print("median       " + "  ".join(f"{x:8.2f}" for x in np.median(logits, axis=0)))
    print("sd           " + "  ".join(f"{x:8.2f}" for x in np.std(logits, axis=0)))


if __name__ == "__main__":
    main()
