"""One test per reported fault, named after it."""

import json
import os

import numpy as np
import pytest
from strategies import write_points

import ebfit
from ebfit.cli.main import main
from ebfit.errors import BadInputError
from ebfit.fitting import Observations, fit_targets
from ebfit.laws import classic, power, revised
from ebfit.runs import Run
from ebfit.runs.run import Curve
from ebfit.trends import Group, find_trends

QUICK = {"replicates": 100, "confidence": 0.95, "seed": 0}


def _write_log(path, batch, last, offset=0.0, tokens=None, header="step,loss,lr,tokens"):
    path.parent.mkdir(parents=True, exist_ok=True)
    steps = np.unique(np.round(np.geomspace(1, last, 80)).astype(int))
    loss = 2.0 + offset + 6.0 * steps**-0.5 + (2e3 / batch) ** 0.8
    counted = steps * batch if tokens is None else tokens(steps * batch)
    rows = [f"{s},{y:.6f},{1e-3 * min(1, s / 10)},{t}" for s, y, t in zip(steps, loss, counted, strict=True)]
    path.write_text("\n".join([header, *rows]) + "\n")


def _single(log_batch, log_steps):
    log_steps = np.asarray(log_steps)[:, None]
    none = np.zeros(log_steps.shape, dtype=bool)
    return Observations(np.asarray(log_batch), log_steps, none, np.zeros((len(log_steps), 1, 1)))


@pytest.mark.parametrize(("sizes", "status"), [((1e3, 32e3), "lower_bound"), ((1e6, 32e6), "upper_bound")])
def test_classic_b_crit_outside_the_batch_sizes_is_a_bound(sizes, status):
    """B_crit of 160K tokens was printed as 159K [146K, 172K] from batch sizes of 1K to 32K."""
    rng = np.random.default_rng(0)
    log_batch = np.linspace(*np.log(sizes), 9)
    truth = np.log([1e3, 1.6e8])
    log_steps = classic.log_steps(truth, log_batch) + 0.005 * rng.standard_normal(9)
    fit = fit_targets("classic", _single(log_batch, log_steps), replicates=400, confidence=0.95, seed=0)[0]
    b_crit = fit.numbers["b_crit"]
    assert b_crit.status == status
    assert b_crit.value is None
    assert (b_crit.low or 0.0) < 1.6e5 < (b_crit.high or np.inf)


def test_losses_averaged_into_the_decay_do_not_count_as_stable():
    """Rows logged in the decay were moved back by their window's lag into the stable phase."""
    logged = np.arange(10.0, 3000.0, 10.0)
    curve = Curve(logged - 99.5, np.ones_like(logged), "loss", 99.5, logged)
    run = Run("r", ".", "csv", 64.0, "", None, None, None, 299, {}, 300, 1600, "", train=curve)
    stable = run.stable_curve("train")
    assert stable.logged_steps.max() == 1600
    assert stable.steps.min() >= 300


def test_seeds_whose_rounded_tokens_columns_differ_are_one_batch_size(tmp_path):
    """Sizes read off 3-digit token counts differed in the fourth digit, and passed for 12 batch sizes."""
    for batch in (1000, 2000, 4000, 8000, 16000, 32000):
        for seed in range(3):
            _write_log(
                tmp_path / f"x{batch}-{seed}" / "log.csv",
                batch,
                1500 + 130 * seed,
                tokens=lambda exact: [f"{count:.2e}" for count in exact],
            )
    fit = ebfit.fit(ebfit.read_runs([tmp_path]), bootstrap=100)
    assert len({point.batch_tokens for point in fit.targets[0].points}) == 6
    assert any("taken for one" in warning for warning in fit.warnings)


def test_output_onto_a_pipe_or_device_does_not_replace_it(tmp_path, capsys):
    """`-o /dev/full` as root made an ordinary file of the device; a pipe stands for it here."""
    write_points(tmp_path / "points.csv", [{"target_loss": 2, "batch_tokens": 64, "steps": 9}])
    out = tmp_path / "out"
    os.mkfifo(out)
    with pytest.raises(SystemExit) as ended:
        main(["fit", "--points", str(tmp_path / "points.csv"), "-o", str(out)])
    assert ended.value.code == 2
    assert "no ordinary file" in capsys.readouterr().err
    assert not os.path.isfile(out)


