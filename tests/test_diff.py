"""`ebfit diff`: what counts as moved, what both fits must hold, and what a person and a program are told."""

import json
import re

import pytest
from fits import fit_of, trend
from hypothesis import given
from hypothesis import strategies as st

from ebfit.changes import diff, number_change
from ebfit.errors import BadInputError
from ebfit.files import Diff, Estimate, Fit, GroupTrends, Input, SkippedTarget, TargetRecord, Trends

OK = Estimate(value=1000.0, low=800.0, high=1300.0, status="ok")
UNKNOWN = Estimate()


def ok(value, low, high):
    return Estimate(value=value, low=low, high=high, status="ok")


def at_most(high):
    return Estimate(high=high, status="upper_bound")


def at_least(low):
    return Estimate(low=low, status="lower_bound")


def fit(*targets, **more):
    """A fit of targets given as (loss, B_min, B_opt), without growth lines."""
    records = [
        TargetRecord(loss=loss, law="revised", b_min=b_min, b_opt=b_opt) for loss, b_min, b_opt in targets
    ]
    parts = {"ebfit_version": "1", "settings": {"confidence": 0.95}, "inputs": [], "runs": []} | more
    return Fit(schema="ebfit.fit/1", targets=records, **parts)


# --- what counts as moved ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        (OK, ok(1290, 1200, 1400), False),
        (OK, ok(1310, 1200, 1400), True),
        (OK, ok(790, 700, 900), True),
        # a vague new value is still outside of what the old fit promised
        (OK, ok(2000, 500, 8000), True),
        # the old value lies far outside of the new interval, but the old fit allowed the new value
        (ok(1000, 500, 2000), ok(1900, 1850, 1950), False),
        # of a bound, everything that it allows has to lie outside
        (OK, at_most(900), False),
        (OK, at_most(790), True),
        (OK, at_least(1290), False),
        (OK, at_least(1310), True),
        (OK, UNKNOWN, False),
        # a value beyond an old bound
        (at_most(900), ok(890, 800, 1000), False),
        (at_most(900), ok(1000, 850, 1200), True),
        (at_least(900), ok(1000, 850, 1200), False),
        (at_least(900), ok(800, 750, 1200), True),
        # bounds of one side always have values in common
        (at_most(900), at_most(10), False),
        (at_least(900), at_least(10_000), False),
        (at_most(900), at_least(1000), True),
        (at_most(900), at_least(800), False),
        (at_least(1000), at_most(900), True),
        # who knew nothing is not contradicted
        (UNKNOWN, ok(1, 1, 1), False),
        (UNKNOWN, at_most(1), False),
        (UNKNOWN, UNKNOWN, False),
    ],
)
def test_a_number_has_moved_if_what_is_said_of_it_now_lies_outside_the_old_interval(old, new, moved):
    assert number_change(old, new).moved is moved


def test_rounding_moves_nothing_however_narrow_the_interval():
    exact = ok(1000.0, 1000.0 - 1e-9, 1000.0 + 1e-9)
    assert not number_change(exact, ok(1000.9, 1000.9, 1000.9)).moved
    assert number_change(exact, ok(1001.1, 1001.1, 1001.1)).moved
    # exponents may be zero, and are told apart by differences
    assert not number_change(ok(0.0, 0.0, 0.0), ok(0.0009, 0.0, 0.1), relative=False).moved
    assert number_change(ok(0.0, 0.0, 0.0), ok(0.0011, 0.0, 0.1), relative=False).moved


def test_an_estimate_without_its_numbers_promises_nothing():
    """A fit.json may have been written by hand."""
    for hollow in (Estimate(status="ok"), Estimate(status="upper_bound"), Estimate(status="lower_bound")):
        assert not number_change(hollow, OK).moved
        assert not number_change(OK, hollow).moved
    # an interval that does not hold its own value is stretched to it
    outside = ok(1000.0, 1100.0, 1200.0)
    assert not number_change(outside, outside).moved


