"""Where a run's batch size comes from, and what is said when sources disagree."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_runs
from ebfit.runs.names import batch_in_name, lr_in_name, seed_in_name

STEPS = np.arange(10, 1010, 10)


def log(path, **columns):
    """Write a log with steps, a loss and more columns; a number stands for a whole column of it."""
    columns = {"step": STEPS, "loss": 5 / STEPS**0.1, **columns}
    cells = [np.broadcast_to(np.asarray(column), STEPS.shape) for column in columns.values()]
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(columns)] + [",".join(map(str, row)) for row in zip(*cells, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def read_one(path, warmup_steps=0, **options):
    [run] = read_runs([path], ReadOptions(warmup_steps=warmup_steps, **options))
    return run


def manifest(path, text):
    path.write_text(text)
    return path


# --- the order of the sources --------------------------------------------------------------------------------


def everything(tmp_path):
    """A log about whose batch size every source has its own opinion, and options that hold two more."""
    path = log(tmp_path / "b64.csv", batch_tokens=20, tokens=30 * STEPS)
    (tmp_path / "run.json").write_text('{"batch_tokens": 40}')
    table = manifest(tmp_path / "manifest.txt", "path,batch_tokens\nb64.csv,10\n")
    return path, {"manifest": table, "batch_tokens": 70.0}


def test_the_first_source_wins_and_every_disagreement_is_named(tmp_path):
    path, options = everything(tmp_path)
    run = read_one(path, **options)
    assert (run.batch_tokens, run.batch_source) == (10, f"manifest {options['manifest']}, line 2")
    said = " ".join(run.warnings)
    for other in (
        "20 by the column 'batch_tokens'",
        "30 by the column 'tokens'",
        "40 by the",
        "64 by the name",
        "70 by",
    ):
        assert other in said


def test_the_order_of_the_sources(tmp_path):
    path, options = everything(tmp_path)
    del options["manifest"]
    assert read_one(path, **options).batch_tokens == 20
    log(path, tokens=30 * STEPS)
    assert read_one(path, **options).batch_tokens == 30
    log(path)
    assert read_one(path, **options).batch_tokens == 40
    (tmp_path / "run.json").unlink()
    assert read_one(path, **options).batch_tokens == 64
    path = path.rename(tmp_path / "run.csv")
    run = read_one(path, **options)
    assert (run.batch_tokens, run.batch_source) == (70, "--batch-tokens")
    with pytest.raises(BadInputError, match=r"run\.csv: no batch size found.*--batch-tokens"):
        read_one(path)


def test_sources_that_agree_are_not_mentioned(tmp_path):
    path = log(tmp_path / "b64.csv", batch_tokens=64, tokens=64 * STEPS)
    (tmp_path / "run.json").write_text('{"batch_tokens": 64, "warmup_steps": 0}')
    assert read_one(path).warnings == []


# --- sequences and tokens ------------------------------------------------------------------------------------


def test_a_name_counts_sequences_where_the_sequence_length_is_known(tmp_path):
    path = log(tmp_path / "b64.csv")
    assert read_one(path).batch_tokens == 64
    assert read_one(path, seq_len=512).batch_tokens == 64 * 512
    assert "sequences" in read_one(path, seq_len=512).batch_source


@pytest.mark.parametrize("factor", [1, 32])
def test_the_unit_of_a_name_is_the_one_that_agrees_with_the_tokens_column(tmp_path, factor):
    run = read_one(log(tmp_path / "b64.csv", tokens=64 * factor * STEPS), seq_len=32)
    assert run.batch_tokens == 64 * factor
    assert run.warnings == []


def test_a_name_in_sequences_without_the_sequence_length(tmp_path):
    run = read_one(log(tmp_path / "b64.csv", tokens=64 * 32 * STEPS))
    assert run.batch_tokens == 2048
    assert any("--seq-len" in warning for warning in run.warnings)


def test_a_column_that_counts_sequences(tmp_path):
    path = log(tmp_path / "run.csv", global_batch_size=8)
    assert read_one(path, seq_len=100).batch_tokens == 800
    with pytest.raises(BadInputError, match="'global_batch_size' counts sequences: give --seq-len"):
        read_one(path)
    assert read_one(path, columns={"batch_tokens": "global_batch_size"}).batch_tokens == 8


@pytest.mark.parametrize(("tokens", "size"), [(8, 8), (800, 800)])
def test_the_tokens_column_tells_what_a_column_b_counts(tmp_path, tokens, size):
    run = read_one(log(tmp_path / "run.csv", B=8, tokens=tokens * STEPS), seq_len=100)
    assert run.batch_tokens == size
    assert run.warnings == []


def test_the_sequence_length_of_the_manifest_and_of_run_json(tmp_path):
    path = log(tmp_path / "b64.csv")
    (tmp_path / "run.json").write_text('{"seq_len": 10}')
    assert read_one(path).batch_tokens == 640
    run = read_one(path, seq_len=20)
    assert run.batch_tokens == 1280
    assert any("run.json says 10" in warning for warning in run.warnings)
    table = manifest(tmp_path / "m", "path,seq_len,batch_sequences\nb64.csv,30,2\n")
    assert read_one(path, seq_len=20, manifest=table).batch_tokens == 60


# --- the tokens column ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [64, 4096, 524_288])
def test_thinned_rows_and_an_offset_do_not_matter(tmp_path, batch):
    steps = np.unique(np.geomspace(1, 30_000, 100).astype(int))[:100]
    path = tmp_path / "run.csv"
    lines = [f"{step},{9 - step**0.1},{batch * (step - 1)}" for step in steps]
    path.write_text("step,loss,tokens\n" + "\n".join(lines) + "\n")
    run = read_one(path)
    assert run.batch_tokens == batch
    assert run.warnings == []


def test_a_column_rounded_to_three_digits_is_a_check_not_a_source(tmp_path):
    tokens = np.array([float(f"{512 * step:.2e}") for step in STEPS])
    run = read_one(log(tmp_path / "b512.csv", tokens=tokens))
    assert (run.batch_tokens, run.warnings) == (512, [])
    assert "name" in run.batch_source
    run = read_one(log(tmp_path / "b600.csv", tokens=tokens))
    assert any("512" in warning or "51" in warning for warning in run.warnings)
    run = read_one(log(tmp_path / "run.csv", tokens=tokens))
    assert run.batch_tokens == pytest.approx(512, rel=0.02)
    assert any("is rounded" in warning for warning in run.warnings)


def test_one_wrong_cell_is_no_change_of_batch_size(tmp_path):
    tokens = 512 * STEPS
    tokens[40] += 7000
    assert read_one(log(tmp_path / "run.csv", tokens=tokens)).batch_tokens == 512


def test_a_counter_that_starts_again_at_a_resume_is_no_change_of_batch_size(tmp_path):
    tokens = 512 * STEPS - np.where(STEPS > 500, 512 * 500, 0)
    run = read_one(log(tmp_path / "run.csv", tokens=tokens))
    assert run.batch_tokens == 512
    assert any("counts" in warning and "batch size times steps" in warning for warning in run.warnings)


def test_micro_steps_show_as_tokens_that_do_not_fit(tmp_path):
    run = read_one(log(tmp_path / "run.csv", tokens=128 * STEPS, batch_tokens=512))
    assert any("512" in warning and "128" in warning for warning in run.warnings)


@pytest.mark.parametrize("column", ["tokens", "batch_tokens", "B"])
def test_a_batch_size_that_changes_in_the_stable_phase_is_refused(tmp_path, column):
    size = np.where(STEPS <= 600, 256, 512)
    values = np.cumsum(size * 10) if column == "tokens" else size
    path = log(tmp_path / "run.csv", **{column: values})
    with pytest.raises(
        BadInputError, match=r"run.csv: the batch size changes .* between 256 and 512 .*no ray"
    ):
        read_one(path)
    run = read_one(path, stable_until=600)
    assert (run.batch_tokens, run.warnings) == (256, [])


def test_a_ramp_before_the_stable_phase_is_said(tmp_path):
    size = np.where(STEPS <= 200, 256, 512)
    run = read_one(log(tmp_path / "run.csv", batch_tokens=size), warmup_steps=300)
    assert run.batch_tokens == 512
    assert any("changed before the stable phase" in warning for warning in run.warnings)


@given(batch=st.integers(1, 10**7), seq_len=st.integers(1, 10**5))
def test_any_size_in_tokens_or_sequences(tmp_path_factory, batch, seq_len):
    folder = tmp_path_factory.mktemp("any")
    assert read_one(log(folder / "run.csv", tokens=batch * STEPS)).batch_tokens == batch
    run = read_one(log(folder / f"bs{batch}.csv"), seq_len=seq_len)
    assert run.batch_tokens == batch * seq_len


# --- names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "size", "unit"),
    [
        ("b256.csv", 256, None),
        ("b64_lr0.01.jsonl", 64, None),
        ("bs64.csv", 64, None),
        ("run-bs=64-seed1.csv", 64, None),
        ("batch_size_32.csv", 32, None),
        ("batch-size-32.log.gz", 32, None),
        ("B=128,lr=3e-4.csv", 128, None),
        ("gbs1024.csv", 1024, None),
        ("global_batch_size_8/metrics.jsonl", 8, None),
        ("batch_tokens=4096.csv", 4096, "tokens"),
        ("512seq.csv", 512, "sequences"),
        ("lr0.1_512seqs_x.csv", 512, "sequences"),
        ("b64k_tokens.csv", 64_000, "tokens"),
        ("bs512Ki.csv", 524_288, None),
        ("350m_b16.csv", 16, None),
        ("b64/lr0.01/history.csv", 64, None),
    ],
)
def test_batch_sizes_in_names(name, size, unit):
    found = batch_in_name(Path("/nowhere") / name)
    assert (found.size, found.unit) == (size, unit)


@pytest.mark.parametrize(
    "name",
    [
        "gb200.csv",
        "web64.csv",
        "lab2.csv",
        "7b.csv",
        "adam_b1_0.9_b2_0.95.csv",
        "b64x.csv",
        "ab-64.csv",
        "seq512.csv",
    ],
)
def test_names_that_hold_no_batch_size(name):
    assert batch_in_name(Path("/nowhere/at/all") / name) is None


def test_learning_rates_and_seeds_in_names():
    assert lr_in_name(Path("/x/b64_lr0.01.jsonl")) == 0.01
    assert lr_in_name(Path("/x/lr=3e-4/b64.csv")) == 3e-4
    assert lr_in_name(Path("/x/color5.csv")) is None
    assert seed_in_name(Path("/x/b64-seed3.csv")) == 3
    assert seed_in_name(Path("/x/seedling3.csv")) is None


# --- manifest and run.json -----------------------------------------------------------------------------------


def test_a_manifest_says_all_that_the_logs_do_not(tmp_path):
    log(tmp_path / "logs" / "one.csv")
    log(tmp_path / "logs" / "two" / "metrics.csv")
    table = manifest(
        tmp_path / "m.csv",
        "path,name,batch_sequences,seq_len,seed,lr\nlogs/one.csv,first,8,16,1,0.1\nlogs/two,second,4,16,2,0.2\n",
    )
    runs = read_runs([tmp_path], ReadOptions(manifest=table, warmup_steps=0))
    assert [(run.name, run.batch_tokens, run.seed, run.lr) for run in runs] == [
        ("second", 64, 2, 0.2),
        ("first", 128, 1, 0.1),
    ]
    assert all(run.warnings == [] for run in runs)


def test_manifest_rows_that_match_nothing_are_named(tmp_path):
    log(tmp_path / "one.csv")
    table = manifest(tmp_path / "m", "path,batch_tokens\none.csv,64\nthree.csv,128\n")
    assert any("three.csv" in w for w in read_one(tmp_path / "one.csv", manifest=table).warnings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,batch_tokens\nrun.csv,64\n", "needs a column 'path'; columns found: batch_tokens, file"),
        ("path,batch_token\nrun.csv,64\n", "unknown column 'batch_token'"),
        ("path,batch_tokens\nrun.csv,many\n", "line 2: batch_tokens must be a number above 0, not 'many'"),
        ("path,batch_tokens\nrun.csv,-5\n", "line 2: batch_tokens must be a number above 0"),
        ("path,seq_len\nrun.csv,1.5\n", "line 2: seq_len must be a whole number"),
        ("path,batch_tokens\nrun.csv,64\nrun.csv,65\n", "line 3: run.csv is named twice"),
        ("path,batch_tokens\n,64\n", "line 2: the path is empty"),
        ("path,batch_tokens\nrun.csv,64,65\n", "line 2: more cells"),
        ("", "needs a column 'path'; columns found: none"),
    ],
)
def test_bad_manifests(tmp_path, text, message):
    log(tmp_path / "run.csv")
    with pytest.raises(BadInputError, match=message):
        read_one(tmp_path / "run.csv", manifest=manifest(tmp_path / "m", text))


def test_manifests_that_cannot_be_read(tmp_path):
    log(tmp_path / "run.csv")
    with pytest.raises(BadInputError, match=r"m.csv: the manifest cannot be read \(No such file"):
        read_one(tmp_path / "run.csv", manifest=tmp_path / "m.csv")
    (tmp_path / "m").write_bytes(b"\xff\xfe\0\0path")
    with pytest.raises(BadInputError, match="the manifest is not a CSV file"):
        read_one(tmp_path / "run.csv", manifest=tmp_path / "m")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "holds no JSON object"),
        ('{"batch_tokens": "many"}', "batch_tokens must be a number above 0, not 'many'"),
        ('{"batch_tokens": NaN}', "batch_tokens must be a number above 0"),
        ('{"warmup_steps": -1}', "warmup_steps must be a whole number not below 0"),
        ('{"train_loss_window": "weekly"}', "train_loss_window must be a number of steps or"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_bad_run_json(tmp_path, content, message):
    path = log(tmp_path / "b64.csv")
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(BadInputError, match=f"run.json: {message}"):
        read_one(path)


def test_keys_that_a_run_json_leaves_empty_say_nothing(tmp_path):
    path = log(tmp_path / "b64.csv")
    (tmp_path / "run.json").write_text(
        json.dumps({"batch_tokens": None, "decay_start_step": None, "model": {}})
    )
    assert read_one(path).batch_tokens == 64
