"""A fit.json made by hand, with trends that are known: for tests of plans."""

import json
from typing import Any

import numpy as np
from scipy.special import logit

from ebfit.files import Estimate, Fit, LossTrend, PointRecord, TargetRecord, Trend, Trends
from ebfit.laws import revised

# m = 0.4, u = 0.1, v = 0.75, w = 0.5: B_min is 0.4 B_opt
SHAPE = logit(np.array([0.4, 0.1, 0.75, 0.5]))


def trend(
    k: float = 2.0,
    exponent: float = 0.5,
    d_low: float = 1e6,
    d_high: float = 1e9,
    log_sd: float = 0.1,
    exponent_sd: float = 0.05,
) -> Trend:
    """B = k D^exponent, with a band."""
    pivot = float(np.sqrt(d_low * d_high))
    return Trend(
        k=k,
        exponent=exponent,
        exponent_low=exponent - 2 * exponent_sd,
        exponent_high=exponent + 2 * exponent_sd,
        d_low=d_low,
        d_high=d_high,
        pivot_tokens=pivot,
        pivot_batch_tokens=k * pivot**exponent,
        log_sd_at_pivot=log_sd,
        exponent_sd=exponent_sd,
        quantile=2.0,
        scatter_log_sd=0.0,
        n_targets=7,
    )


def fit_of(
    b_opt: Trend | None = None,
    b_min: Trend | None = None,
    *,
    targets: int = 7,
    with_losses: bool = True,
    **changes: Any,
) -> Fit:
    """A fit whose targets lie on a trend exactly; the loss is 1 + 100 D^-0.3."""
    b_opt = b_opt or trend()
    loss = LossTrend(
        l_0=1.0,
        c=100.0,
        exponent=0.3,
        d_low=b_opt.d_low,
        d_high=b_opt.d_high,
        loss_low=1.0 + 100.0 * b_opt.d_high**-0.3,
        loss_high=1.0 + 100.0 * b_opt.d_low**-0.3,
        n_targets=targets,
    )
    fit = Fit(
        schema="ebfit.fit/1",
        ebfit_version="0",
        settings={"law": "revised", "confidence": 0.95},
        inputs=[],
        runs=[],
        targets=[_target(b_opt, tokens, loss) for tokens in np.geomspace(b_opt.d_low, b_opt.d_high, targets)],
        trends=Trends(
            b_opt_vs_tokens=b_opt,
            b_min_vs_tokens=b_min or trend(k=0.4 * b_opt.k, exponent=b_opt.exponent),
            loss_vs_tokens=loss if with_losses else None,
        ),
    )
    return fit.model_copy(update=changes)


def _target(b_opt: Trend, tokens: float, loss: LossTrend) -> TargetRecord:
    batch = b_opt.batch_at(tokens)[0]
    free = np.array([np.log(tokens / batch), np.log(batch), *SHAPE])
    return TargetRecord(
        loss=loss.loss_at(tokens),
        law="revised",
        b_min=Estimate(value=0.4 * batch, low=0.3 * batch, high=0.5 * batch, status="ok"),
        b_opt=Estimate(value=batch, low=0.8 * batch, high=1.2 * batch, status="ok"),
        s_min=1.0,
        e_min=tokens,
        s_opt=tokens / batch,
        params=revised.params(free),
        points=[
            PointRecord(
                run="run",
                batch_tokens=16 * batch,
                steps=1.0,
                tokens=16 * batch,
                steps_se=None,
                censored=False,
            )
        ],
    )


def changed(fit_file, folder, change):
    """A copy of the fit file after ``change`` of its JSON."""
    document = json.loads(fit_file.read_text())
    change(document)
    path = folder / "changed.json"
    path.write_text(json.dumps(document))
    return path
