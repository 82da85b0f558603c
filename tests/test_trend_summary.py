"""The sentences about growth that `ebfit fit` prints."""

import re

import pytest

from ebfit.files import Agreement, BatchOfLoss, GroupTrends, Trend, Trends
from ebfit.report.trend_summary import trend_lines

TREND = Trend(k=2.0, exponent=0.412, exponent_low=0.351, exponent_high=0.468, d_low=83_725.0, d_high=3.91e6)


def printed(trends: Trends) -> list[str]:
    return [line.plain for line in trend_lines(trends)]


def test_without_a_trend_nothing_is_said_not_even_what_others_found():
    assert printed(Trends()) == []
    assert printed(Trends(groups=[GroupTrends(group="85M"), GroupTrends(group="151M")])) == []


def test_an_exponent_has_its_interval_and_the_tokens_it_was_measured_over():
    lines = printed(Trends(b_opt_vs_tokens=TREND, b_min_vs_tokens=TREND))
    assert lines[0] == "B_opt grows as D^0.41 [0.35, 0.47] from D = 83.7K to 3.91M tokens"
    assert lines[1].startswith("B_min grows as D^0.41 ")
    assert max(map(len, lines[:2])) <= 80


def test_published_exponents_are_named_with_their_sources_and_how_they_are_known():
    told = printed(Trends(b_min_vs_tokens=TREND))[-1]
    assert "secondary sources" in told
    assert re.findall(r"(?:about )?\b0\.\d{2,3}\b", told) == ["0.383", "about 0.47", "0.566", "0.571"]
    assert re.findall(r"\d{4}\.\d{5}", told) == [
        "2505.13738",
        "2410.21676",
        "2505.13738",
        "2607.01487",
        "2503.04715",
    ]


@pytest.mark.parametrize(
    ("p_value", "words"),
    [
        (0.4, "the groups may share one line (p = 0.40)"),
        (0.0312, "the groups do not agree on one line (p = 0.031): use that of one group"),
        (1e-40, "the groups do not agree on one line (p < 0.001): use that of one group"),
    ],
)
def test_of_several_groups_each_is_told_and_whether_they_agree(p_value, words):
    groups = [GroupTrends(group="85M", b_opt_vs_tokens=TREND), GroupTrends(group=None)]
    test = Agreement(statistic=1.0, degrees_of_freedom=2, p_value=p_value)
    lines = printed(Trends(b_opt_vs_tokens=TREND, groups=groups, agreement={"b_opt_vs_tokens": test}))
    assert lines[0].startswith("B_opt, all groups on one line, grows as D^0.41 ")
    assert lines[1] == "  85M: as D^0.41 [0.35, 0.47] from D = 83.7K to 3.91M tokens"
    assert lines[2] == "  (no group): too few targets tell, or they lie too near each other"
    assert lines[3].strip() == words


def test_growth_over_loss_names_the_floor_and_an_open_end():
    of_loss = BatchOfLoss(
        l_0=1.4, k=3.0, exponent=1.25, exponent_low=1.0, loss_low=1.95, loss_high=2.5, n_targets=8
    )
    lines = printed(Trends(b_opt_vs_tokens=TREND, b_opt_vs_loss=of_loss))
    assert lines[1] == "B_opt grows as (L - 1.4)^-1.25 [1.00, ?] while the loss L falls from 2.50 to 1.95"
    group = GroupTrends(group="85M", b_opt_vs_loss=of_loss)
    assert printed(Trends(groups=[group]))[0].startswith("B_opt in 85M grows as (L - 1.4)^-1.25 ")


def test_the_name_of_a_group_colours_no_terminal():
    groups = [GroupTrends(group="85M\x1b[31m", b_opt_vs_tokens=TREND), GroupTrends(group=None)]
    lines = printed(Trends(b_opt_vs_tokens=TREND, groups=groups))
    assert lines[1].startswith(r"  85M\x1b[31m: as D^0.41 ")