def test_ratios_are_of_what_both_give():
    assert number_change(OK, ok(1500, 1, 2000)).ratio == pytest.approx(1.5)
    assert number_change(at_most(100), at_most(50)).ratio == pytest.approx(0.5)
    assert number_change(at_least(100), at_least(50)).ratio == pytest.approx(0.5)
    assert number_change(OK, at_most(50)).ratio is None
    assert number_change(UNKNOWN, UNKNOWN).ratio is None
    assert number_change(ok(0.0, 0.0, 0.0), OK).ratio is None


sizes = st.floats(1.0, 1e9)
estimates = st.one_of(
    st.builds(lambda three: ok(sorted(three)[1], min(three), max(three)), st.tuples(sizes, sizes, sizes)),
    st.builds(at_most, sizes),
    st.builds(at_least, sizes),
    st.just(UNKNOWN),
)


@given(estimates)
def test_a_number_does_not_differ_from_itself(estimate):
    change = number_change(estimate, estimate)
    assert (change.moved, change.lost, change.found, change.old_outside_new) == (False,) * 4
    assert change.ratio in (None, 1.0)


@given(estimates, estimates)
def test_swapping_the_fits_mirrors_the_comparison(a, b):
    there, back = number_change(a, b), number_change(b, a)
    assert (there.moved, there.lost) == (back.old_outside_new, back.found)
    assert (there.ratio is None) == (back.ratio is None)
    if there.ratio is not None:
        assert there.ratio * back.ratio == pytest.approx(1.0)


@given(estimates, estimates, st.floats(1e-3, 1e6))
def test_the_unit_of_batch_sizes_decides_nothing(a, b, factor):
    def scaled(estimate):
        ends = ((name, getattr(estimate, name)) for name in ("value", "low", "high"))
        return estimate.model_copy(update={name: None if end is None else end * factor for name, end in ends})

    plain, larger = number_change(a, b), number_change(scaled(a), scaled(b))
    edges = [end for end in (a.value, a.low, a.high, b.value, b.low, b.high) if end is not None]
    at_an_edge = any(abs(abs(x / y - 1.0) - 1e-3) < 1e-9 for x in edges for y in edges)
    assert at_an_edge or (plain.moved, plain.old_outside_new) == (larger.moved, larger.old_outside_new)


@given(st.lists(st.tuples(st.sampled_from([1.0, 2.0, 2.5, 3.0]), estimates, estimates), min_size=1))
def test_a_fit_does_not_differ_from_itself(targets):
    """Also where a loss stands in it twice."""
    found = diff(fit(*targets), fit(*targets))
    assert (found.moved, found.lost, found.only_old, found.only_new) == (0, 0, [], [])
    assert (found.settings, found.compared) == ({}, 2 * len(targets))


# --- targets, lines, settings, inputs ------------------------------------------------------------------------------


def test_targets_are_matched_by_loss_and_group():
    old = fit((2.4, OK, OK), (2.3, OK, OK), (2.2, OK, OK))
    new = fit((2.2, OK, at_most(700)), (2.4 * (1 + 1e-12), OK, OK), (2.1, OK, OK))
    old.skipped_targets = [SkippedTarget(loss=2.1, reason="no run reaches it")]
    found = diff(old, new)
    assert [target.loss for target in found.targets] == [2.4, 2.2]
    assert [target.b_opt.moved for target in found.targets] == [False, True]
    assert (found.compared, found.moved, found.lost) == (4, 1, 1)
    assert [(target.loss, target.skipped) for target in found.only_old] == [(2.3, None)]
    assert [(target.loss, target.skipped) for target in found.only_new] == [(2.1, "no run reaches it")]
    new.targets[0].group = "85M"
    assert [target.loss for target in diff(old, new).targets] == [2.4]


def test_growth_lines_are_compared_where_both_were_measured():
    old, new = (
        Trends(b_opt_vs_tokens=line) for line in (trend(), trend(exponent=0.62, d_low=1e7, d_high=1e8))
    )
    (line,) = diff(fit(trends=old), fit(trends=new)).growth
    assert (line.line, line.group) == ("b_opt_vs_tokens", None)
    # the old exponent is 0.5 [0.4, 0.6]; B_opt goes from 2 D^0.5 to 2 D^0.62
    assert line.exponent.moved
    assert line.at_tokens == 1e8
    assert line.batch_tokens.ratio == pytest.approx(1e8**0.12)
    assert line.batch_tokens.moved


