"""Batch sizes of one fit in different units are named, by what is known of them and by the losses they lead to."""

from dataclasses import replace
from pathlib import Path

import pytest
from sweeps import NEW_MODEL, cut, run_of, sweep, with_loss

import ebfit
from ebfit.cli.main import main
from ebfit.mixed.batch_sizes import mixed_batch_units
from ebfit.runs import read_runs
from ebfit.runs.batch_size import NAMED_IN_TOKENS
from ebfit.runs.run import Curve

SAMPLE_RUNS = Path(__file__).parent.parent / "sample_runs"
SEQ_LEN = 128


def _named(run):
    return replace(run, assumptions=[NAMED_IN_TOKENS])


def _in_sequences(run):
    return replace(run, batch_tokens=run.batch_tokens / SEQ_LEN)


# --- sweeps in one unit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["train", "val"])
@pytest.mark.parametrize("first_step", [1, 30, 300])
def test_the_sample_runs_are_in_one_unit(kind, first_step: int):
    """Their smallest batch is a single sequence."""
    runs = [cut(run, first_step) for run in read_runs([SAMPLE_RUNS])]
    assert min(run.batch_tokens for run in runs) == runs[0].seq_len
    assert mixed_batch_units(runs, kind) == []


def test_batch_sizes_over_three_decades_seeds_and_learning_rates_are_in_one_unit():
    runs = [run for lr in (0.00125, 0.01) for run in sweep(seeds=3, lr=lr, speed=lr / 0.01)]
    assert mixed_batch_units(runs, "train") == []


def test_learning_rates_that_are_not_known_or_differ_are_not_compared():
    """A learning rate far too small for a large batch looks as if the batch were small."""
    runs = sweep()
    slow = run_of(512_000, speed=0.01)
    assert mixed_batch_units([*runs[:-1], slow], "train") != []
    assert mixed_batch_units([*runs[:-1], replace(slow, lr=0.0001)], "train") == []
    assert mixed_batch_units([replace(run, lr=None) for run in [*runs[:-1], slow]], "train") == []


@pytest.mark.parametrize("first_row", [0, 30, 70, 110])
def test_a_run_that_diverged_says_nothing_of_its_batch(first_row: int):
    runs = sweep()
    loss = runs[-1].train.loss.copy()
    loss[first_row:] = 1.1 * NEW_MODEL
    assert mixed_batch_units([*runs[:-1], with_loss(runs[-1], loss)], "train") == []


def test_names_in_tokens_that_continue_the_sizes_that_are_known_are_in_one_unit():
    runs = sweep([512 * 2**k for k in range(10)])
    assert mixed_batch_units([*map(_named, runs[:5]), *runs[5:]], "train") == []
    assert mixed_batch_units([*map(_named, runs[::2]), *runs[1::2]], "train") == []
    assert mixed_batch_units([_named(run) for run in runs], "train") == []


# --- units that differ -----------------------------------------------------------------------------------------


def test_a_batch_that_is_less_than_its_own_sequence():
    runs = sweep(seq_len=SEQ_LEN)
    odd = _in_sequences(runs[3])
    (sentence,) = mixed_batch_units([*runs[:3], odd, *runs[4:]], "train")
    assert sentence.startswith(
        f"the batch sizes of {odd.name} ({odd.batch_tokens:,.6g} tokens) are fewer tokens"
    )
    assert (
        "than one sequence (128): they seem to count sequences. Give --seq-len, or batch_sequences"
        in sentence
    )


def test_a_batch_that_is_less_than_the_sequence_of_other_runs():
    runs = sweep()
    known = [replace(run, seq_len=SEQ_LEN) for run in runs[4:]]
    (sentence,) = mixed_batch_units([*map(_in_sequences, runs[:3]), *known], "train")
    assert all(run.name in sentence for run in runs[:3])
    assert f"than one sequence (128, as {known[0].name} has it)" in sentence


def test_names_in_sequences_beside_a_column_in_tokens():
    """No sequence length is known: sizes from names lie far below, and are the ones that were guessed."""
    runs = sweep([4096 * 2**k for k in range(8)])
    named = [_named(_in_sequences(run)) for run in runs[:4]]
    (sentence,) = mixed_batch_units([*named, *runs[4:]], "train")
    assert sentence.startswith(
        "the batch sizes of b4096-lr0.01-s0 (32 tokens), b8192-lr0.01-s0 (64 tokens), "
    )
    assert "(column 'batch_tokens'): the names seem to count sequences. Give --seq-len." in sentence


def test_a_batch_in_sequences_is_told_by_its_loss():
    """Nothing else tells it: sequences as long as 2,048 make the largest batch but one the smallest."""
    runs = sweep()
    odd = replace(runs[-2], batch_tokens=runs[-2].batch_tokens / 2048)
    (sentence,) = mixed_batch_units([*runs[:-2], odd, runs[-1]], "train")
    assert sentence.startswith(f"at the same steps and learning rate the losses of {odd.name} (")
    assert "are below those of runs with far larger batches: the batch sizes may count sequences" in sentence


@pytest.mark.parametrize("what", ["tokens taken for sequences", "micro-steps"])
def test_a_batch_that_is_too_large_or_steps_that_are_too_many(what: str):
    runs = sweep()
    if what == "micro-steps":
        curve = runs[-1].train
        odd = replace(
            runs[-1], train=Curve(curve.steps * 64, curve.loss, "loss"), stable_to=64 * runs[-1].stable_to
        )
        runs = [*runs[:-1], odd]
    else:
        odd = replace(runs[1], batch_tokens=2048 * runs[1].batch_tokens)
        runs = [runs[0], odd, *runs[2:]]
    (sentence,) = mixed_batch_units(runs, "train")
    assert sentence.startswith(f"at the same steps and learning rate the losses of {odd.name} (")
    assert "are above those of runs with far smaller batches" in sentence
    assert "--micro-steps" in sentence


# --- where it is said ------------------------------------------------------------------------------------------


def test_inspect_and_fit_say_the_same(tmp_path: Path, capsys):
    """Half of the logs have a column of tokens, those of the others name their sequences; rates and losses differ."""
    for run in sweep([2048 * 2**k for k in range(9)]):
        size = int(run.batch_tokens)
        named = size < 20_000
        loss = run.train.loss * (0.33 if size == 65_536 else 1.0)
        lr = 0.02 if size == 131_072 else 0.01
        more, cell = ("", "") if named else (",batch_tokens", f",{size}")
        rows = [f"{step:.0f},{y:.5f},{lr}{cell}" for step, y in zip(run.train.steps, loss, strict=True)]
        path = tmp_path / (f"b{size // SEQ_LEN}.csv" if named else f"run{size}.csv")
        path.write_text("\n".join([f"step,loss,lr{more}", *rows]) + "\n")
    fitted = ebfit.fit(ebfit.read_runs(tmp_path), targets=[2.2], bootstrap=100).warnings
    with pytest.raises(SystemExit):
        main(["inspect", str(tmp_path)])
    inspected = capsys.readouterr().err
    for beginning in (
        "the runs have different learning rates (0.01, 0.02)",
        "the train losses of run65536 are 0.33",
        "the batch sizes of b16 (16 tokens), b32 (32 tokens), b64 (64 tokens), b128 (128 tokens) were taken from names",
    ):
        (sentence,) = [text for text in fitted if text.startswith(beginning)]
        assert f"warning: {sentence}\n" in inspected
