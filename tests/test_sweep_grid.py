"""Planning a sweep: the grid of runs, what the output folder holds already, and how long it takes."""

import json
import math
import os

import pytest
from fake_training import steady_preset, write_run_json  # noqa: F401 - the fixture is for every test here

from ebfit.errors import BadInputError
from ebfit.sweep.data import open_data
from ebfit.sweep.estimate import Speed, TimeLeft, duration, time_side_by_side
from ebfit.sweep.execution import Progress
from ebfit.sweep.folders import locked, look_into
from ebfit.sweep.grid import BatchRange, GridOptions, plan_runs
from ebfit.sweep.launch import Place, places
from ebfit.sweep.presets import PRESETS
from ebfit.sweep.recipe import Optimizer


def _options(**changes):
    return GridOptions(**{"data": "synthetic", "val_tokens": 64, "batch_sizes": (64, 128), **changes})


def _recipes(**changes):
    return plan_runs(_options(**changes)).recipes


def _refusal(**changes):
    with pytest.raises(BadInputError) as refused:
        plan_runs(_options(**changes))
    return str(refused.value)


# --- the grid ----------------------------------------------------------------------------------------------------


def test_what_is_left_open_comes_from_the_preset():
    recipes = plan_runs(GridOptions(data="synthetic")).recipes
    assert [recipe.batch_tokens for recipe in recipes] == list(PRESETS["tiny"].batch_tokens)
    for recipe in recipes:
        assert recipe.lr == PRESETS["tiny"].lr
        assert recipe.warmup_steps == PRESETS["tiny"].warmup_steps
        assert recipe.val_tokens == PRESETS["tiny"].val_tokens
        assert recipe.steps == min(
            PRESETS["tiny"].max_steps, PRESETS["tiny"].max_tokens // recipe.batch_tokens
        )
        assert recipe.architecture.d_model == PRESETS["tiny"].architecture.d_model


def test_the_grid_is_batch_sizes_by_learning_rates_by_seeds():
    recipes = _recipes(batch_sizes=(128, 64), lrs=(0.01, 0.003), seeds=2)
    cells = [(recipe.batch_tokens, recipe.lr, recipe.seed) for recipe in recipes]
    assert cells == [(b, lr, seed) for b in (64, 128) for lr in (0.003, 0.01) for seed in (0, 1)]
    assert len({recipe.name for recipe in recipes}) == 8


def test_seeds_may_go_on_where_earlier_ones_ended():
    first, more = _recipes(seeds=2), _recipes(seeds=3, first_seed=2)
    assert {recipe.seed for recipe in more} == {2, 3, 4}
    assert {recipe.name for recipe in [*first, *more]} == {recipe.name for recipe in _recipes(seeds=5)}


def test_names_are_the_same_whatever_else_is_in_the_grid():
    """A batch size or a seed that is added later must not make the runs that are there strangers."""
    few = {recipe.name for recipe in _recipes(batch_sizes=(64,))}
    many = {recipe.name for recipe in _recipes(batch_sizes=(64, 256, 1024), seeds=3)}
    assert few < many


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ((BatchRange(64, 512),), [64, 128, 256, 512]),
        ((BatchRange(64, 500),), [64, 128, 256]),
        ((BatchRange(64, 4096, 3),), [64, 512, 4096]),
        ((BatchRange(64, 128, 4),), [64, 96, 128]),  # 64, 80.6, 101.6, 128: whole sequences of 32, each once
        ((64, 64, BatchRange(64, 128)), [64, 128]),
        ((96,), [96]),
    ],
)
def test_batch_sizes_are_ascending_whole_sequences_each_once(given, sizes):
    assert [recipe.batch_tokens for recipe in _recipes(batch_sizes=given)] == sizes


@pytest.mark.parametrize(
    ("rule", "lr_batch", "expected"),
    [
        ("none", None, [0.01, 0.01, 0.01]),
        ("sqrt", 256, [0.005, 0.01, 0.02]),
        ("linear", 256, [0.0025, 0.01, 0.04]),
        ("sqrt", None, [0.001768, 0.003536, 0.007071]),  # from the middle batch of the preset, 2048
    ],
)
def test_learning_rates_follow_the_rule(rule, lr_batch, expected):
    recipes = _recipes(batch_sizes=(64, 256, 1024), lr=0.01, lr_rule=rule, lr_batch_tokens=lr_batch)
    assert [recipe.lr for recipe in recipes] == expected