def test_fits_without_a_common_loss_are_compared_by_their_lines():
    """Picked targets change with the runs."""
    found = diff(fit_of(targets=7), fit_of(targets=5))
    assert len(found.targets) == 3  # both ends, and the middle
    different = fit_of(trend(d_low=2e6, d_high=8e8), targets=5)
    found = diff(fit_of(targets=7), different)
    assert not found.targets
    assert [(line.line, line.at_tokens) for line in found.growth] == [
        ("b_min_vs_tokens", 1e9),
        ("b_opt_vs_tokens", 8e8),
    ]
    assert (found.moved, found.compared) == (0, 4)


def test_a_line_that_is_no_longer_found_is_lost():
    found = diff(fit((2.4, OK, OK), trends=Trends(b_opt_vs_tokens=trend())), fit((2.4, OK, OK)))
    assert (found.moved, found.lost, found.growth[0].batch_tokens) == (0, 1, None)


def test_lines_of_groups_are_matched_by_name():
    def grouped(**exponents):
        groups = [
            GroupTrends(group=name, b_opt_vs_tokens=trend(exponent=value))
            for name, value in exponents.items()
        ]
        return fit(trends=Trends(b_opt_vs_tokens=trend(), groups=groups))

    found = diff(grouped(small=0.5, large=0.5), grouped(large=0.7, other=0.5))
    assert [(line.group, line.exponent.moved) for line in found.growth] == [(None, False), ("large", True)]


def test_settings_and_inputs_that_differ_are_named():
    files = {"same": "1", "edited": "2", "gone": "3", "here": "4"}
    moved_files = {"same": "1", "edited": "5", "there": "4", "fresh": "6"}
    old, new = (
        fit((2.4, OK, OK), inputs=[Input(path=path, sha256=sha) for path, sha in given.items()])
        for given in (files, moved_files)
    )
    old.settings |= {"loss": "val", "loss_reason": "every run has 20 rows of it", "seed": 0}
    new.settings |= {
        "loss": "train",
        "loss_reason": "every run has 50 rows of it",
        "coupling": "shared",
        "seed": 0,
    }
    found = diff(old, new)
    assert {key: (change.old, change.new) for key, change in found.settings.items()} == {
        "loss": ("val", "train"),
        "coupling": (None, "shared"),
    }
    inputs = found.inputs
    assert (inputs.added, inputs.removed, inputs.changed) == (["fresh"], ["gone"], ["edited"])
    assert [(item.old, item.new) for item in inputs.renamed] == [("here", "there")]


# --- nothing to compare --------------------------------------------------------------------------------------------


def test_fits_with_nothing_in_common_are_refused():
    with pytest.raises(
        BadInputError, match=r"a\.json and the new fit have no target loss in common.*--targets"
    ):
        diff(fit((2.4, OK, OK)), fit((2.3, OK, OK)), old_path="a.json")
    classic = fit((2.4, None, None))
    classic.targets[0].b_crit = OK
    with pytest.raises(BadInputError, match=r"no number in common.*--law"):
        diff(fit((2.4, OK, OK)), classic)
    assert diff(classic, classic).compared == 1


# --- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def ebfit_diff(ebfit, tmp_path):
    """Write two fits and compare them; returns (exit status, stdout, stderr)."""

    def run(old, new, *options):
        paths = [tmp_path / "old.json", tmp_path / "new.json"]
        for path, content in zip(paths, (old, new), strict=True):
            if isinstance(content, Fit):
                content.save(path)
            elif content is not None:
                path.write_bytes(content)
        return ebfit("diff", *paths, *options)

    return run


MOVED = fit((2.4, OK, OK), (2.2, OK, OK)), fit((2.4, OK, OK), (2.2, OK, ok(2000, 1800, 2200)))
LOST = fit((2.4, OK, OK), (2.2, OK, OK)), fit((2.4, OK, OK), (2.2, OK, at_most(1500)))
GONE = fit((2.4, OK, OK), (2.2, OK, OK)), fit((2.4, OK, OK))


