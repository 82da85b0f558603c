"""All trends of a fit: of each group by itself, and over groups together."""

from collections.abc import Sequence
from typing import get_args

from ebfit.files import Agreement, GroupTrends, OverTokens, Trends
from ebfit.trends.group import Group
from ebfit.trends.over_loss import b_opt_vs_loss, loss_vs_tokens
from ebfit.trends.over_tokens import agreement, power_law


def find_trends(groups: Sequence[Group], confidence: float) -> Trends:
    """Find how B_opt and B_min grow with tokens, and B_opt with falling loss.

    Parameters
    ----------
    groups : sequence of Group
        Fitted with a law that has B_min and B_opt; groups without a fitted target are passed over.
    confidence : float
        Of the intervals.

    Returns
    -------
    Trends
        None stands where the targets identify no trend. Targets whose status is not ``ok`` enter as bounds, where
        their place is known (see `power_law` and `b_opt_vs_loss`).
    """
    groups = [group for group in groups if group.fits]
    each = [_of_one(group, confidence) for group in groups]
    if not each:
        return Trends()
    if len(each) == 1:
        return Trends(
            **{name: getattr(each[0], name) for name in GroupTrends.model_fields if name != "group"}
        )
    return Trends(
        b_opt_vs_tokens=power_law(groups, "b_opt", confidence),
        b_min_vs_tokens=power_law(groups, "b_min", confidence),
        groups=each,
        agreement=_agreement(each),
    )


def _agreement(each: Sequence[GroupTrends]) -> dict[OverTokens, Agreement]:
    found: dict[OverTokens, Agreement] = {}
    for name in get_args(OverTokens):
        lines = [getattr(one, name) for one in each]
        test = agreement([line for line in lines if line is not None])
        if test is not None:
            found[name] = test
    return found


def _of_one(group: Group, confidence: float) -> GroupTrends:
    over_tokens = loss_vs_tokens(group, confidence)
    return GroupTrends(
        group=group.name,
        b_opt_vs_tokens=power_law([group], "b_opt", confidence),
        b_min_vs_tokens=power_law([group], "b_min", confidence),
        loss_vs_tokens=over_tokens,
        b_opt_vs_loss=b_opt_vs_loss(group, over_tokens, confidence),
    )