def test_the_model_has_the_vocabulary_of_the_data_unless_it_is_set():
    data = open_data("synthetic", seq_len=32, val_tokens=64)
    assert _recipes()[0].architecture.vocab_size == data.vocab_size
    assert _recipes(overrides=("vocab_size=1000",))[0].architecture.vocab_size == 1000


def test_a_run_past_one_epoch_is_warned_of_once(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("All work and no play makes a dull corpus.\n" * 200)  # 8,400 bytes
    plan = plan_runs(_options(data=str(text), max_tokens=80_000, warmup_steps=5, seeds=2))
    assert len([warning for warning in plan.warnings if "times" in warning]) == 1
    assert not any("times" in warning for warning in plan_runs(_options(max_tokens=80_000)).warnings)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"preset": "huge"}, ["--preset huge", "tiny"]),
        ({"batch_sizes": (100,)}, ["100 tokens", "96 and 128"]),
        ({"batch_sizes": (16,)}, ["16 tokens", "smallest is 32"]),
        ({"batch_sizes": (BatchRange(512, 64),)}, ["512..64", "smaller first"]),
        ({"batch_sizes": (BatchRange(64, 512, 1),)}, ["64..512:1", "2 or more"]),
        ({"seq_len": 48}, ["64 tokens", "48", "48 and 96"]),
        ({"overrides": ("n_layers=8",)}, ["n_layers=8", "n_layer"]),
        ({"overrides": ("vocab_size=4",)}, ["synthetic", "vocab"]),
        ({"val_tokens": 100}, ["--val-tokens 100", "multiple"]),
        ({"lr": 0.0}, ["--lr 0.0", "above 0"]),
        ({"lr": math.nan}, ["--lr nan", "above 0"]),
        ({"lrs": (0.1, -1.0)}, ["--lrs"]),
        ({"lrs": (0.1,), "lr": 0.1}, ["--lrs and --lr "]),
        ({"lrs": (0.1,), "lr_rule": "sqrt"}, ["--lrs and --lr-rule"]),
        ({"lr_batch_tokens": 64}, ["--lr-rule"]),
        ({"seeds": 0}, ["--seeds 0"]),
        ({"seeds": 10**9}, ["2,000,000,000 runs"]),
        ({"until_loss": math.nan}, ["--until-loss"]),
        ({"decay_fraction": 1.0}, ["--decay-fraction 1.0"]),
        ({"optimizer": Optimizer(beta2=1.0)}, ["--beta2 1.0"]),
        ({"optimizer": Optimizer(clip_norm=-1.0)}, ["--clip-norm -1.0"]),
        ({"optimizer": Optimizer(weight_decay=math.inf)}, ["--weight-decay inf"]),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(changes, says):
    refusal = _refusal(**changes)
    for words in says:
        assert words in refusal


@pytest.mark.parametrize(
    ("changes", "way_out"),
    [
        ({"max_tokens": 5_000}, {"max_tokens": 51 * 128}),
        ({"max_steps": 50}, {"max_steps": 51}),
        ({"max_steps": 60, "decay_fraction": 0.5}, {"max_steps": 102}),
    ],
)
def test_steps_that_end_within_the_warmup_are_refused_with_what_would_do(changes, way_out):
    options = {"batch_sizes": (128,), "warmup_steps": 50, **changes}
    refusal = _refusal(**options)
    (name, value) = next(iter(way_out.items()))
    assert f"--{name.replace('_', '-')} to {value:,}" in refusal
    assert len(_recipes(**options | way_out)) == 1
    assert "stable" in _refusal(**options | {name: value - 1})


