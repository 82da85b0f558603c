"""Formats that follow a plan exactly, or nearly: Levanter, Lightning, and phases that are launched one by one."""

import math
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from plans import BILLION, plans, worked_example
from walking import in_stages, stages_of

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers import TRAINERS, Setup, levanter, lightning, phases

SETUP = Setup(micro_batch=2, data_parallel=4)


# --- all formats ---


@pytest.mark.parametrize("name", sorted(TRAINERS))
def test_every_format_says_who_reads_it_and_names_its_file(name: str) -> None:
    trainer = TRAINERS[name]
    assert trainer.name == name
    assert trainer.suffix.startswith(".")
    assert trainer.reader
    assert trainer.unit


@pytest.mark.parametrize("name", sorted(TRAINERS))
def test_the_worked_example_is_written_in_every_format(name: str) -> None:
    plan = worked_example(warmup_tokens=BILLION, decay_start_tokens=450 * BILLION)
    trainer = TRAINERS[name]
    export = trainer.export(plan, Setup(4, 64))
    assert export.as_run.stages[0].batch_sequences == 512
    assert export.as_run.stages[-1].batch_sequences == 1536
    if name not in ("json", "csv"):
        assert trainer.reader in export.text


@pytest.mark.parametrize("name", sorted(TRAINERS))
def test_a_stage_that_does_not_fill_the_devices_is_refused(name: str) -> None:
    with pytest.raises(BadInputError, match=r"1280 sequences are no multiple of .* 8 x 64"):
        TRAINERS[name].export(worked_example(), Setup(8, 64))


# Numbers and words that a careless or hostile hand may put where another was.
ODD = [
    "",
    "0",
    "-1",
    "1.5",
    "9" * 400,
    "nan",
    "inf",
    "1e400",
    "true",
    "null",
    "[]",
    "{}",
    "&a [*a]",
    "é",
    "\x00",
    "#",
]


@pytest.mark.parametrize("name", sorted(TRAINERS))
@given(data=st.data())
def test_whatever_is_in_a_file_there_is_no_traceback(name: str, data: st.DataObject) -> None:
    setup = data.draw(st.sampled_from([Setup(), Setup(4, 64)]))
    text = "# data-parallel: 8\n# micro-batch: 1\n" * data.draw(st.booleans())
    if name == "phases" or data.draw(st.integers(0, 3)) == 0:
        text += data.draw(st.text())
    else:
        exported = TRAINERS[name].export(worked_example(), Setup(4, 64)).text
        words = re.split(r"(\W+)", exported)
        for _ in range(data.draw(st.integers(1, 4))):
            words[data.draw(st.integers(0, len(words) - 1))] = data.draw(st.sampled_from(ODD))
        text += "".join(words)
    try:
        read = TRAINERS[name].parse(text, data.draw(st.sampled_from([None, 4096])), setup)
    except BadInputError:
        return
    assert len(read.starts) == len(read.batch_sequences)


# --- Levanter ---


def walk_levanter(text: str) -> Iterator[int]:
    """Levanter's BatchSchedule: the segment that a step lies in."""
    sizes = yaml.safe_load(text)["trainer"]["train_batch_size"]
    step = 0
    while True:
        yield next(entry["value"] for entry in reversed(sizes) if entry["start"] <= step)
        step += 1


@given(plans(max_steps=100))
def test_levanter_does_what_the_plan_says(plan: BatchPlan) -> None:
    text = levanter.export(plan, Setup()).text
    assert in_stages(walk_levanter(text), plan.total_steps) == stages_of(plan)
    assert yaml.safe_load(text)["trainer"]["num_train_steps"] == plan.total_steps


@given(plans())
def test_levanter_comes_back(plan: BatchPlan) -> None:
    read = levanter.parse(levanter.export(plan, Setup(strict=True)).text, None, Setup())
    assert read.starts == tuple(stage.start_step for stage in plan.stages)
    assert read.batch_sequences == tuple(stage.batch_sequences for stage in plan.stages)
    assert read.total_steps == plan.total_steps


def test_levanters_warmup_and_decay_are_steps_and_never_a_fraction() -> None:
    sizes = [(0, 1000), (100_000, 2000)]
    plan = BatchPlan.from_sizes(
        sizes, total_tokens=200_000, seq_len=100, warmup_tokens=5000, decay_start_tokens=190_000
    )
    assert yaml.safe_load(levanter.export(plan, Setup()).text)["optimizer"] == {"warmup": 5, "decay": 5}
    one_step = BatchPlan.from_sizes(sizes, total_tokens=200_000, seq_len=100, warmup_tokens=1000)
    assert yaml.safe_load(levanter.export(one_step, Setup()).text)["optimizer"] == {"warmup": 0, "decay": 0}


def test_a_fraction_in_levanters_file_is_one() -> None:
    text = "trainer: {train_batch_size: 8, num_train_steps: 200}\noptimizer: {warmup: 0.1, decay: 50}"
    read = levanter.parse(text, None, Setup())
    assert (read.warmup_steps, read.decay_steps) == (20, 50)
    assert (read.starts, read.batch_sequences) == ((0,), (8,))


