"""The sentences of `ebfit fit` about growth: exponents with intervals, whether groups agree, what others published."""

from collections.abc import Iterator

from rich.text import Text

from ebfit.files import Agreement, BatchOfLoss, GroupTrends, OverTokens, Trend, Trends
from ebfit.report.numbers import loss_texts
from ebfit.report.published import PUBLISHED
from ebfit.text import printable, short

_NAMES: dict[OverTokens, str] = {"b_opt_vs_tokens": "B_opt", "b_min_vs_tokens": "B_min"}


def trend_lines(trends: Trends) -> list[Text]:
    """Say how batch sizes grow with tokens and with falling loss; nothing where no trend was found."""
    lines = [Text(line) for line in _found(trends)]
    return [*lines, _published()] if lines else []


def _found(trends: Trends) -> Iterator[str]:
    for key, name in _NAMES.items():
        joint: Trend | None = getattr(trends, key)
        of_groups = [(group, getattr(group, key)) for group in trends.groups]
        if joint is not None:
            over_all = ", all groups on one line," if trends.groups else ""
            yield f"{name}{over_all} grows as {_power(joint)}"
        if any(trend is not None for _, trend in of_groups):
            for group, trend in of_groups:
                told = (
                    "too few targets tell, or they lie too near each other"
                    if trend is None
                    else f"as {_power(trend)}"
                )
                yield f"  {_named(group)}: {told}"
            if key in trends.agreement:
                yield f"  {_agreement(trends.agreement[key])}"
    if trends.b_opt_vs_loss is not None:
        yield f"B_opt grows as {_of_loss(trends.b_opt_vs_loss)}"
    for group in trends.groups:
        if group.b_opt_vs_loss is not None:
            yield f"B_opt in {_named(group)} grows as {_of_loss(group.b_opt_vs_loss)}"


def _power(trend: Trend) -> str:
    return (
        f"D^{trend.exponent:.2f}{_interval(trend.exponent_low, trend.exponent_high)} "
        f"from D = {short(trend.d_low)} to {short(trend.d_high)} tokens"
    )


def _of_loss(trend: BatchOfLoss) -> str:
    high, low = loss_texts([trend.loss_high, trend.loss_low])
    return (
        f"(L - {trend.l_0:.3g})^-{trend.exponent:.2f}{_interval(trend.exponent_low, trend.exponent_high)} "
        f"while the loss L falls from {high} to {low}"
    )


def _interval(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    ends = ["?" if end is None else f"{end:.2f}" for end in (low, high)]
    return f" [{ends[0]}, {ends[1]}]"


def _named(group: GroupTrends) -> str:
    return printable(group.group or "(no group)")


def _agreement(test: Agreement) -> str:
    if test.is_rejected:
        p = "p < 0.001" if test.p_value < 0.001 else f"p = {test.p_value:.3f}"
        return f"the groups do not agree on one line ({p}): use that of one group"
    return f"the groups may share one line (p = {test.p_value:.2f})"


def _published() -> Text:
    """Name the exponents of others, each with its source, for comparison."""
    told = []
    for item in PUBLISHED:
        source = " and ".join(item.arxiv)
        told.append(f"{item.number} ({item.of}, {f'{item.name}, ' if item.name else ''}{source})")
    return Text(f"Published exponents, from secondary sources, with arXiv numbers: {', '.join(told)}.", "dim")
