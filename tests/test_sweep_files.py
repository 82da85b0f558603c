"""What identifies a run, and what it writes down: names, metrics.jsonl, run.json."""

import json
import os
import pickle
import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from full_disk import disk_full_after, needs_limits

from ebfit.errors import BadInputError
from ebfit.files import RunDocument, RunOutcome, to_json
from ebfit.sweep.architecture import Architecture
from ebfit.sweep.document import run_document
from ebfit.sweep.recipe import Optimizer, Recipe
from ebfit.sweep.run_log import RunLog

RECIPE = Recipe(
    architecture=Architecture(n_layer=2, d_model=16, n_head=4, n_kv_head=4, d_ff=16),
    seq_len=8,
    batch_sequences=256,
    seed=0,
    lr=0.01,
    warmup_steps=50,
    steps=1000,
    data={"kind": "tokens", "sha256": "ab", "layout": {"train": 7, "val": 3}},
    val_tokens=64,
)
# Another value for every setting.
OTHER = {
    "architecture": [
        replace(RECIPE.architecture, **change)
        for change in (
            {"n_layer": 3},
            {"d_model": 32},
            {"n_head": 8, "n_kv_head": 4},
            {"n_kv_head": 2},
            {"d_ff": 32},
            {"vocab_size": 257},
            {"qk_norm": True},
            {"rope_theta": 10_001.0},
        )
    ],
    "seq_len": [16],
    "batch_sequences": [128],
    "seed": [1],
    "lr": [0.010000001],
    "warmup_steps": [51],
    "steps": [1001],
    "data": [{"kind": "tokens", "sha256": "ac", "layout": {"train": 7, "val": 3}}, {}],
    "val_tokens": [72],
    "decay_fraction": [0.2],
    "decay_shape": ["1-sqrt"],
    "until_loss": [2.0, 0.0],
    "stop_when_level": [False],
    "optimizer": [
        Optimizer(beta1=0.8),
        Optimizer(beta2=0.99),
        Optimizer(eps=1e-9),
        Optimizer(weight_decay=0.0),
        Optimizer(clip_norm=2.0),
    ],
    "precision": ["bfloat16"],
    "log_every": [2],
    "evaluations_per_doubling": [8],
}


# --- recipe --------------------------------------------------------------------------------------------------


def test_every_setting_is_part_of_the_key():
    assert set(OTHER) == {field.name for field in fields(Recipe)}  # a new setting must be thought of here
    keys = [replace(RECIPE, **{name: value}).key for name, values in OTHER.items() for value in values]
    assert len({RECIPE.key, *keys}) == 1 + len(keys)


def test_the_key_knows_nothing_of_the_order_in_which_facts_of_the_data_are_listed():
    again = replace(RECIPE, data={"layout": {"val": 3, "train": 7}, "sha256": "ab", "kind": "tokens"})
    assert again.key == RECIPE.key


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_key_is_the_same_in_every_process(hash_seed):
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).key)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(RECIPE),
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
    )
    assert found.stdout.decode().strip() == RECIPE.key


def test_the_key_outlives_a_way_through_json():
    read = json.loads(json.dumps(RECIPE.as_dict()))
    again = Recipe(
        **read
        | {"architecture": Architecture(**read["architecture"]), "optimizer": Optimizer(**read["optimizer"])}
    )
    assert again.key == RECIPE.key


def test_the_name_tells_batch_size_rate_and_seed_and_ends_in_the_key():
    assert re.fullmatch(r"b2048-lr0\.01-s0-[0-9a-f]{8}", RECIPE.name)
    assert RECIPE.name.endswith(RECIPE.key[:8])
    assert replace(RECIPE, lr=3e-4, seed=12).name.startswith("b2048-lr0.0003-s12-")
    assert len({RECIPE.name, replace(RECIPE, lr=0.010000001).name}) == 2


def test_batch_and_length_are_stated_in_tokens_too():
    assert (RECIPE.batch_tokens, RECIPE.tokens) == (2048, 2_048_000)


# --- metrics.jsonl -------------------------------------------------------------------------------------------


def _records(*steps):
    return [{"step": step, "train_loss": 1 / 3 + step} for step in steps]


