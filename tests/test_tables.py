import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ebfit.files import Estimate, Fit, PointRecord, TargetRecord
from ebfit.report.numbers import estimate_text, interval_digits, loss_texts, size
from ebfit.report.tables import target_table
from ebfit.text import short

SUFFIX_FACTOR = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def parse(text: str) -> float:
    match = re.fullmatch(r"(-?[0-9.]+(?:e[+-]\d+)?)([KMBT]?)", text)
    assert match, text
    return float(match[1]) * SUFFIX_FACTOR[match[2]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8192, "8.19K"),
        (524288, "524K"),
        (128, "128"),
        (98.1, "98.1"),
        (0.05126, "0.0513"),
        (999.6, "1.00K"),
        (999_600, "1.00M"),
        (1_099_511_627_776, "1.10T"),
        (2.5e15, "2.50e+15"),
        (0.0001, "1.00e-4"),
        (0, "0"),
        (-8192, "-8.19K"),
    ],
)
def test_a_count_gets_three_digits_and_a_decimal_suffix(value, text):
    assert short(value) == text


positive = st.floats(1e-6, 1e18)


@given(positive, st.integers(2, 4))
def test_a_written_count_reads_back_within_half_a_unit_of_its_last_digit(value, digits):
    assert parse(short(value, digits)) == pytest.approx(value, rel=0.5001 * 10.0 ** (1 - digits))


@given(positive, positive, st.integers(2, 4))
def test_a_larger_count_never_reads_as_a_smaller_one(a, b, digits):
    low, high = sorted((a, b))
    assert parse(short(low, digits)) <= parse(short(high, digits))


@given(positive)
def test_a_bound_is_rounded_to_its_safe_side(bound):
    upper = estimate_text(Estimate(high=bound, status="upper_bound"))
    lower = estimate_text(Estimate(low=bound, status="lower_bound"))
    assert upper.startswith("<= ")
    assert lower.startswith(">= ")
    assert parse(lower[3:]) * (1 - 1e-9) <= bound <= parse(upper[3:]) * (1 + 1e-9)
    assert parse(upper[3:]) <= 1.1001 * bound
    assert parse(lower[3:]) >= 0.9 * bound


@given(positive, st.floats(0.001, 1.0), st.floats(1.0, 1000.0))
def test_a_written_interval_still_holds_its_value(value, down, up):
    text = estimate_text(Estimate(value=value, low=value * down, high=value * up, status="ok"))
    match = re.fullmatch(r"(\S+) \[(\S+), (\S+)\]", text)
    assert match
    middle, low, high = map(parse, match.groups())
    assert low <= middle <= high


def test_a_wide_interval_gets_fewer_digits():
    assert interval_digits(4123.0, 2000.0, 9000.0) == 2
    assert interval_digits(4123.0, 4000.0, 4300.0) == 3


def test_losses_get_equally_many_decimals():
    assert loss_texts([2.4, 2.05, 2.0]) == ["2.40", "2.05", "2.00"]
    assert loss_texts([3.0]) == ["3"]


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(value=4120, low=3800, high=4500, status="ok"), "4.12K [3.80K, 4.50K]"),
        (Estimate(value=4120, status="ok"), "4.12K"),
        (Estimate(value=777, low=555, high=1200, status="upper_bound"), "<= 1.2K"),
        (Estimate(value=777, low=3000, high=5555, status="lower_bound"), ">= 3.0K"),
        (Estimate(value=777, low=555, high=999, status="not_identified"), "not identified"),
        (Estimate(value=777, status="upper_bound"), "not identified"),
        (Estimate(status="ok"), "not identified"),
        (None, "not identified"),
    ],
)
def test_an_estimate_says_no_more_than_its_status(estimate, text):
    assert estimate_text(estimate) == text


def point(batch_tokens: float, censored: bool = False, seed: int | None = None) -> PointRecord:
    return PointRecord(
        run=f"b{batch_tokens}",
        batch_tokens=batch_tokens,
        steps=100.0,
        tokens=100.0 * batch_tokens,
        steps_se=None,
        censored=censored,
        seed=seed,
    )


