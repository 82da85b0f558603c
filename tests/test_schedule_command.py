"""`ebfit schedule` as people call it: what it prints, writes and refuses."""

import json
from pathlib import Path

import pytest
from fits import fit_of, trend

from ebfit import BatchPlan
from ebfit.cli.main import COMMANDS, main
from ebfit.files import Estimate, Plan
from ebfit.schedule.trainers import TRAINERS

WORKED_EXAMPLE = [
    "--stages",
    "0:2Mi,125B:4Mi,250B:5Mi,375B:6Mi",
    "--total-tokens",
    "500B",
    "--seq-len",
    "4096",
]
SIZE = ["--total-tokens", "1B", "--seq-len", "8"]


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run the command; return exit status, stdout and stderr."""
    with pytest.raises(SystemExit) as stop:
        main(["schedule", *map(str, arguments)])
    printed = capsys.readouterr()
    return int(stop.value.code or 0), printed.out, printed.err


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    fit_of().save(tmp_path / "fit.json")


def test_the_command_is_listed():
    assert "schedule" in COMMANDS


def test_a_plan_is_shown_and_written(capsys: pytest.CaptureFixture[str]):
    status, out, err = _run(capsys, "fit.json", *SIZE, "--decay-fraction", "0.1", "-o", "plan.json")
    assert (status, err) == (0, "")
    plan = BatchPlan.load("plan.json")
    assert (plan.total_tokens, plan.seq_len, plan.policy) == (10**9, 8, "optimal")
    assert plan.decay_start_tokens == pytest.approx(9e8, abs=plan.stages[-1].batch_tokens)
    assert Plan.load("plan.json").inputs[0].path == "fit.json"
    assert out.splitlines()[0] == "Policy optimal: 1.00B tokens in sequences of 8, decay from 900M."
    assert len([line for line in out.splitlines() if line[:1].isdigit()]) >= len(plan.stages)
    assert f"{plan.total_steps:,} steps in all" in out
    assert out.endswith("wrote plan.json\n")
    assert max(map(len, out.splitlines())) <= 80


def test_the_same_fit_gives_the_same_file(capsys: pytest.CaptureFixture[str]):
    for name in ("one.json", "other.json"):
        _run(capsys, "fit.json", *SIZE, "-o", name)
    assert Path("one.json").read_bytes() == Path("other.json").read_bytes()


def test_without_an_output_nothing_is_kept(capsys: pytest.CaptureFixture[str]):
    before = sorted(Path().iterdir())
    status, out, _ = _run(capsys, "fit.json", *SIZE)
    assert status == 0
    assert out.endswith("The plan was not kept; -o plan.json would.\n")
    assert sorted(Path().iterdir()) == before


def test_a_format_without_an_output_is_all_there_is_on_stdout(capsys: pytest.CaptureFixture[str]):
    status, out, err = _run(capsys, "fit.json", *SIZE, "--format", "json")
    assert status == 0
    assert BatchPlan.from_dict(json.loads(out)).total_tokens == 10**9
    assert "Policy optimal" in err


@pytest.mark.parametrize("name", sorted(TRAINERS))
def test_the_worked_example_is_written_for_every_trainer(name: str, capsys: pytest.CaptureFixture[str]):
    """2Mi -> 4Mi -> 5Mi -> 6Mi every 125B tokens: exactly, or the nearest with a note that says so."""
    setup = ["--micro-batch", "2", "--data-parallel", "64"]
    status, out, err = _run(capsys, *WORKED_EXAMPLE, *setup, "--format", name, "-o", "schedule")
    assert (status, "wrote schedule" in out) == (0, True), err
    text = Path("schedule").read_text()
    exact = {"json", "yaml", "csv", "megatron", "levanter", "phases"}
    if name in exact:
        assert "1536" in text
        assert "nearest" not in err
        status, _, _ = _run(capsys, *WORKED_EXAMPLE, *setup, "--format", name, "--strict")
        assert status == 0
    else:
        assert "note:" in err
        status, out, err = _run(capsys, *WORKED_EXAMPLE, *setup, "--format", name, "--strict", "-o", "strict")
        assert (status, out, Path("strict").exists()) == (2, "", False)
        assert err.startswith("ebfit: ")


def test_a_plan_is_exported_as_it_is(capsys: pytest.CaptureFixture[str]):
    _run(capsys, *WORKED_EXAMPLE, "-o", "plan.json")
    status, out, _ = _run(capsys, "plan.json", "--format", "megatron")
    assert status == 0
    assert '"0:512 125000744960:1024 250003587072:1280 375004332032:1536"' in out
    status, _, err = _run(capsys, "plan.json", "--format", "megatron", "--policy", "loss")
    assert status == 2
    assert err == "ebfit: --policy cannot be used with plan.json, which is a plan. Leave it out.\n"


def test_a_plan_remembers_its_devices(capsys: pytest.CaptureFixture[str]):
    _run(capsys, *WORKED_EXAMPLE, "--micro-batch", "2", "--data-parallel", "64", "-o", "plan.json")
    status, out, _ = _run(capsys, "plan.json", "--format", "maxtext")
    assert status == 0
    assert "per_device_batch_size: 24.0" in out


def test_a_fit_judges_stages_of_one_s_own(capsys: pytest.CaptureFixture[str]):
    status, out, _ = _run(capsys, "fit.json", "--stages", "0:8K,100M:64K", *SIZE)
    assert status == 0
    assert "Predicted: after 1.00B tokens" in out
    assert "best constant" in out


def test_far_extrapolation_is_red(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, near, _ = _run(capsys, "fit.json", "--total-tokens", "9B", "--seq-len", "8")
    _, far, _ = _run(capsys, "fit.json", "--total-tokens", "90B", "--seq-len", "8")
    assert "\x1b[1;31m" not in near
    assert "\x1b[1;31m90x" in far.replace("\x1b[1;31m     90x", "\x1b[1;31m90x")


def test_a_plot_is_drawn(capsys: pytest.CaptureFixture[str]):
    status, out, _ = _run(capsys, "fit.json", *SIZE, "--plots", "figures")
    assert status == 0
    assert "wrote figures/plan.png" in out
    assert Path("figures/plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "give a fit.json that `ebfit fit -o` wrote, or a plan of your own with --stages"),
        (["fit.json"], 2, "--total-tokens is missing: the tokens of the whole run, such as 2T"),
        (["none.json"], 2, "none.json: cannot be read"),
        (["fit.json", "--total-tokens", "1B"], 2, "--seq-len is missing"),
        (["none.json", *SIZE], 2, "none.json: cannot be read (No such file or directory)"),
        (
            ["fit.json", "--total-tokens", "100", "--seq-len", "4096"],
            2,
            "--total-tokens 100 is less than one batch",
        ),
        (
            ["fit.json", *SIZE, "--min-batch", "2M", "--max-batch", "1M"],
            2,
            "--max-batch 1,000,000 is less than",
        ),
        (
            ["fit.json", *SIZE, "--micro-batch", "8", "--data-parallel", "64", "--max-batch", "2048"],
            2,
            "--micro-batch 8 x --data-parallel 64",
        ),
        (["fit.json", *SIZE, "--sizes", "1001,4000"], 2, "--sizes: 1,001 is no multiple of 8 tokens"),
        (["fit.json", *SIZE, "--sizes", "many"], 2, "--sizes: 'many' is not a size"),
        (["fit.json", *SIZE, "--policy", "overhead"], 2, "--policy overhead: write overhead:X"),
        (["fit.json", *SIZE, "--group", "85M"], 2, "fit.json: has no group 85M"),
        (
            ["fit.json", *SIZE, "--format", "jax"],
            2,
            "--format jax: not known. `ebfit schedule --format list`",
        ),
        (["fit.json", *SIZE, "--format", "torchtitan"], 2, "not known; torchtitan reads phases."),
        (["fit.json", *SIZE, "--format", "Megatron-LM"], 2, "Megatron-LM reads megatron or megatron-rampup."),
        (["fit.json", *SIZE, "-o", "fit.json"], 2, "fit.json: is one of the files that were read"),
        (["fit.json", *SIZE, "-o", "nowhere/plan.json"], 2, "nowhere: no such folder"),
        (["fit.json", *SIZE, "--decay-fraction", "1"], 2, "--decay-fraction 1: give a part of all tokens"),
        (["fit.json", *SIZE, "--decay-fraction", "0.1", "--decay-tokens", "1M"], 2, "say the same"),
        (
            ["fit.json", *SIZE, "--stages", "0:8K", "--max-batch", "1M"],
            2,
            "--max-batch cannot be used with --stages",
        ),
        (["--stages", "0:8K,5", *SIZE], 2, "--stages 5: write START:BATCH in tokens"),
        (["--stages", "1K:8K", *SIZE], 2, "the first stage starts at 1,000 tokens. Start it at 0"),
        (["fit.json", *SIZE, "--plots", "fit.json"], 2, "fit.json"),
        (["--check", "fit.json"], 2, "say with --format what it is written for"),
        (["--check", "none", "--format", "megatron"], 2, "none: cannot be read"),
        (
            ["--check", "fit.json", "--format", "megatron", "--policy", "loss"],
            2,
            "--policy cannot be used with --check",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
):
    before = sorted(Path().iterdir())
    got, out, err = _run(capsys, *arguments)
    assert (got, out) == (status, "")
    assert said in " ".join(err.split())
    assert sorted(Path().iterdir()) == before


def test_a_plan_is_no_fit_to_check_a_schedule_against(capsys: pytest.CaptureFixture[str]):
    assert _run(capsys, "fit.json", *SIZE, "-o", "plan.json")[0] == 0
    status, out, err = _run(capsys, "plan.json", "--check", "schedule.sh", "--format", "megatron")
    assert (status, out) == (2, "")
    assert "plan.json: is a plan, and --check compares with a fit. Give the fit.json" in err


def test_a_fit_that_cannot_answer_has_exit_status_1(capsys: pytest.CaptureFixture[str]):
    fit = fit_of(targets=2)
    fit.trends.b_opt_vs_tokens = None
    fit.save("few.json")
    status, out, err = _run(capsys, "few.json", *SIZE)
    assert (status, out) == (1, "")
    assert "few.json: 2 of its 2 targets identify B_opt as a number" in err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty", b""),
        ("list", b"[]"),
        ("binary", bytes(range(256))),
        ("other schema", b'{"schema": "ebfit.fit/2"}'),
        ("no plan", b'{"schema": "ebfit.plan/1"}'),
        ("deep", b"[" * 100_000),
        ("pickle", b"\x80\x04\x95\x10\x00\x00\x00"),
    ],
)
def test_files_that_are_no_fit_and_no_plan_are_named(
    name: str, content: bytes, capsys: pytest.CaptureFixture[str]
):
    Path(name).write_bytes(content)
    status, out, err = _run(capsys, name, *SIZE)
    assert (status, out) == (2, "")
    assert err.startswith(("ebfit: " + name, "ebfit: --total-tokens"))


def test_a_plan_that_contradicts_itself_is_refused(capsys: pytest.CaptureFixture[str]):
    _run(capsys, *WORKED_EXAMPLE, "-o", "plan.json")
    plan = json.loads(Path("plan.json").read_text())
    plan["stages"][1]["steps"] += 1
    Path("plan.json").write_text(json.dumps(plan))
    status, _, err = _run(capsys, "plan.json", "--format", "csv")
    assert status == 2
    assert err.startswith("ebfit: plan.json: stage 3 starts at")


def test_formats_are_listed_with_who_reads_them(capsys: pytest.CaptureFixture[str]):
    status, out, _ = _run(capsys, "--format", "list")
    assert status == 0
    listed = {line.split()[0] for line in out.splitlines() if line[:1].isalpha()}
    assert set(TRAINERS) <= listed
    assert max(map(len, out.splitlines())) <= 80


def test_a_schedule_that_its_trainer_would_die_of_has_exit_status_1(capsys: pytest.CaptureFixture[str]):
    Path("args.sh").write_text('--step-batch-size-schedule "0:512 2097152:1000" --seq-length 4096')
    arguments = ["--check", "args.sh", "--format", "megatron", "--micro-batch", "4", "--data-parallel", "128"]
    status, out, err = _run(capsys, *arguments, "--total-tokens", "1B")
    assert (status, err) == (1, "")
    assert "error: stage 2 (1,000 sequences" in out
    assert out.splitlines()[-1].startswith("args.sh: 2 stages for megatron: 1 error, ")


def test_a_plan_of_ours_checks_out(capsys: pytest.CaptureFixture[str]):
    setup = ["--micro-batch", "2", "--data-parallel", "64"]
    fit_of(trend(k=30.0, exponent=0.42, d_high=1e11)).save("fit.json")
    made = ["fit.json", "--total-tokens", "500B", "--seq-len", "4096", *setup]
    _run(capsys, *made, "--format", "megatron", "-o", "args.sh")
    status, out, _ = _run(capsys, "--check", "args.sh", "--format", "megatron", *setup, "fit.json")
    assert status == 0
    assert out.splitlines()[-1].endswith("for megatron: no errors, no warnings.")


def test_a_schedule_is_compared_with_a_fit_of_b_min_alone(capsys: pytest.CaptureFixture[str]):
    Path("args.sh").write_text("0:2")
    fit = fit_of(b_min=trend(k=2.0, exponent=0.5))
    fit.trends.b_opt_vs_tokens = None
    for target in fit.targets:
        target.b_opt = Estimate()
    fit.save("fit.json")
    arguments = ["--check", "args.sh", "--format", "megatron", *SIZE, "fit.json"]
    status, out, err = _run(capsys, *arguments)
    assert (status, err) == (0, "")
    assert "is below B_min" in out
    fit.trends.b_min_vs_tokens = None
    fit.save("fit.json")
    status, _, err = _run(capsys, *arguments)
    assert status == 1
    assert err.startswith("ebfit: fit.json: none of its 7 targets identify B_opt")


def test_devices_of_a_schedule_to_be_checked_are_given_as_options(capsys: pytest.CaptureFixture[str]):
    Path("ramp.yml").write_text("per_device_batch_size: 8\n")
    status, out, _ = _run(capsys, "--check", "ramp.yml", "--format", "maxtext", "--data-parallel", "64")
    assert status == 0
    assert out.splitlines()[-1] == "ramp.yml: 1 stage for maxtext: no errors, no warnings."
    status, _, err = _run(capsys, "--check", "ramp.yml", "--format", "maxtext")
    assert status == 2
    assert err.startswith("ebfit: ramp.yml: the format maxtext counts per device: give --data-parallel")