def _read(path: Path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def log(tmp_path) -> RunLog:
    return RunLog(tmp_path / "metrics.jsonl")


def test_records_are_one_line_each_and_come_back_as_they_were(log):
    log.append(_records(1, 2))
    log.append(_records(3))
    assert log.path.read_bytes().count(b"\n") == 3
    assert _read(log.path) == _records(1, 2, 3)


def test_a_log_without_records_is_no_file(log):
    log.append([])
    assert not log.path.exists()


def test_later_records_are_cut_off(log):
    log.append(_records(1, 2, 3, 4, 5))
    assert log.cut_after(3)
    log.append(_records(4))
    assert _read(log.path) == _records(1, 2, 3, 4)


def test_a_log_that_is_just_long_enough_stays_as_it_is(log):
    log.append(_records(10, 20, 30))
    before = log.path.read_bytes()
    assert log.cut_after(30)
    assert log.path.read_bytes() == before


@pytest.mark.parametrize(
    "end",
    [
        b'{"step": 4, "train_l',
        b'{"step": 4, "train_loss": 2}',
        b"{",
        b"\0" * 40,
        b'{"step"}\n',
        b"\xff\xfe\n",
        b"7\n",
        b'{"step": "x"}\n',
        b'{"step": null}\n',
    ],
    ids=["half", "no newline", "a bracket", "zeros", "no JSON", "no text", "no record", "a word", "null"],
)
def test_what_a_crash_left_at_the_end_is_cut_off(log, end):
    log.append(_records(1, 2, 3))
    with log.path.open("ab") as file:
        file.write(end)
    assert log.cut_after(3)
    assert _read(log.path) == _records(1, 2, 3)


def test_a_log_that_does_not_reach_the_checkpoint_says_so_and_is_left_alone(log):
    log.append(_records(1, 2, 3))
    before = log.path.read_bytes()
    assert not log.cut_after(4)
    assert log.path.read_bytes() == before


def test_a_record_without_its_newline_is_not_whole(log):
    log.append(_records(1, 2))
    with log.path.open("ab") as file:
        file.write(b'{"step": 3, "train_loss": 2.0}')
    assert not log.cut_after(3)
    assert log.cut_after(2)
    assert _read(log.path) == _records(1, 2)


def test_a_log_that_passes_over_the_step_of_the_checkpoint_does_not_fit_it(log):
    log.append(_records(1, 2, 4))
    assert not log.cut_after(3)


def test_rows_after_damage_in_the_middle_do_not_count(log):
    log.append(_records(1, 2))
    with log.path.open("ab") as file:
        file.write(b'{"step": 3, "tr\n')
    log.append(_records(4, 5))
    assert not log.cut_after(5)
    assert log.cut_after(2)
    assert _read(log.path) == _records(1, 2)


def test_a_missing_log_reaches_the_beginning_and_no_further(log):
    assert log.cut_after(0)
    assert not log.cut_after(1)


def test_cutting_at_the_beginning_removes_the_log(log):
    log.append(_records(1, 2))
    assert log.cut_after(0)
    assert not log.path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is a device of Linux")
def test_a_full_disk_is_told_in_a_sentence(log):
    log.path.symlink_to("/dev/full")
    with pytest.raises(BadInputError, match=r"metrics\.jsonl: cannot be written \(No space left on device\)"):
        log.append(_records(1))


@needs_limits
def test_a_disk_that_fills_up_in_the_middle_of_a_line_costs_no_line_before_it(log):
    log.append(_records(1, 2))
    with (
        disk_full_after(log.path.stat().st_size + 10),
        pytest.raises(
            BadInputError, match=r"metrics\.jsonl: cannot be written any further: the disk is full"
        ),
    ):
        log.append(_records(3))
    assert log.cut_after(2)
    log.append(_records(3))
    assert _read(log.path) == _records(1, 2, 3)


def test_a_log_in_a_folder_that_went_away_is_told_in_a_sentence(tmp_path):
    with pytest.raises(BadInputError, match="cannot be written"):
        RunLog(tmp_path / "gone" / "metrics.jsonl").append(_records(1))


# --- run.json ------------------------------------------------------------------------------------------------


def test_run_json_holds_what_is_needed_to_repeat_the_run(tmp_path):
    recipe = replace(RECIPE, until_loss=2.0, lr=1 / 3, optimizer=Optimizer(eps=1e-9))
    path = tmp_path / "run.json"
    path.write_text(
        to_json(run_document(recipe, "cpu", 800, RunOutcome(status="failed", reason="NaN", step=3)))
    )
    found = RunDocument.load(path)
    again = Recipe(
        **found.recipe
        | {
            "architecture": Architecture(**found.recipe["architecture"]),
            "optimizer": Optimizer(**found.recipe["optimizer"]),
        }
    )
    assert again.key == found.key == recipe.key
    assert (found.outcome.status, found.outcome.reason, found.outcome.step) == ("failed", "NaN", 3)
    assert {"ebfit", "torch", "numpy", "python"} <= set(found.versions)


def test_run_json_says_plainly_what_readers_of_logs_look_for(tmp_path):
    document = json.loads(to_json(run_document(RECIPE, "cpu", None, RunOutcome())))
    assert document["schema"] == "ebfit.run/1"
    assert document["name"] == RECIPE.name
    assert (document["seq_len"], document["batch_tokens"], document["batch_sequences"]) == (8, 2048, 256)
    assert (document["lr"], document["warmup_steps"], document["decay_start_step"]) == (0.01, 50, None)
    assert document["seed"] == 0
    assert document["outcome"]["status"] == "running"
    assert document["data"] == RECIPE.data
    assert document["model"]["d_model"] == 16
    assert document["parameters"] - document["parameters_without_embeddings"] == 256 * 16


@pytest.mark.parametrize(("log_every", "window"), [(1, 1), (2, "interval"), (100, "interval")])
def test_run_json_says_how_many_steps_a_train_loss_is_a_mean_of(log_every, window):
    document = run_document(replace(RECIPE, log_every=log_every), "cpu", None, RunOutcome())
    assert document.train_loss_window == window
