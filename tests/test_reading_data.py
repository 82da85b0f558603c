"""What is known of the data that a run was trained on: from a run.json, a manifest, a trainer's config."""

import json
from pathlib import Path

import pytest

from ebfit.files import Inspection, to_json
from ebfit.records import run_record
from ebfit.runs import ReadOptions, Run, read_runs

SWEPT = {
    "kind": "text",
    "tokenizer": "gpt2",
    "sha256": "0b0028728d33",
    "sha256_covers": "all",
    "tokens": 12_080_467,
    "val_tokens": 8192,
}


def _log(folder: Path, run_json: dict[str, object] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "b64.csv"
    path.write_text("step,loss,lr\n" + "".join(f"{step},{5 / step},0.1\n" for step in range(1, 40)))
    if run_json is not None:
        (folder / "run.json").write_text(json.dumps(run_json))
    return path


def _read(path: Path, manifest: str = "") -> Run:
    options = ReadOptions()
    if manifest:
        (path.parent / "m.csv").write_text(manifest)
        options = ReadOptions(manifest=path.parent / "m.csv")
    [run] = read_runs([path], options)
    return run


@pytest.mark.parametrize(
    ("run_json", "data"),
    [
        ({"data": SWEPT}, "text gpt2 0b002872"),
        ({"data": SWEPT | {"validation_sha256": "ffeeddccbbaa"}}, "text gpt2 0b002872 ffeeddcc"),
        ({"data": {"path": "c4", "language": "en"}}, "language=en path=c4"),
        ({"data": " c4 "}, "c4"),
        ({"dataset": "openwebtext"}, "openwebtext"),
        ({"data": {}}, None),
        ({"data": ["c4", "wiki"]}, None),
        ({"data": ""}, None),
        ({}, None),
    ],
)
def test_what_a_run_json_says_of_the_data(tmp_path: Path, run_json, data):
    assert _read(_log(tmp_path, run_json)).data == data


def test_how_much_of_the_data_is_held_out_makes_no_other_data(tmp_path: Path):
    fewer = _read(_log(tmp_path / "a", {"data": SWEPT}))
    more = _read(_log(tmp_path / "b", {"data": SWEPT | {"val_tokens": 16_384, "train_tokens": 1}}))
    assert fewer.data == more.data


def test_the_manifest_goes_first(tmp_path: Path):
    path = _log(tmp_path, {"data": SWEPT})
    assert _read(path, "path,data\nb64.csv,the pile\n").data == "the pile"


def test_of_a_trainers_config_only_a_name_counts(tmp_path: Path):
    """A mapping there holds settings of loading, too: its batch size would make every run one of other data."""
    steps = list(range(1, 40))
    for name, data in (("named", "c4"), ("loaded", {"path": "c4", "batch_size": 8})):
        history = {"train": {"iter": steps, "loss": [5 / step for step in steps]}}
        document = {"config": {"dataset": data, "seq_len": 8}, "history": history}
        (tmp_path / f"b64-{name}.json").write_text(json.dumps(document))
    assert {run.name: run.data for run in read_runs([tmp_path])} == {"b64-named": "c4", "b64-loaded": None}


def test_model_and_data_stand_in_the_documents(tmp_path: Path):
    run = _read(_log(tmp_path, {"data": "c4", "model": "85M"}))
    document = Inspection(schema="ebfit.inspect/1", ebfit_version="0", inputs=[], runs=[run_record(run)])
    [written] = json.loads(to_json(document))["runs"]
    assert (written["model"], written["data"]) == ("85M", "c4")
    assert Inspection.model_validate_json(to_json(document)).runs[0].data == "c4"
    del written["model"], written["data"]  # as documents were written before
    old = Inspection.model_validate_json(json.dumps(json.loads(to_json(document)) | {"runs": [written]}))
    assert (old.runs[0].model, old.runs[0].data) == (None, None)