def test_tokens_counted_in_billions_are_refused(tmp_path):
    """A batch of 8192 tokens in a column of billions was taken for 8.192e-6 tokens, without a word."""
    _write_log(tmp_path / "run.csv", 8192, 900, tokens=lambda exact: exact / 1e9)
    with pytest.raises(BadInputError, match="less than one token"):
        ebfit.read_runs([tmp_path / "run.csv"])


def test_numbers_that_are_not_known_carry_no_made_up_value(tmp_path):
    """E_min and S_opt were given where B_opt was only a bound."""
    free = np.array([7.0, 10.0, -0.4, -2.0, 1.0, 0.0])
    log_batch = np.linspace(11.0, 14.0, 9)  # all above B_opt
    fit = fit_targets(
        "revised",
        _single(log_batch, revised.log_steps(free, log_batch)),
        replicates=100,
        confidence=0.95,
        seed=0,
    )[0]
    assert fit.numbers["b_opt"].status == "upper_bound"
    assert fit.numbers["b_opt"].high >= np.exp(10.0)
    assert fit.e_min is None
    assert fit.s_opt is None


def test_a_fit_records_how_its_logs_were_read(tmp_path):
    """Two fits with different --warmup-steps had the same settings."""
    for batch in (1000, 2000, 4000, 8000, 16000, 32000, 64000):
        _write_log(tmp_path / f"x{batch}.csv", batch, 1500)
    options = ebfit.ReadOptions(warmup_steps=20, columns={"loss": "loss"})
    fit = ebfit.fit(ebfit.read_runs([tmp_path], options), bootstrap=100, n_targets=3, read_options=options)
    assert fit.settings["reading"] == {"warmup_steps": 20, "columns": {"loss": "loss"}}
    assert fit.settings["loss"] == "train"
    assert fit.settings["n_targets"] == 3


def test_a_document_holds_the_numbers_of_its_law_and_plain_integers(tmp_path):
    """For classic, b_min and b_opt stood there as null; a batch size of 64 was written 64.0."""
    rows = [
        {"target_loss": 2.0, "batch_tokens": 64 * 2**i, "steps": 100 + 1e5 / (64 * 2**i)} for i in range(8)
    ]
    write_points(tmp_path / "points.csv", rows)
    for law, keys in (("classic", {"b_crit"}), ("revised", {"b_min", "b_opt"})):
        fit = ebfit.fit(ebfit.read_points(tmp_path / "points.csv"), law=law, bootstrap=100)
        fit.save(tmp_path / f"{law}.json")
        target = json.loads((tmp_path / f"{law}.json").read_text())["targets"][0]
        assert {"b_min", "b_opt", "b_crit"} & set(target) == keys
        assert '"batch_tokens": 64,' in (tmp_path / f"{law}.json").read_text()
        assert ebfit.Fit.load(tmp_path / f"{law}.json") == fit