def test_levanters_older_form_is_read_with_a_warning() -> None:
    read = levanter.parse("- {until: 100, value: 8}\n- {until: -1, value: 16}\n", None, Setup())
    assert (read.starts, read.batch_sequences) == ((0, 100), (8, 16))
    assert "early 2025" in read.warnings[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("trainer: {}", "no train_batch_size"),
        ("train_batch_size: large", "neither a number nor a list"),
        ("train_batch_size: []", "neither a number nor a list"),
        ("train_batch_size: [{start: 0}]", "entry 1"),
        ("train_batch_size: [{value: 8}]", "start must be"),
        ("train_batch_size: [{until: soon, value: 8}, {until: -1, value: 9}]", "until must be"),
    ],
)
def test_what_is_no_schedule_of_levanter_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        levanter.parse(text, None, Setup())


# --- Lightning ---


def walk_lightning(text: str) -> Iterator[int]:
    """Lightning: the accumulation of the epoch, and a step at its end with what there is."""
    arguments: dict[str, object] = {}
    stub = "class GradientAccumulationScheduler(dict): pass\n"
    exec(stub + "\n".join(line for line in text.splitlines() if not line.startswith("from ")), arguments)
    scheduling = arguments["accumulation_scheduler"]["scheduling"]  # type: ignore[index]
    length = arguments["trainer_arguments"]["limit_train_batches"]  # type: ignore[index]
    epoch = 0
    while True:
        accumulation = scheduling[max(start for start in scheduling if start <= epoch)]
        yield from (min(accumulation, length - done) * 2 * 4 for done in range(0, length, accumulation))
        epoch += 1


@given(plans(unit=8, max_size=6, max_stages=4, max_steps=5000))
def test_lightning_does_what_the_export_says(plan: BatchPlan) -> None:
    try:
        export = lightning.export(plan, SETUP)
    except BadInputError:
        assume(False)
    assert in_stages(walk_lightning(export.text), export.as_run.total_steps) == stages_of(export.as_run)
    moved = [
        abs(run.start_tokens - stage.start_tokens)
        for run, stage in zip(export.as_run.stages, plan.stages, strict=True)
    ]
    assert max(moved) <= plan.total_tokens / 1000 + plan.seq_len * 8


@given(
    epochs=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    factors=st.lists(st.integers(1, 12), min_size=4, max_size=4, unique=True).map(sorted),
    repeats=st.integers(1, 50),
)
def test_lightning_is_exact_where_stages_begin_at_whole_epochs(
    epochs: list[int], factors: list[int], repeats: int
) -> None:
    length = math.lcm(*factors[: len(epochs)]) * repeats
    starts = [sum(epochs[:number]) * length * 8 for number in range(len(epochs))]
    plan = BatchPlan.from_sizes(
        [(start, 8 * factor) for start, factor in zip(starts, factors, strict=False)],
        total_tokens=sum(epochs) * length * 8,
        seq_len=1,
    )
    assert stages_of(lightning.export(plan, Setup(2, 4, strict=True)).as_run) == stages_of(plan)


def test_lightning_points_to_the_callback_where_it_cannot_follow() -> None:
    plan = BatchPlan.from_sizes([(0, 8 * 7), (7 * 8, 8 * 11)], total_tokens=8 * 7 + 88 * 100, seq_len=1)
    with pytest.raises(BadInputError, match=r"docs/training_loops\.md"):
        lightning.export(plan, SETUP)
    with pytest.raises(BadInputError, match=r"docs/training_loops\.md"):
        lightning.export(worked_example(), Setup(4, 64, strict=True))


def test_lightning_warns_of_data_that_come_again() -> None:
    notes = lightning.export(worked_example(), Setup(4, 64)).notes
    assert any("begins the data loader anew" in note for note in notes)


