"""`ebfit design` as a user meets it: what it prints and writes, and what it refuses."""

import json
import shlex

import numpy as np
import pytest
from fits import changed
from strategies import noisy_rows, write_points

from ebfit import api
from ebfit.cli.sizes import parse_batch_sizes
from ebfit.files import Design, Fit, RunRecord
from ebfit.points import read_points


@pytest.fixture(scope="module")
def fit_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    points = write_points(folder / "points.csv", noisy_rows(sizes=8))
    api.fit(read_points(points), bootstrap=100).save(folder / "fit.json")
    return folder / "fit.json"


# --- what comes out ------------------------------------------------------------------------------------------------


def test_the_table_the_file_and_the_document_agree(fit_file, tmp_path, ebfit):
    output = tmp_path / "design.json"
    status, out, err = ebfit("design", fit_file, "--budget", "40M", "-o", output)
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80 or str(output) in out
    design = Design.load(output)
    assert design.total_tokens <= design.budget_tokens == 40_000_000
    assert design.total_tokens == pytest.approx(sum(run.tokens for run in design.runs))
    for run in design.runs:
        assert run.tokens == pytest.approx(run.seeds * run.steps * run.batch_tokens)
        row = next(line for line in out.splitlines() if line.split()[:1] == [f"{run.batch_tokens:,.0f}"])
        assert row.endswith(run.place) or run.place in row
    for target in design.targets:
        assert target.wanted
        assert target.b_opt.status == "ok"
        assert 0.0 < target.b_opt.after < target.b_opt.before
    assert [item.path for item in design.inputs] == [str(fit_file)]
    status, printed, _ = ebfit("design", fit_file, "--budget", "40M", "--json")
    again = json.loads(printed)
    assert again == json.loads(output.read_text())
    assert again["schema"] == "ebfit.design/1"


def test_the_half_width_before_is_that_of_the_fit(fit_file, ebfit):
    _, printed, _ = ebfit("design", fit_file, "--budget", "40M", "--json")
    for target, record in zip(
        Design.model_validate_json(printed).targets, Fit.load(fit_file).targets, strict=True
    ):
        assert target.b_opt.before == pytest.approx(0.5 * np.log(record.b_opt.high / record.b_opt.low))


def test_one_target_counts_alone(fit_file, ebfit):
    _, printed, _ = ebfit("design", fit_file, "--budget", "40M", "--target", "2.2", "--full-length", "--json")
    design = Design.model_validate_json(printed)
    assert [(target.loss, target.wanted) for target in design.targets] == [(2.4, False), (2.2, True)]
    assert {run.for_loss for run in design.runs} == {2.2}


def test_batch_sizes_may_be_given(fit_file, ebfit):
    _, printed, _ = ebfit("design", fit_file, "--budget", "60M", "--batch-sizes", "1536,2Ki..8Ki", "--json")
    sizes = {run.batch_tokens for run in Design.model_validate_json(printed).runs}
    assert sizes <= {1536.0, 2048.0, 4096.0, 8192.0}
    assert sizes


def test_a_check_shows_what_really_comes_out(fit_file, ebfit):
    status, out, _ = ebfit("design", fit_file, "--budget", "40M", "--check", "2")
    assert status == 0
    assert "checked" in out
    assert "the median of 2 simulations" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_the_command_of_a_sweep_trains_what_the_design_says(fit_file, tmp_path, ebfit):
    """With runs of `ebfit sweep`: every run of the design is in one command, with seeds that no run has yet."""

    def swept(document):
        record = RunRecord.model_validate(
            {
                "name": "b",
                "path": "b/metrics.jsonl",
                "format": "ebfit",
                "batch_tokens": 1024,
                "batch_source": "run.json",
                "seq_len": 64,
                "lr": 0.01,
                "seed": 0,
                "rows": 100,
                "dropped": {},
                "stable_from": 1,
                "stable_to": 100,
                "stable_source": "run.json",
            }
        )
        document["runs"] = []
        for target in document["targets"]:
            for point in target["points"]:
                point["seed"] = 4
                document["runs"].append(
                    json.loads(record.model_copy(update={"name": point["run"]}).model_dump_json())
                )

    path = changed(fit_file, tmp_path, swept)
    _, printed, _ = ebfit("design", path, "--budget", "60M", "--json")
    design = Design.model_validate_json(printed)
    assert design.seq_len == 64
    assert all(run.batch_tokens % 64 == 0 for run in design.runs)
    trained = []
    for command in design.commands:
        words = shlex.split(command)
        options = dict(zip(words[2::2], words[3::2], strict=True))
        assert words[:2] == ["ebfit", "sweep"]
        first = int(options.get("--first-seed", 0))
        for size in parse_batch_sizes(options["--batch-sizes"]):
            trained += [
                (size, seed, float(options["--until-loss"]))
                for seed in range(first, first + int(options["--seeds"]))
            ]
    wanted = [
        (run.batch_tokens, run.first_seed + i, run.for_loss) for run in design.runs for i in range(run.seeds)
    ]
    assert sorted(trained) == sorted(wanted)
    assert len({(size, seed) for size, seed, _ in trained}) == len(trained)