def test_data_that_are_less_than_a_batch_are_refused(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a" * 2000)
    refusal = _refusal(data=str(text), batch_sizes=(64, 2**20), max_tokens=10**9)
    assert str(text) in refusal
    assert "1,048,576" in refusal


# --- what the folder holds ---------------------------------------------------------------------------------------


def _snapshot(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_states_of_runs(tmp_path):
    recipes = _recipes(seeds=3)
    for recipe, status in zip(recipes, ["finished", "failed", "interrupted", "running"], strict=False):
        write_run_json(recipe, tmp_path / recipe.name, status=status, step=9)
    (tmp_path / recipes[5].name).mkdir()  # of a run that was killed before it wrote anything
    before = _snapshot(tmp_path)
    states = [(run.state, run.steps_done) for run in look_into(tmp_path, recipes)]
    assert states == [
        ("finished", 0),
        ("failed", 0),
        ("interrupted", 9),
        ("interrupted", 9),
        ("new", 0),
        ("new", 0),
    ]
    assert _snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"overrides": ("d_model=64",)}, "d_model 32, not 64"),
        ({"data": "synthetic:1"}, "data seed 0, not 1"),
        ({"until_loss": 2.0}, "until_loss none, not 2.0"),
        ({"optimizer": Optimizer(beta2=0.99)}, "beta2 0.95, not 0.99"),
        ({"val_tokens": 128}, "val_tokens 64, not 128"),
    ],
)
def test_runs_of_other_settings_are_refused_and_left_alone(tmp_path, changes, says):
    (old, *_) = _recipes()
    write_run_json(old, tmp_path / old.name, status="finished")
    before = _snapshot(tmp_path)
    with pytest.raises(BadInputError, match="-o") as refused:
        look_into(tmp_path, _recipes(**changes))
    assert f"{tmp_path / old.name}: was made with {says}" in str(refused.value)
    assert _snapshot(tmp_path) == before


@pytest.mark.parametrize("changes", [{"seeds": 2}, {"lr": 0.003}, {"batch_sizes": (256,)}])
def test_a_sweep_may_grow(tmp_path, changes):
    for recipe in _recipes():
        write_run_json(recipe, tmp_path / recipe.name, status="finished")
    states = {run.state for run in look_into(tmp_path, _recipes(**changes))}
    assert "new" in states


def test_a_shorter_or_longer_run_of_the_same_is_refused(tmp_path):
    """`fit` would count the same curve twice, as if two seeds agreed."""
    (old, *_) = _recipes()
    write_run_json(old, tmp_path / old.name, status="finished")
    with pytest.raises(
        BadInputError, match=f"{old.name}: has this batch size, .* and {old.steps} steps, not 900"
    ):
        look_into(tmp_path, _recipes(max_steps=900))


def test_files_that_no_sweep_made_are_no_hindrance(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for name, content in [("own", {"name": "own", "batch_tokens": 64}), ("odd", [1]), ("num", {"schema": 1})]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(content))
    assert [run.state for run in look_into(tmp_path, _recipes())] == ["new", "new"]


def test_a_folder_in_the_way_of_a_run_is_refused(tmp_path):
    recipes = _recipes()
    folder = tmp_path / recipes[0].name
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("{}")
    with pytest.raises(BadInputError, match=r"no run\.json"):
        look_into(tmp_path, recipes)
    (folder / "metrics.jsonl").unlink()
    folder.rmdir()
    folder.write_text("a file")
    with pytest.raises(BadInputError, match="in the way"):
        look_into(tmp_path, recipes)


def test_a_renamed_run_is_refused(tmp_path):
    """It would be trained a second time under its own name, and `fit` would take both."""
    (recipe, *_) = recipes = _recipes()
    write_run_json(recipe, tmp_path / "my_best_run", status="finished")
    with pytest.raises(BadInputError, match=f"holds the run {recipe.name}"):
        look_into(tmp_path, recipes)


def test_a_run_of_a_later_version_is_refused(tmp_path):
    folder = tmp_path / "b64"
    folder.mkdir()
    (folder / "run.json").write_text('{"schema": "ebfit.run/99"}')
    with pytest.raises(BadInputError, match=r"not a run\.json"):
        look_into(tmp_path, _recipes())


def test_the_folder_of_a_single_run_is_no_folder_for_a_sweep(tmp_path):
    (recipe, *_) = _recipes()
    write_run_json(recipe, tmp_path, status="finished")
    with pytest.raises(BadInputError, match="single run"):
        look_into(tmp_path, _recipes())