@given(plans(unit=8, max_size=6, max_stages=4, max_steps=5000))
def test_lightning_comes_back(plan: BatchPlan) -> None:
    try:
        export = lightning.export(plan, SETUP)
    except BadInputError:
        assume(False)
    read = lightning.parse(export.text, None, Setup())
    assert [start * plan.seq_len for start in read.starts] == [
        stage.start_tokens for stage in export.as_run.stages
    ]
    assert read.batch_sequences == tuple(stage.batch_sequences for stage in export.as_run.stages)
    assert read.warnings == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("scheduling={0: 1}", "--data-parallel"),
        ("# data-parallel: 2\n# micro-batch: 0\nx = 1", "--micro-batch"),
        ("# data-parallel: 2\n# micro-batch: 2\nx = 1", "no GradientAccumulationScheduler"),
        ("# data-parallel: 2\n# micro-batch: 2\nscheduling = {0: 1}", "limit_train_batches"),
        ("# data-parallel: 2\n# micro-batch: 2\nT(scheduling={**a}, limit_train_batches=8)", "line 3"),
    ],
)
def test_what_lightning_does_not_say_is_asked_for(text: str, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        lightning.parse(text, None, Setup())


# --- phases ---


def launch(folder: Path, script: str, trainer: str, **environment: str) -> list[list[str]]:
    """Run the script with a `torchrun` that does nothing but write down its arguments."""
    (folder / "bin").mkdir(exist_ok=True)
    fake = folder / "bin" / "torchrun"
    fake.write_text(
        '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done >> calls\necho "---" >> calls\n'
    )
    fake.chmod(0o755)
    (folder / "run.sh").write_text(script)
    (folder / "calls").unlink(missing_ok=True)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    command = ["bash", "run.sh"]
    environment = {**os.environ, "PATH": path, "TRAINER": trainer, **environment}
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return [call.splitlines() for call in (folder / "calls").read_text().split("---\n")[:-1]]


def after(call: list[str], flag: str) -> str:
    """The value of ``--flag value`` or ``--flag=value``."""
    if flag in call:
        return call[call.index(flag) + 1]
    return next(word for word in call if word.startswith(f"{flag}=")).removeprefix(f"{flag}=")


@pytest.fixture
def script() -> str:
    plan = worked_example(warmup_tokens=BILLION, decay_start_tokens=450 * BILLION)
    return phases.export(plan, Setup(4, 64)).text


ENDS = [59605, 89408, 113250, 133117]
SEQUENCES = [512, 1024, 1280, 1536]


def test_torchtitan_is_launched_once_per_stage(tmp_path: Path, script: str) -> None:
    calls = launch(tmp_path, script, "torchtitan")
    assert [int(after(call, "--training.steps")) for call in calls] == ENDS
    assert [int(after(call, "--training.global-batch-size")) for call in calls] == SEQUENCES
    for call in calls:
        assert after(call, "--lr-scheduler.total-steps") == "133117"
        assert after(call, "--lr-scheduler.warmup-steps") == "477"
        # torchtitan rounds total_steps x decay_ratio, which must give the steps that the plan means
        assert round(133117 * float(after(call, "--lr-scheduler.decay-ratio"))) == 7946
        assert "--checkpoint.no-last-save-model-only" in call


def test_nanochat_goes_on_from_where_the_last_phase_ended(tmp_path: Path, script: str) -> None:
    calls = launch(tmp_path, script, "nanochat")
    assert [int(after(call, "--num-iterations")) for call in calls] == ENDS
    assert [int(after(call, "--total-batch-size")) for call in calls] == [4096 * n for n in SEQUENCES]
    assert not any(word.startswith("--resume") for word in calls[0])
    assert [int(after(call, "--resume-from-step")) for call in calls[1:]] == ENDS[:-1]
    assert [float(after(call, "--warmdown-ratio")) for call in calls[:-1]] == [0, 0, 0]
    assert round(133117 * float(after(calls[-1], "--warmdown-ratio"))) == 7946


def test_nanotron_gets_a_configuration_for_every_phase(tmp_path: Path, script: str) -> None:
    (tmp_path / "config.yaml").write_text(
        "tokens: {train_steps: 1, batch_accumulation_per_replica: 1, micro_batch_size: 1, sequence_length: 1}\n"
        "optimizer: {learning_rate_scheduler: {learning_rate: 0.001}}\n"
        "checkpoints: {checkpoints_path: /checkpoints, checkpoint_interval: 7}\n"
    )
    calls = launch(tmp_path, script, "nanotron")
    configs = [yaml.safe_load((tmp_path / after(call, "--config-file")).read_text()) for call in calls]
    assert [config["tokens"]["train_steps"] for config in configs] == ENDS
    assert [config["tokens"]["batch_accumulation_per_replica"] for config in configs] == [2, 4, 5, 6]
    for config in configs:
        assert config["tokens"]["train_steps"] % config["checkpoints"]["checkpoint_interval"] == 0
        assert config["optimizer"]["learning_rate_scheduler"] == {
            "learning_rate": 0.001,
            "lr_warmup_steps": 477,
            "lr_decay_starting_step": 133117 - 7946,
            "lr_decay_steps": 7946,
        }
    assert [config["checkpoints"]["resume_checkpoint_path"] for config in configs] == [
        None,
        *["/checkpoints"] * 3,
    ]


def test_phases_that_are_done_are_left_out_after_a_crash(tmp_path: Path, script: str) -> None:
    calls = launch(tmp_path, script, "torchtitan", FIRST_PHASE="3")
    assert [int(after(call, "--training.steps")) for call in calls] == ENDS[2:]


@given(plans())
def test_phases_follow_the_plan(plan: BatchPlan) -> None:
    export = phases.export(plan, Setup(strict=True))
    assert stages_of(export.as_run) == stages_of(plan)
    lines = [line.split()[2:] for line in export.text.splitlines() if line.startswith("phase ")]
    assert [list(map(int, line)) for line in lines] == [
        [stage.start_step, stage.end_step, stage.batch_sequences] for stage in plan.stages
    ]


def test_a_launch_script_is_not_read_back(script: str) -> None:
    with pytest.raises(BadInputError, match="cannot be read back"):
        phases.parse(script, 4096, Setup())


def test_a_decay_that_begins_before_the_last_phase_is_noted() -> None:
    notes = phases.export(worked_example(decay_start_tokens=300 * BILLION), Setup()).notes
    assert any("nanochat cannot say that" in note for note in notes)