def revised_target(loss: float, **changes: object) -> TargetRecord:
    fields: dict[str, object] = {
        "loss": loss,
        "law": "revised",
        "b_min": Estimate(value=1234.0, low=1100.0, high=1390.0, status="ok"),
        "b_opt": Estimate(value=41_200, low=38_000, high=45_000, status="ok"),
        "s_min": 1293.8,
        "e_min": 2_834_258.0,
        "rms_log_residual": 0.0123,
        "points": [point(512, censored=True), point(1024), point(2048), point(2048, seed=1)],
    }
    return TargetRecord.model_validate(fields | changes)


def fit_of(*targets: TargetRecord, **settings: object) -> Fit:
    return Fit(ebfit_version="0", settings=dict(settings), inputs=[], runs=[], targets=list(targets))


def printed(fit: Fit, width: int = 80) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(target_table(fit))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def row(lines: list[str], start: str) -> str:
    """Return the one line whose first word is ``start``, its cells separated by single spaces."""
    found = [" ".join(line.split()) for line in lines if line.split()[:1] == [start]]
    assert len(found) == 1
    return found[0]


def test_a_target_is_one_line_of_numbers():
    lines = printed(fit_of(revised_target(2.2)))
    assert row(lines, "loss") == "loss B_min [95%] B_opt [95%] S_min E_min RMS reached"
    assert row(lines, "2.2") == "2.2 1.2K [1.1K, 1.4K] 41.2K [38.0K, 45.0K] 1.29K 2.83M 0.012 2/3"
    assert lines[3].startswith("Law revised. B and E in tokens, S in steps")


def test_the_confidence_level_of_the_fit_is_in_the_header():
    assert "B_min [90%]" in printed(fit_of(revised_target(2.2), confidence=0.9))[0]


def test_targets_come_from_high_loss_to_low():
    lines = printed(fit_of(revised_target(2.05), revised_target(2.4), revised_target(2.2)))
    assert [line[:4] for line in lines[2:5]] == ["2.40", "2.20", "2.05"]


def test_one_sided_results_show_their_bound_in_words_and_nothing_else():
    upper = Estimate(value=777.0, low=555.0, high=1200.0, status="upper_bound")
    lower = Estimate(value=888.0, low=3000.0, high=6666.0, status="lower_bound")
    lines = printed(fit_of(revised_target(2.2, b_min=upper, b_opt=lower)))
    assert row(lines, "2.2") == "2.2 <= 1.2K >= 3.0K 1.29K - 0.012 2/3"
    assert not re.search("777|888|555|666", "\n".join(lines))


def test_the_fewest_tokens_are_not_shown_where_b_opt_is_only_bounded():
    lower = Estimate(low=3000.0, status="lower_bound")
    assert "2.83M" not in "\n".join(printed(fit_of(revised_target(2.2, b_opt=lower))))


def test_nothing_identified_reads_as_words():
    target = revised_target(2.2, b_min=None, b_opt=Estimate(), s_min=None, e_min=None, rms_log_residual=None)
    assert row(printed(fit_of(target)), "2.2") == "2.2 not identified not identified - - - 2/3"


def classic_target(b_crit: Estimate) -> TargetRecord:
    return revised_target(3.42, law="classic", b_min=None, b_opt=None, b_crit=b_crit)


def test_the_classic_law_shows_b_crit_in_place_of_b_min_and_b_opt():
    lines = printed(fit_of(classic_target(Estimate(value=1.12e6, low=1.0e6, high=1.3e6, status="ok"))))
    assert row(lines, "loss") == "loss B_crit [95%] S_min E_min RMS reached"
    assert row(lines, "3.42") == "3.42 1.1M [1.0M, 1.3M] 1.29K 2.83M 0.012 2/3"


def test_a_collapsed_classic_law_shows_none_of_its_parameters():
    lines = printed(fit_of(classic_target(Estimate(value=1e19))))
    assert row(lines, "3.42") == "3.42 not identified - - 0.012 2/3"


