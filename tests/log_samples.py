"""A good log of every format, whole as its trainer writes it, for tests that do harm to logs."""

import csv
import io
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from event_files import scalar, write_events

from tests import test_formats_llm_logs as llm_logs
from tests import test_formats_megatron as megatron_logs
from tests.test_formats_console import LOGS

STEPS = range(10, 401, 10)
TIME = 1_767_225_600_000


def loss_at(step: int) -> float:
    """Of five digits, so that one cut short is another number."""
    return round(4.0 - step / 997, 4)


@dataclass(frozen=True)
class Sample:
    """The log of one run.

    Attributes
    ----------
    name : str
        Of the file.
    data : bytes
        What the file holds.
    beside : dict
        Name -> text of other files of the run.
    """

    name: str
    data: bytes
    beside: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path, data: bytes | None = None) -> Path:
        """Write the log into an empty folder, with other bytes if given; return its path."""
        for name, text in self.beside.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        path = folder / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data if data is None else data)
        return path


def _text(rows: list[str], end: str = "\n") -> bytes:
    return "".join(row + end for row in rows).encode()


def _csv() -> bytes:
    return _text(["step,loss,val_loss,lr", *(f"{s},{loss_at(s)},{loss_at(s) + 1:.4f},0.001" for s in STEPS)])


def _json_lines(**more: float) -> bytes:
    records = [{"step": s, "train_loss": loss_at(s), "tokens": 64 * s, "lr": 0.001, **more} for s in STEPS]
    return _text([json.dumps(record) for record in records])


def _json_columns() -> bytes:
    history = {"train": {"iter": [*STEPS], "loss": [loss_at(s) for s in STEPS]}}
    return json.dumps({"config": {"seq_len": 32, "seed": 1}, "history": history}, indent=1).encode()


def _trainer_state() -> bytes:
    records = [{"learning_rate": 3e-4, "loss": loss_at(s), "step": s} for s in STEPS]
    return json.dumps({"global_step": 400, "log_history": records, "train_batch_size": 8}, indent=2).encode()


def _lightning() -> bytes:
    rows = ["epoch,lr-AdamW,step,train_loss,val_loss"]
    for step in STEPS:
        rows += [f",0.001,{step - 1},,", f"0,,{step - 1},{loss_at(step)},"]
    return _text([*rows, "0,,399,,3.9"], "\r\n")


def _panel() -> bytes:
    text = io.StringIO()
    table = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    columns = [f"bs64 - train/{name}{end}" for name in ("loss", "lr") for end in ("", "__MIN", "__MAX")]
    table.writerow(["Step", *columns])
    table.writerows([[step, *[loss_at(step)] * 3, *["0.001"] * 3] for step in STEPS])
    return text.getvalue().encode()


def _parquet() -> bytes:
    columns = {
        "step": [*STEPS],
        "loss": [loss_at(s) for s in STEPS],
        "val_loss": [f"{loss_at(s)}" for s in STEPS],
    }
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=16)
    return file.getvalue()


def _events() -> bytes:
    events = [
        event
        for s in STEPS
        for event in (scalar("train/loss", loss_at(s), s, 1.0 + s), scalar("lr", 0.001, s, 1.0 + s))
    ]
    with tempfile.TemporaryDirectory() as folder:
        return write_events(Path(folder) / "b64", events).read_bytes()


def _composer() -> str:
    steps = [llm_logs.composer_step(step) + llm_logs.composer_evaluation(3.0) for step in llm_logs.STEPS]
    return llm_logs.COMPOSER_CONFIG + "".join(steps)


_CONSOLE = {
    **LOGS,
    "nanotron": llm_logs.NANOTRON_START + "".join(map(llm_logs.nanotron_line, llm_logs.STEPS)),
    "internevo": "".join(map(llm_logs.internevo_line, llm_logs.STEPS)),
    "composer_text": _composer(),
    "megatron": megatron_logs.arguments(seq_length=2048, seed=1)
    + "".join(map(megatron_logs.megatron_line, megatron_logs.STEPS)),
    "neox": megatron_logs.neox_arguments() + "".join(map(megatron_logs.neox_line, megatron_logs.STEPS)),
}
CONSOLE = {name: Sample("train.log", text.encode()) for name, text in _CONSOLE.items()}
SAMPLES: dict[str, Sample] = {
    **CONSOLE,
    "ebfit": Sample("b64/metrics.jsonl", _json_lines(batch_tokens=64)),
    "jsonl": Sample("b64.jsonl", _json_lines()),
    "json_columns": Sample("b64.json", _json_columns()),
    "csv": Sample("b64.csv", _csv()),
    "hf_trainer": Sample("out/checkpoint-400/trainer_state.json", _trainer_state()),
    "lightning_csv": Sample(
        "b64/version_0/metrics.csv", _lightning(), {"b64/version_0/hparams.yaml": "lr: 0.001\n"}
    ),
    "mlflow": Sample(
        "mlruns/0/a1/metrics/loss",
        _text([f"{TIME + s} {loss_at(s)} {s}" for s in STEPS]),
        {"mlruns/0/a1/meta.yaml": "experiment_id: '0'\nrun_name: b64\n", "mlruns/0/a1/params/seed": "3"},
    ),
    "parquet": Sample("b64.parquet", _parquet()),
    "tensorboard": Sample("b64/events.out.tfevents.1.node.1.0", _events()),
    "tensorboard_csv": Sample(
        "run-b64-tag-train_loss.csv",
        _text(["Wall time,Step,Value", *(f"{1.7e9 + s},{s},{loss_at(s)}" for s in STEPS)]),
    ),
    "wandb_panel": Sample("chart.csv", _panel()),
}
