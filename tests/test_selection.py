"""Which runs go into one fit: chosen, grouped, the best learning rate, and what must be said of those that differ."""

import json
from pathlib import Path

import numpy as np
import pytest
from strategies import surface_loss, write_run

import ebfit
from ebfit import selection
from ebfit.cli.main import main
from ebfit.errors import BadInputError

SIZES = [1000 * 2**k for k in range(8)]
TARGETS = [2.3, 2.1]


def _sweep(folder: Path, rates=(0.01,), worse: float = 1.0, **more: object) -> Path:
    """A run per batch size and learning rate; every further rate takes ``worse`` times the steps."""
    for number, rate in enumerate(rates):
        for size in SIZES:
            log = write_run(folder / f"b{size}-lr{rate:g}", size, seed=number, lr=rate, **more)
            records = [json.loads(line) for line in log.read_text().splitlines()]
            for record in records:
                record["lr"] *= rate / 0.01
                steps = np.array(record["step"] / worse**number)
                record["train_loss"] = float(surface_loss(size, steps))
            log.write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


@pytest.fixture
def runs(tmp_path: Path):
    return ebfit.read_runs([_sweep(tmp_path / "sweep", (0.01, 0.02), worse=1.5)])


def _fit(runs, **wanted):
    return ebfit.fit(runs, targets=TARGETS, bootstrap=100, **wanted)


def test_runs_of_one_learning_rate_are_chosen(runs):
    chosen = _fit(runs, select={"lr": "0.02"})
    assert {run.lr for run in chosen.runs} == {0.02}
    assert len(chosen.targets[0].points) == len(SIZES)
    assert not any("different learning rates" in text for text in chosen.warnings)
    assert chosen.settings["select"] == {"lr": "0.02"}


def test_several_values_and_keys_narrow_the_choice(runs):
    names = [run.name for run in selection.select(runs, {"batch_tokens": "1000|2000", "lr": "1e-2"})]
    assert sorted(names) == ["b1000-lr0.01", "b2000-lr0.01"]


def test_learning_rates_that_differ_are_named_with_the_ways_out(runs):
    said = [text for text in _fit(runs).warnings if "learning rates" in text]
    assert said == [
        "the runs have different learning rates (0.01, 0.02), and the law holds for runs that differ in batch size "
        "alone: give `ebfit fit` --select lr=VALUE, --group-by lr, or --best-lr."
    ]


def test_groups_are_fitted_as_if_each_were_alone(runs):
    grouped = _fit(runs, group_by="lr")
    assert [(target.group, target.loss) for target in grouped.targets] == [
        (group, loss) for group in ("0.01", "0.02") for loss in TARGETS
    ]
    for rate in ("0.01", "0.02"):
        alone = _fit(runs, select={"lr": rate}).targets
        together = [target for target in grouped.targets if target.group == rate]
        assert [target.b_opt for target in together] == [target.b_opt for target in alone]
    assert not any("learning rates" in text for text in grouped.warnings)


def test_models_are_groups_and_are_named_where_they_are_mixed(tmp_path: Path):
    for model in ("small", "large"):
        _sweep(tmp_path / model, model=model)
    runs = ebfit.read_runs([tmp_path])
    assert {run.model for run in runs} == {"small", "large"}
    assert any("different models (large, small)" in text for text in _fit(runs).warnings)
    grouped = _fit(runs, group_by="model")
    assert {target.group for target in grouped.targets} == {"small", "large"}


def test_data_are_groups_and_are_named_where_they_are_mixed(tmp_path: Path):
    _sweep(
        tmp_path / "a", data={"kind": "text", "tokenizer": "bytes", "sha256": "0123456789abcdef", "tokens": 5}
    )
    _sweep(tmp_path / "b", data="c4")
    runs = ebfit.read_runs([tmp_path])
    assert {run.data for run in runs} == {"text bytes 01234567", "c4"}
    said = [text for text in _fit(runs).warnings if "different data" in text]
    assert len(said) == 1
    assert "different data (c4, text bytes 01234567)" in said[0]
    assert "--group-by data" in said[0]
    assert {target.group for target in _fit(runs, group_by="data").targets} == {"c4", "text bytes 01234567"}
    alone = _fit(runs, select={"data": "c4"})
    assert {run.data for run in alone.runs} == {"c4"}
    assert not any("different data" in text for text in alone.warnings)


def test_the_best_learning_rate_is_the_one_with_the_fewest_steps(runs):
    """The second rate takes 1.5 times the steps everywhere, so the first one is best everywhere."""
    best, first = _fit(runs, best_lr=True), _fit(runs, select={"lr": "0.01"})
    for mine, alone in zip(best.targets, first.targets, strict=True):
        reached, wanted = (
            [(point.run, point.steps) for point in target.points if not point.censored]
            for target in (mine, alone)
        )
        assert reached == wanted
    assert not any("learning rates" in text for text in best.warnings)


def test_a_batch_size_that_no_rate_brought_to_the_target_stays_censored(runs):
    target = _fit(runs, best_lr=True).targets[-1]
    censored = {point.batch_tokens for point in target.points if point.censored}
    everywhere = _fit(runs).targets[-1]
    assert censored == {point.batch_tokens for point in everywhere.points if point.censored} - {
        point.batch_tokens for point in everywhere.points if not point.censored
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--select", "lr=0.5"], "--select lr=0.5: no run has that. There are 0.01, 0.02."),
        (["--select", "colour=red"], "--select colour: runs are told apart by lr, seed,"),
        (["--select", "lr"], "--select lr: write KEY=VALUE"),
        (["--select", "lr="], "--select lr=: write KEY=VALUE"),
        (
            ["--select", "lr=0.01", "--select", "lr=0.02"],
            "--select lr: given twice. Write several values as lr=a|b.",
        ),
        (["--group-by", "seed"], "--group-by seed: runs are told apart by model, data, lr, seq_len."),
        (["--group-by", "model"], "--group-by model: nothing says the model of"),
    ],
)
def test_what_cannot_be_chosen_is_said(runs, arguments, said: str, capsys):
    folder = runs[0].path.parent.parent
    with pytest.raises(SystemExit) as stop:
        main(["fit", str(folder), *arguments])
    printed = capsys.readouterr()
    assert (stop.value.code, printed.out) == (2, "")
    assert said in printed.err


def test_a_points_table_has_no_runs_to_choose_from(tmp_path: Path):
    table = tmp_path / "points.csv"
    table.write_text(
        "target_loss,batch_tokens,steps\n" + "".join(f"2.0,{b},{1000 + b}\n" for b in range(1, 9))
    )
    with pytest.raises(BadInputError, match="name groups in its column group"):
        ebfit.fit(ebfit.read_points(table), best_lr=True)