def test_groups_stand_under_their_names_in_the_order_of_the_fit():
    long_name = "a group name that is a good deal longer than any of the columns of the table"
    lines = printed(
        fit_of(
            revised_target(3.4, group="85M"),
            revised_target(3.2, group="85M"),
            revised_target(3.4, group=long_name),
        )
    )
    assert sum(line.startswith("loss") for line in lines) == 1
    assert [line[:3] for line in lines[2:5]] == ["85M", " 3.", " 3."]
    assert lines[5] == long_name
    assert lines[3][5:] == lines[6][5:]


def test_identical_warnings_are_one_numbered_note():
    few = "Only 5 batch sizes reached this target."
    lines = printed(
        fit_of(
            revised_target(2.4),
            revised_target(2.2, warnings=[few]),
            revised_target(2.0, warnings=[few, "The law fits badly."]),
        )
    )
    assert [row(lines, loss).split()[-1] for loss in ("2.4", "2.2", "2.0")] == ["2/3", "1", "1,2"]
    assert f"1. {few}" in lines
    assert "2. The law fits badly." in lines
    assert "\n".join(lines).count(few) == 1


def test_a_warning_of_every_target_is_said_once_without_a_number():
    lines = printed(
        fit_of(revised_target(2.4, warnings=["Look out."]), revised_target(2.2, warnings=["Look out."]))
    )
    assert "all: Look out." in lines
    assert "note" not in lines[0]


def test_square_brackets_in_a_warning_are_not_taken_for_markup():
    assert "1. Give [bold] steps." in printed(fit_of(revised_target(2.4, warnings=["Give [bold] steps."])))


def test_a_fit_without_targets_says_so():
    assert printed(fit_of()) == ["No target loss was fitted."]


def test_eight_targets_with_the_widest_cells_fit_eighty_columns_on_one_line_each():
    wide = Estimate(value=123_456, low=121_111, high=125_555, status="ok")
    losses = (2.5251, 2.4, 2.3, 2.2, 2.1, 2.05, 2.0, 1.95)
    letters = "abcdefghijklmnopqrstuvwx"
    targets = [
        revised_target(
            loss,
            b_min=wide,
            b_opt=wide,
            s_min=12_345.0,
            e_min=12_345_678.0,
            points=[point(2.0**k, censored=k < 3) for k in range(14)],
            warnings=[f"Note {letter}." for letter in letters[3 * i : 3 * i + 3]],
        )
        for i, loss in enumerate(losses)
    ]
    lines = printed(fit_of(*targets))
    assert max(map(len, lines)) <= 80
    assert row(lines, "1.9500") == "1.9500 123K [121K, 126K] 123K [121K, 126K] 12.3K 12.3M 0.012 11/14 22-24"
    assert row(lines, "loss").endswith("reached note")
    assert sum(bool(re.match(r"\d\.\d{4} ", line)) for line in lines) == 8


def test_warnings_that_differ_in_numbers_only_are_one_note_with_their_ranges():
    def warning(reached: int, smallest: str, rms: str) -> str:
        return f"only {reached} batch sizes reached it, from {smallest}, B_1 of 85M: 0.5, {rms}."

    lines = printed(
        fit_of(
            revised_target(2.4, warnings=[warning(6, "1,024", "0.02")]),
            revised_target(2.2, warnings=["Another one."]),
            revised_target(2.0, warnings=[warning(5, "512", "0.1")]),
        ),
        width=120,
    )
    assert "1. only 5 to 6 batch sizes reached it, from 512 to 1,024, B_1 of 85M: 0.5, 0.02 to 0.1." in lines
    assert [row(lines, loss).split()[-1] for loss in ("2.4", "2.2", "2.0")] == ["1", "2", "1"]


def test_a_batch_size_that_went_through_a_logarithm_is_still_a_whole_number():
    assert size(63.999999999999986) == "64"
    assert size(96.5) == "96.5"
    assert size(8192) == "8.19K"
