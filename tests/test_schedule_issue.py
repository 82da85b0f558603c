"""Faults that `ebfit schedule` has had, each with a case that is named after it."""

import json
from math import log
from pathlib import Path
from typing import Any

import pytest
from fits import fit_of, trend

from ebfit.batch_plan import BatchPlan
from ebfit.cli.main import main
from ebfit.errors import BadInputError
from ebfit.files import Agreement, Fit, Plan, Trends
from ebfit.schedule.prediction import level_reached
from ebfit.schedule.source import Source
from ebfit.schedule.trainers import TRAINERS, Setup
from ebfit.schedule.trainers.factor_chain import is_factor_chain, nearest_factor_chain
from ebfit.schedule.trainers.megatron_rampup import Ramp
from ebfit.schedule.trainers.ramp import best_ramp, distance

SIZE = ("--total-tokens", "20B", "--seq-len", "4096")


@pytest.fixture(autouse=True)
def fit_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with a fit.json."""
    monkeypatch.chdir(tmp_path)
    fit_of().save("fit.json")


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["schedule", *arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def _edit(name: str, path: tuple[str | int, ...], value: Any) -> None:
    document = json.loads(Path(name).read_text())
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    Path(name).write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("k", 0),
        ("exponent", float("inf")),
        ("exponent", float("nan")),
        ("exponent_high", 0.1),
        ("d_low", 1e12),
        ("d_high", 0),
        ("pivot_tokens", -1),
        ("pivot_batch_tokens", 0),
        ("log_sd_at_pivot", -0.1),
        ("exponent_sd", float("inf")),
        ("quantile", float("-inf")),
    ],
)
def test_a_number_that_is_none_of_a_trend_is_an_internal_error(
    capsys: pytest.CaptureFixture[str], field: str, value: float
):
    _edit("fit.json", ("trends", "b_opt_vs_tokens", field), value)
    status, _, err = _run(capsys, "fit.json", *SIZE)
    assert status == 2
    assert err.startswith("ebfit: fit.json: not a fit.json that this version reads: trends.b_opt_vs_tokens")


@pytest.mark.parametrize("field", ["log_sd_at_pivot", "exponent_sd", "exponent"])
def test_the_band_of_a_steep_line_overflows(capsys: pytest.CaptureFixture[str], field: str):
    """Three noisy targets that lie near each other have such exponents."""
    _edit("fit.json", ("trends", "b_opt_vs_tokens", field), 90.0)
    _edit("fit.json", ("trends", "b_opt_vs_tokens", "exponent_high"), None)
    status, _, err = _run(capsys, "fit.json", *SIZE, "--bound", "high", "--plots", ".", "-o", "plan.json")
    assert (status, "internal error" in err) == (0, False)
    assert Plan.load("plan.json").batch_plan().total_tokens == 20 * 10**9


@pytest.mark.parametrize("confidence", ["x", None, 2, float("nan"), []])
def test_a_confidence_that_is_none_is_an_internal_error(
    capsys: pytest.CaptureFixture[str], confidence: object
):
    _edit("fit.json", ("settings", "confidence"), confidence)
    status, _, err = _run(capsys, "fit.json", "--total-tokens", "5B", "--seq-len", "4096")
    assert (status, "confidence must be a number between 0 and 1" in err) == (2, True)


def test_a_fit_without_points_is_an_internal_error(capsys: pytest.CaptureFixture[str]):
    for number in range(7):
        _edit("fit.json", ("targets", number, "points"), [])
    assert _run(capsys, "fit.json", "--total-tokens", "5B", "--seq-len", "4096")[0] == 0


@pytest.mark.parametrize("tokens", ["1e30", "18446744073709551616", "9223372036854775808"])
def test_more_tokens_than_64_bits_hold_are_an_internal_error(capsys: pytest.CaptureFixture[str], tokens: str):
    status, _, err = _run(capsys, "fit.json", "--total-tokens", tokens, "--seq-len", "4096")
    assert (status, err) == (2, "ebfit: --total-tokens is above 2^63, more than any trainer counts to.\n")


@pytest.mark.parametrize(
    ("sizes", "options", "sentence"),
    [
        ("327680", ["--max-batch", "163840"], "is not within 4,096 to 163,840 tokens"),
        ("327680", ["--max-batch", "163840"], "nearest: 163,840."),
        ("40960", ["--round-to-power-of-two"], "is no power of two in sequences"),
        ("40960", ["--round-to-power-of-two"], "nearest: 32,768 or 65,536."),
        ("1T", [], "nearest: 19,999,997,952."),
        ("4097", [], "nearest: 4,096 or 8,192."),
    ],
)
def test_a_size_that_is_refused_is_offered_as_the_nearest_to_itself(
    capsys: pytest.CaptureFixture[str], sizes: str, options: list[str], sentence: str
):
    status, _, err = _run(capsys, "fit.json", *SIZE, "--sizes", sizes, *options)
    assert (status, sentence in err) == (2, True)


def test_a_size_left_out_for_max_stages_is_said_to_be_too_short(capsys: pytest.CaptureFixture[str]):
    _, _, err = _run(capsys, "fit.json", *SIZE, "--sizes", "40960,81920,163840", "--max-stages", "1")
    assert err.count("or be one more than --max-stages") == 2


def test_min_batch_is_blamed_for_what_the_devices_want(capsys: pytest.CaptureFixture[str]):
    _, _, err = _run(capsys, "fit.json", *SIZE, "--min-batch", "4096", "--micro-batch", "100000")
    assert "less than a multiple of 409,600,000 tokens allows" in err


def test_powers_of_two_are_not_named_where_they_leave_no_size(capsys: pytest.CaptureFixture[str]):
    limits = ("--min-batch", "20480", "--max-batch", "28672")
    status, _, err = _run(capsys, "fit.json", *SIZE, "--round-to-power-of-two", *limits)
    assert (status, "powers of two in sequences" in err) == (2, True)


def test_a_group_without_a_fit_is_passed_over(capsys: pytest.CaptureFixture[str]):
    status, _, err = _run(capsys, "--stages", "0:40960", *SIZE, "--group", "small")
    assert (status, "no fit" in err) == (2, True)


def test_a_format_without_a_name_is_json(capsys: pytest.CaptureFixture[str]):
    status, _, err = _run(capsys, "fit.json", *SIZE, "--format", "")
    assert (status, "not known" in err) == (2, True)


def test_a_group_without_a_trend_gets_that_of_all(capsys: pytest.CaptureFixture[str]):
    fit = fit_of()
    for number, target in enumerate(fit.targets):
        target.group = "small" if number < 4 else "large"
    fit.save("groups.json")
    status, _, err = _run(capsys, "groups.json", *SIZE, "--group", "small")
    assert (status, "holds no trend of B_opt, though 4 of its 4 targets identify it" in err) == (1, True)


@pytest.mark.parametrize(("policy", "symbol"), [("optimal", None), ("minimum", "B_min")])
def test_groups_that_disagree_on_b_min_are_said_to_disagree_on_b_opt(
    capsys: pytest.CaptureFixture[str], policy: str, symbol: str | None
):
    fit: Fit = fit_of()
    disagree = Agreement(statistic=20.0, degrees_of_freedom=2, p_value=1e-4)
    fit.trends = Trends(**dict(fit.trends) | {"agreement": {"b_min_vs_tokens": disagree}})
    fit.save("groups.json")
    _, _, err = _run(capsys, "groups.json", *SIZE, "--policy", policy)
    assert (f"do not share one trend of {symbol}" in err) == (symbol is not None)
    assert "do not share one trend of B_opt" not in err


def test_a_plan_whose_steps_were_edited_is_shown_with_them(capsys: pytest.CaptureFixture[str]):
    _run(capsys, "fit.json", *SIZE, "-o", "plan.json")
    _edit("plan.json", ("total_steps",), 7)
    status, _, err = _run(capsys, "plan.json")
    assert (status, "says 7 steps" in err) == (2, True)


def test_a_plan_is_written_for_devices_that_it_does_not_fill(capsys: pytest.CaptureFixture[str]):
    _run(capsys, "--stages", "0:40960,1B:81920", *SIZE, "-o", "plan.json")
    status, _, err = _run(capsys, "plan.json", "--format", "json", "--micro-batch", "3")
    assert (status, "10 sequences are no multiple of micro-batch 3" in err) == (2, True)
    status, _, _ = _run(capsys, "plan.json", "-o", "other.json", "--micro-batch", "5", "--data-parallel", "2")
    assert (Plan.load("other.json").micro_batch, Plan.load("other.json").data_parallel) == (5, 2)


@pytest.mark.parametrize(
    ("field", "value"), [("micro_batch", -4), ("micro_batch", 0), ("total_steps", 2**63)]
)
def test_counts_that_are_none_are_taken_from_a_plan(
    capsys: pytest.CaptureFixture[str], field: str, value: int
):
    _run(capsys, "fit.json", *SIZE, "-o", "plan.json")
    _edit("plan.json", (field,), value)
    status, _, err = _run(capsys, "plan.json", "--format", "megatron")
    assert (status, f": {field}: " in err) == (2, True)


def test_a_policy_with_control_characters_clears_the_terminal(capsys: pytest.CaptureFixture[str]):
    _run(capsys, "fit.json", *SIZE, "-o", "plan.json")
    _edit("plan.json", ("policy",), "\x1b[2Joptimal")
    _, out, _ = _run(capsys, "plan.json")
    assert "\x1b" not in out
    assert r"\x1b[2Joptimal" in out


def _check(
    capsys: pytest.CaptureFixture[str], name: str, content: str | bytes, *more: str
) -> tuple[int, str]:
    Path("file").write_bytes(content.encode() if isinstance(content, str) else content)
    status, out, err = _run(capsys, "--check", "file", "--format", name, "--seq-len", "4096", *more)
    return status, out + err


def test_mappings_that_name_each_other_are_looked_through_for_ever(capsys: pytest.CaptureFixture[str]):
    lines = ["a0: &a0 {x: 1}"]
    for number in range(1, 12):
        inside = ", ".join(f"k{key}: *a{number - 1}" for key in range(9))
        lines.append(f"a{number}: &a{number} {{{inside}}}")
    status, told = _check(capsys, "levanter", "\n".join(lines))
    assert (status, told) == (2, "ebfit: file: there is no train_batch_size.\n")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("maxtext", "per_device_batch_size: 0x" + "f" * 6000),
        ("lightning", "f(scheduling={0: (0 - 8) ** 0.5}, limit_train_batches=3)"),
        ("internevo", "micro_num = (0 - 8) ** 0.5\nmicro_bsz = 1"),
    ],
)
def test_a_number_that_nobody_can_mean_is_an_internal_error(
    capsys: pytest.CaptureFixture[str], name: str, content: str
):
    status, told = _check(capsys, name, content, "--micro-batch", "2", "--data-parallel", "8")
    assert (status, "internal error" in told) == (2, False)


def test_python_with_a_doubtful_string_cannot_be_checked(capsys: pytest.CaptureFixture[str]):
    content = r'data = dict(path="C:\data", micro_num=8, micro_bsz=1, rampup_batch_size="2 2 100", total_steps=1000)'
    status, told = _check(capsys, "internevo", content, "--micro-batch", "1", "--data-parallel", "1")
    assert (status, "SyntaxWarning" in told) == (0, False)


@pytest.mark.parametrize("name", ["json", "yaml", "csv", "megatron", "levanter"])
def test_a_file_that_a_spreadsheet_has_saved_cannot_be_checked(capsys: pytest.CaptureFixture[str], name: str):
    """Many editors put a byte order mark in front."""
    _run(capsys, "--stages", "0:40960,1B:81920", *SIZE, "--format", name, "-o", "export")
    status, told = _check(capsys, name, b"\xef\xbb\xbf" + Path("export").read_bytes())
    assert (status, "no errors, no warnings" in told) == (0, True)


def test_batches_of_millions_of_sequences_fill_the_memory():
    sizes = [3_000_001, 7_000_000, 20_000_003, 50_000_000]
    plan = BatchPlan.from_sizes(
        [(number * 10**12, size) for number, size in enumerate(sizes)], total_tokens=4 * 10**12, seq_len=1
    )
    chain = nearest_factor_chain(plan, 1)
    assert is_factor_chain(chain)
    assert all(abs(log(near / size)) < 0.3 for near, size in zip(chain, sizes, strict=True))


def _many_stages(stages: int) -> BatchPlan:
    sizes = [1000 + int(40_320 * (number / (stages - 1)) ** 1.3) for number in range(stages)]
    return BatchPlan.from_sizes(
        [(number * 10**9, size) for number, size in enumerate(sizes)],
        total_tokens=(stages + 1) * 10**9,
        seq_len=1,
    )


def test_a_plan_of_many_stages_has_more_ramps_than_can_be_tried():
    plan = _many_stages(30)
    tried = []

    def run(ramp: Ramp) -> list[tuple[int, int]]:
        tried.append(ramp)
        return ramp.sizes(plan.total_tokens)

    every = [Ramp(1000, 40_320 // 48, samples, 41_320) for samples in range(10**9, 31 * 10**9, 10**6)]
    best, _ = best_ramp(plan, every, run, most_tried=100)
    found = distance(plan, best.sizes(plan.total_tokens))
    assert len(tried) < 500
    assert found < 1.001 * min(distance(plan, ramp.sizes(plan.total_tokens)) for ramp in every[::50])


def test_epochs_of_two_hundred_batch_sizes_are_an_internal_error():
    with pytest.raises(BadInputError, match="no epoch of a thousandth of the run"):
        TRAINERS["lightning"].export(_many_stages(200), Setup(1, 1))


@pytest.mark.parametrize("sizes", [[936_000, 1_872_000, 3_744_000], [3_744_000, 3_744_001, 3_744_032]])
def test_batches_far_above_b_opt_are_predicted_to_gain_from_forgetting(sizes: list[int]):
    """A few steps reach a level far below the tokens of one step."""
    b_opt = trend(k=0.0965, exponent=0.862, d_low=1.6e6, d_high=4.6e7)
    plan = BatchPlan.from_sizes(
        [(number * 13_104_000, size) for number, size in enumerate(sizes)], total_tokens=42_854_546, seq_len=1
    )
    reached = level_reached(plan, b_opt, Source(fit_of(b_opt), "fit").cost, 0.95)
    assert reached.by_loss.value is not None
    assert reached.by_steps.value is not None
    assert reached.by_loss.value <= 1.001 * reached.by_steps.value


def test_a_batch_that_outgrows_the_tokens_is_predicted_all_the_same(capsys: pytest.CaptureFixture[str]):
    fit_of(trend(k=1e-8, exponent=1.3)).save("steep.json")
    status, out, err = _run(capsys, "steep.json", "--total-tokens", "2B", "--seq-len", "16")
    assert (status, "Predicted" in out) == (0, False)
    assert "grows faster than the tokens" in err


def test_columns_of_a_long_run_are_cut_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = _run(capsys, "fit.json", "--total-tokens", "100T", "--seq-len", "16", "--lr-rule", "sqrt")
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert "1.250M" in out
    assert "1.41" in out


def test_a_sentence_names_two_hundred_batch_sizes():
    notes = TRAINERS["olmo-core"].export(_many_stages(200), Setup()).notes
    assert max(map(len, notes)) < 500


def test_a_loss_that_explodes_towards_few_tokens_is_an_internal_error(capsys: pytest.CaptureFixture[str]):
    _edit("fit.json", ("trends", "loss_vs_tokens", "c"), 1e300)
    assert _run(capsys, "fit.json", "--total-tokens", "5B", "--seq-len", "4096", "-o", "plan.json")[0] == 0
    assert all(stage.start_loss is None for stage in Plan.load("plan.json").stages)