def test_output_where_a_file_stands(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(BadInputError, match="no folder that can be written to"):
        look_into(tmp_path / "runs", _recipes())


def test_two_sweeps_in_one_folder_at_once(tmp_path):
    output = tmp_path / "runs"
    with locked(output), pytest.raises(BadInputError, match="another sweep is running"), locked(output):
        pass
    with locked(output):  # the first has let go
        assert os.listdir(output) == [".sweep.lock"]


# --- time ----------------------------------------------------------------------------------------------------------


def test_time_of_a_run_is_that_of_its_steps_and_tokens():
    (recipe,) = _recipes(batch_sizes=(64,), max_steps=1000, evaluations_per_doubling=1)
    per_step = Speed(2.0, 0.0, "")
    assert per_step.seconds(recipe) == 2000.0
    assert per_step.seconds(recipe, steps_done=250) == 1500.0
    # 11 validations of 64 tokens (1, 2, 4 ... 512 and 1000) at a third of the price of a trained token
    assert Speed(0.0, 1.0, "").seconds(recipe) == pytest.approx(64_000 + 11 * 64 / 3, abs=32)


@pytest.mark.parametrize(
    ("seconds", "jobs", "busy", "expected"),
    [
        ([3.0, 3.0, 2.0, 2.0, 2.0], 1, [], 12.0),
        ([3.0, 3.0, 2.0, 2.0, 2.0], 2, [], 7.0),  # the longest first: 3 + 2 + 2, 3 + 2
        ([1.0, 5.0], 4, [], 5.0),
        ([2.0], 2, [10.0, 1.0], 10.0),
        ([], 2, [], 0.0),
    ],
)
def test_time_of_runs_side_by_side(seconds, jobs, busy, expected):
    assert time_side_by_side(seconds, jobs, busy) == expected


def test_time_left_follows_the_pace_of_the_runs(tmp_path):
    runs = look_into(tmp_path, _recipes(batch_sizes=(64,), max_steps=1000, seeds=3))
    first, second, _ = (run.recipe for run in runs)
    now = 100.0
    left = TimeLeft(runs, 1, clock=lambda: now)

    def at(step):
        return Progress(step, 1000, step * 64, None, None, 1.0)

    left.started(first)
    left.progressed(first, at(0))
    assert left.of_sweep() is None
    now = 110.0
    left.progressed(first, at(100))  # 0.1 s per step: 90 s left, and two runs of 100 s each
    assert left.of_run(first) == pytest.approx(90.0)
    assert left.of_sweep() == pytest.approx(290.0)
    now = 120.0
    left.progressed(first, at(1000))
    left.ended(first)
    left.started(second)
    assert left.of_run(second) is None
    assert left.of_sweep() == pytest.approx(40.0)  # at the pace of the first one, 20 s for 1000 steps


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (7_500, "2 h 5 min"), (353_000, "4 d 2 h")],
)
def test_durations_in_words(seconds, text):
    assert duration(seconds) == text


# --- where runs are trained --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "parameters", "runs", "jobs", "expected"),
    [
        (["cpu"], 30_000, 10, None, [Place("cpu", 1)] * 8),
        (["cpu"], 30_000, 3, None, [Place("cpu", 1)] * 3),
        (["cpu"], 10_000_000, 10, None, [Place("cpu", 4)] * 2),
        (["cpu"], 10_000_000, 10, 1, [Place("cpu", 8)]),
        (["cpu"], 10_000_000, 10, 100, [Place("cpu", 1)] * 10),
        (["cuda:0", "cuda:1"], 10**8, 10, None, [Place("cuda:0", 4), Place("cuda:1", 4)]),
        (["cuda:0", "cuda:1"], 10**8, 10, 3, [Place("cuda:0", 2), Place("cuda:1", 2), Place("cuda:0", 2)]),
        (["mps"], 10**8, 10, None, [Place("mps", 8)]),
    ],
)
def test_places_on_a_machine_with_8_cores(monkeypatch, devices, parameters, runs, jobs, expected):
    monkeypatch.setattr("ebfit.sweep.launch.cores", lambda: 8)
    assert places(devices, parameters, runs, jobs) == expected