def test_where_b_opt_is_open_the_design_goes_there_and_says_so(tmp_path, ebfit):
    rows = [row for row in noisy_rows(sizes=24) if row["batch_tokens"] < 2100]
    points = write_points(tmp_path / "points.csv", rows)
    api.fit(read_points(points), bootstrap=100).save(tmp_path / "fit.json")
    fit = Fit.load(tmp_path / "fit.json")
    assert {target.b_opt.status for target in fit.targets} == {"lower_bound"}
    status, out, err = ebfit("design", tmp_path / "fit.json", "--budget", "60M")
    assert status == 0
    assert "B_opt may lie above the batch sizes that reached the target at 2.4: one run at least goes" in err
    assert "new ground" in out


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--budget", "1K"], "too small for any run: the cheapest, at"),
        (["--budget", "-3"], "not a size"),
        (["--budget", "lots"], "not a size"),
        (["--budget", "1M", "--target", "3.3"], "holds no target 3.3. Its targets: 2.4, 2.2"),
        (["--budget", "1M", "--group", "big"], "holds no group big"),
        (
            ["--budget", "40M", "--batch-sizes", "1000", "--seq-len", "64"],
            "no whole number of sequences of 64",
        ),
        (["--budget", "40M", "--batch-sizes", "1..1M:500"], "Give 100 at most"),
        (["--budget", "40M", "--check", "-1"], "-1 simulations"),
        (["--budget", "40M", "--seed", "-1"], "seed -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(fit_file, ebfit, options, says):
    status, out, err = ebfit("design", fit_file, *options)
    assert (status, out) == (2, "")
    assert says in " ".join(err.replace("│", " ").split())


def test_the_least_budget_that_is_named_is_enough(fit_file, ebfit):
    _, _, err = ebfit("design", fit_file, "--budget", "10")
    least = err.rstrip(".\n").split(" ")[-1].replace(",", "")
    status, printed, _ = ebfit("design", fit_file, "--budget", round(float(least)) + 1_000, "--json")
    assert status == 0
    assert sum(run["seeds"] for run in json.loads(printed)["runs"]) == 1


def test_another_law_is_refused(fit_file, tmp_path, ebfit):
    def classic(document):
        for target in document["targets"]:
            target["law"] = "classic"

    status, _, err = ebfit("design", changed(fit_file, tmp_path, classic), "--budget", "40M")
    assert status == 2
    assert "made with the law classic" in err


def test_a_fit_without_targets_cannot_answer(fit_file, tmp_path, ebfit):
    path = changed(fit_file, tmp_path, lambda document: document.update(targets=[]))
    status, _, err = ebfit("design", path, "--budget", "40M")
    assert status == 1
    assert "holds no target" in err


def test_batch_sizes_that_never_arrive_cannot_answer(fit_file, ebfit):
    status, _, err = ebfit("design", fit_file, "--budget", "40M", "--batch-sizes", "16,32")
    assert status == 1
    assert "at no batch size is a run sure enough" in err


def test_several_groups_ask_for_one(fit_file, tmp_path, ebfit):
    def grouped(document):
        other = json.loads(json.dumps(document["targets"]))
        for group, targets in (("small", document["targets"]), ("large", other)):
            for target in targets:
                target["group"] = group
        document["targets"] += other

    path = changed(fit_file, tmp_path, grouped)
    status, _, err = ebfit("design", path, "--budget", "40M")
    assert status == 2
    assert "--group" in err
    status, printed, _ = ebfit("design", path, "--budget", "40M", "--group", "large", "--json")
    assert (status, json.loads(printed)["group"]) == (0, "large")


def test_the_fit_is_not_overwritten(fit_file, ebfit):
    before = fit_file.read_bytes()
    status, _, _ = ebfit("design", fit_file, "--budget", "40M", "-o", fit_file)
    assert status == 2
    assert fit_file.read_bytes() == before