def test_a_run_mean_at_the_end_is_not_taken_for_the_loss_column(tmp_path):
    """HF logs end in a row with `train_loss`, the mean over the run; it won over 300 rows of `loss`."""
    steps = range(10, 3000, 10)
    rows = [{"step": s, "loss": 2 + s**-0.4, "learning_rate": 1e-3} for s in steps]
    rows.append({"step": 2990, "train_loss": 3.2, "train_runtime": 100.0})
    (tmp_path / "b64.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = ebfit.read_runs([tmp_path / "b64.jsonl"])[0]
    assert run.train.column == "loss"
    assert len(run.train.steps) == len(steps)


def test_replicates_without_seeds_have_names_of_their_own(tmp_path):
    """Two runs of one batch size were both called B=64, and counted as one."""
    rows = [
        {"target_loss": 2.0, "batch_tokens": 64 * 2**i, "steps": 100 + 1e5 / (64 * 2**i) + k}
        for i in range(8)
        for k in range(2)
    ]
    write_points(tmp_path / "points.csv", rows)
    fit = ebfit.fit(ebfit.read_points(tmp_path / "points.csv"), law="classic", bootstrap=100)
    names = [point.run for point in fit.targets[0].points]
    assert len(set(names)) == 16
    assert names[:2] == ["B=64 #1", "B=64 #2"]


def test_a_name_too_long_for_the_system_is_answered_in_words(tmp_path, capsys):
    """An over-long name ended as an internal error."""
    write_points(tmp_path / "points.csv", [{"target_loss": 2, "batch_tokens": 64, "steps": 9}])
    for arguments in (["--points", "x" * 5000], ["--points", str(tmp_path / "points.csv"), "-o", "x" * 5000]):
        with pytest.raises(SystemExit) as ended:
            main(["fit", *arguments])
        assert ended.value.code == 2
        assert "internal error" not in capsys.readouterr().err


def test_output_does_not_overwrite_what_was_read(tmp_path, capsys):
    """`-o` onto a log, a link to it, or the points table replaced it by fit.json."""
    table = tmp_path / "points.csv"
    write_points(table, [{"target_loss": 2, "batch_tokens": 64 * 2**i, "steps": 900 - i} for i in range(8)])
    (tmp_path / "link.json").symlink_to(table)
    before = table.read_bytes()
    for out in (table, tmp_path / "link.json"):
        with pytest.raises(SystemExit) as ended:
            main(["fit", "--points", str(table), "-o", str(out)])
        assert ended.value.code == 2
        assert "would be lost" in capsys.readouterr().err
        assert table.read_bytes() == before


@pytest.mark.parametrize("steps", [lambda b: 1e6 / b, lambda b: 100 + b, lambda b: b])
def test_points_without_a_valley_give_no_b_opt(tmp_path, steps):
    """Tokens that are the same at every batch size gave B_opt 69.8 [69.8, 87.7]."""
    rows = [{"target_loss": 2, "batch_tokens": 2**k, "steps": steps(2**k)} for k in range(5, 17)]
    write_points(tmp_path / "points.csv", rows)
    target = ebfit.fit(ebfit.read_points(tmp_path / "points.csv"), bootstrap=100).targets[0]
    assert target.b_opt.status != "ok"
    assert target.b_opt.value is None


def test_a_wrong_cell_is_pointed_at(tmp_path):
    """One row a million times too high was fitted without a word."""
    rows = [
        {"target_loss": 2, "batch_tokens": 2**k, "steps": 100 * (1 + 500 / 2**k) + (1e7 if k == 9 else 0)}
        for k in range(5, 17)
    ]
    write_points(tmp_path / "points.csv", rows)
    target = ebfit.fit(ebfit.read_points(tmp_path / "points.csv"), bootstrap=100).targets[0]
    assert "poorly" in target.warnings[0]
    assert "at 512 tokens" in target.warnings[0]


@pytest.mark.parametrize(
    "row",
    ["2,1e-300,500,", "2,64,1e300,", "2,64,1e-320,", "2,64,500,1e300"],
    ids=["size", "huge", "tiny", "se"],
)
def test_numbers_that_nobody_measured_are_refused_with_their_line(tmp_path, row):
    """Finite but absurd cells ended as overflow and division errors inside the fit."""
    good = "".join(f"2,{64 * 2**i},{900 - i},\n" for i in range(8))
    (tmp_path / "points.csv").write_text(f"target_loss,batch_tokens,steps,steps_se\n{good}{row}\n")
    with pytest.raises(BadInputError, match="line 10"):
        ebfit.read_points(tmp_path / "points.csv")


def test_escapes_in_names_do_not_reach_the_terminal(tmp_path, capsys):
    """A run called ESC[31m coloured the terminal; one with a lone surrogate was an internal error."""
    rows = "".join(json.dumps({"step": s, "loss": 2 + 1 / s, "lr": 1e-3}) + "\n" for s in range(1, 60))
    for number, name in enumerate(["\u001b[31mred\n", "\ud800"]):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        (folder / "metrics.jsonl").write_text(rows)
        (folder / "run.json").write_text(json.dumps({"name": name, "batch_tokens": 64}))
    for option in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            main(["inspect", str(tmp_path), *option])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert "\\x1b[31m" in shown.replace("\\\\", "\\")


def test_a_manifest_alone_names_the_logs(tmp_path, capsys):
    """`ebfit fit --manifest man.csv` was refused, though the manifest lists the paths."""
    for batch in (1000, 2000):
        _write_log(tmp_path / f"x{batch}.csv", batch, 1500)
    (tmp_path / "man.csv").write_text("path,batch_tokens\nx1000.csv,1000\nx2000.csv,2000\n")
    with pytest.raises(SystemExit) as ended:
        main(["inspect", "--manifest", str(tmp_path / "man.csv"), "--json"])
    assert ended.value.code == 0
    assert [run["batch_tokens"] for run in json.loads(capsys.readouterr().out)["runs"]] == [1000, 2000]
    assert [
        run.batch_tokens for run in ebfit.read_runs([], ebfit.ReadOptions(manifest=tmp_path / "man.csv"))
    ] == [
        1000,
        2000,
    ]


def test_runs_of_two_sweeps_are_not_taken_for_seeds_in_silence(tmp_path):
    """Two models in one folder were fitted as seeds, with an RMS of 0.9 and not a word."""
    for batch in (1000, 2000, 4000, 8000, 16000, 32000, 64000):
        for model, offset in (("small", 0.25), ("large", 0.0)):
            _write_log(tmp_path / model / f"x{batch}.csv", batch, 3000, offset=offset)
    fit = ebfit.fit(ebfit.read_runs(tmp_path), bootstrap=100, n_targets=2)
    assert any(
        "more than seeds mostly do" in warning for target in fit.targets for warning in target.warnings
    )


def test_sizes_in_names_without_a_sequence_length_are_said_to_be_assumed(tmp_path):
    """bs64 without --seq-len was fitted as 64 tokens per step, and only `inspect` showed it."""
    for size in (4, 8, 16, 32, 64, 128, 256):
        _write_log(tmp_path / f"run_bs{size}.csv", size * 500, 1500, header="step,loss,lr,other")
    assumed = ebfit.fit(ebfit.read_runs(tmp_path), bootstrap=100, n_targets=1)
    assert any("give --seq-len" in warning for warning in assumed.warnings)
    options = ebfit.ReadOptions(seq_len=500)
    told = ebfit.fit(ebfit.read_runs(tmp_path, options), bootstrap=100, n_targets=1)
    assert not any("--seq-len" in warning for warning in told.warnings)


def test_a_warmup_that_is_given_does_not_silence_the_question_of_a_decay(tmp_path):
    """With --warmup-steps and no learning rate, a decay tail went into the fit without a warning."""
    for batch in (1000, 2000, 4000, 8000, 16000, 32000, 64000):
        _write_log(tmp_path / f"x{batch}.csv", batch, 1500, header="step,loss,other,tokens")
    for options, asked in (({"warmup_steps": 10}, True), ({"warmup_steps": 10, "stable_until": 1400}, False)):
        runs = ebfit.read_runs(tmp_path, ebfit.ReadOptions(**options))
        fit = ebfit.fit(runs, bootstrap=100, n_targets=1)
        assert any("--stable-until" in warning for warning in fit.warnings) == asked


def test_estimates_are_averaged_where_the_other_law_is_right(tmp_path):
    """On a three-term surface the revised law's own B_opt was printed, up to a third off and at its interval's end."""
    beta, gamma, log_b_min, log_s_min = 0.8, 0.6, 9.0, 7.0
    free = np.array([log_s_min, log_b_min, np.log(beta), np.log(gamma)])
    log_batch = np.linspace(log_b_min + 0.1, log_b_min + 5.5, 12)
    noise = 0.005 * np.random.default_rng(0).standard_normal(12)
    data = _single(log_batch, power.log_steps(free, log_batch) + noise)
    fit = fit_targets("revised", data, replicates=400, confidence=0.95, seed=0)[0]
    truth = log_b_min + np.log((beta + gamma) / gamma) / beta
    revised_alone = np.log(fit.params["e_min"] / fit.params["s_opt"])
    assert fit.second_opinion.weight > 0.5
    assert abs(np.log(fit.numbers["b_opt"].value) - truth) < 0.5 * abs(revised_alone - truth)
    assert fit.numbers["b_opt"].value == pytest.approx(fit.e_min / fit.s_opt, rel=1e-9)


def test_a_target_without_a_known_d_takes_no_part_in_a_trend(tmp_path):
    """Where B_min was known and B_opt only a bound, E_min was null and the growth of B_min came out as NaN."""
    free = np.array([7.0, 10.0, -0.4, -2.0, 1.0, 0.0])
    log_b_min = float(revised.log_numbers(free)["b_min"])
    log_batch = np.linspace(log_b_min + 0.1, 9.9, 8)  # from next to B_min to just below B_opt
    fits = [
        fit_targets("revised", _single(log_batch + shift, revised.log_steps(free, log_batch)), **QUICK)[0]
        for shift in (0.0, 0.5, 1.0)
    ]
    assert {fit.numbers["b_min"].status for fit in fits} == {"ok"}
    assert {fit.numbers["b_opt"].status for fit in fits} == {"lower_bound"}
    group = Group(None, [2.2, 2.1, 2.0], [1e7, 2e7, 4e7], fits)
    assert find_trends([group], 0.95).b_min_vs_tokens is None