@pytest.mark.parametrize(
    ("fits", "status", "strict_status"),
    [
        ((MOVED[0], MOVED[0]), 0, 0),
        (MOVED, 1, 1),
        (LOST, 0, 1),
        (LOST[::-1], 0, 0),
        (GONE, 0, 1),
        (GONE[::-1], 0, 0),
    ],
)
def test_exit_status(ebfit_diff, fits, status, strict_status):
    assert ebfit_diff(*fits)[0] == status
    assert ebfit_diff(*fits, "--json")[0] == status
    assert ebfit_diff(*fits, "--strict")[0] == strict_status


def test_what_moved_is_told_and_the_rest_is_not(ebfit_diff):
    _, out, err = ebfit_diff(*MOVED)
    assert err == ""
    (row,) = [line for line in out.splitlines() if line.startswith("2.2")]
    assert row.split() == ["2.2", "B_opt", "1.0K", "[800,", "1.3K]", "2.0K", "[1.8K,", "2.2K]", "2", "moved"]
    assert not re.search(r"^2\.4", out, re.MULTILINE)
    assert "3 numbers that differ by less than 0.1% left out" in out
    assert out.endswith("moved out of the old interval: B_opt of 2.2; 4 numbers compared.\n")


def test_equal_fits_are_told_in_a_line(ebfit_diff):
    _, out, _ = ebfit_diff(MOVED[0], MOVED[0])
    assert out.splitlines()[-1] == "Nothing differs by more than 0.1%; 4 numbers compared."
    assert "2.4" not in out


def test_json_is_one_document_that_reads_back(ebfit_diff):
    _, out, err = ebfit_diff(*MOVED, "--json")
    assert err == ""
    document = json.loads(out)
    assert (document["schema"], document["moved"], document["compared"]) == ("ebfit.diff/1", 1, 4)
    assert document["targets"][1]["b_opt"]["ratio"] == 2.0
    assert Diff.model_validate_json(out).targets[1].b_opt.new.value == 2000.0


def test_the_table_fits_80_columns_and_holds_what_names_hold(ebfit_diff, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    old, new = fit((2.41234, ok(12345, 1234, 123456), OK)), fit((2.41234, ok(234567, 1234, 987654), OK))
    for one in (old, new):
        one.targets[0].group = "a-very-long-name-of-a-model-\x1b[31m-85M"
        one.trends = Trends(b_opt_vs_tokens=trend(d_high=1.23e11 if one is old else 2e11))
    status, out, _ = ebfit_diff(old, new)
    assert status == 1
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert "12K [1.2K, 120K]" in out


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"\xff\xfe\x00",
        b"[]",
        b"{}",
        b'{"schema": "ebfit.plan/1"}',
        b"[" * 100_000,
        b"\x80\x04\x95pickle",
        MOVED[0].model_dump_json(by_alias=True).replace("2.4", "NaN").encode(),
        MOVED[0].model_dump_json(by_alias=True).replace("1000.0", "1e999").encode(),
        MOVED[0].model_dump_json(by_alias=True)[:-20].encode(),
    ],
    ids=[
        "missing",
        "empty",
        "binary",
        "list",
        "object",
        "plan",
        "deep",
        "pickle",
        "nan",
        "huge",
        "truncated",
    ],
)
def test_what_is_no_fit_json_is_refused(ebfit_diff, content):
    for old, new, name in ((content, MOVED[0], "old"), (MOVED[0], content, "new")):
        if content is None and name == "new":
            continue  # written a moment ago
        status, out, err = ebfit_diff(old, new)
        assert (status, out) == (2, ""), err
        assert f"{name}.json: " in err
        assert "Traceback" not in err
        assert "internal error" not in err


@pytest.mark.parametrize("value", [0.0, -5.0, 1e308, 5e-324])
def test_absurd_numbers_are_compared_and_do_not_crash(ebfit_diff, value):
    absurd = ok(value, value, value)
    status, out, err = ebfit_diff(fit((2.4, OK, OK)), fit((2.4, OK, absurd)))
    assert (status, err) == (1, "")
    assert "moved" in out
    assert ebfit_diff(fit((2.4, OK, absurd)), fit((2.4, OK, absurd)))[0] == 0
    assert json.loads(ebfit_diff(fit((2.4, absurd, OK)), fit((2.4, OK, OK)), "--json")[1])["moved"] == 1
