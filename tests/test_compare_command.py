"""`ebfit compare` as a user meets it: what it prints and writes, and fit.json files that it refuses."""

import json

import numpy as np
import pytest
from fits import changed
from strategies import noisy_rows, write_points

from ebfit import api, comparing
from ebfit.files import Fit, LawComparison
from ebfit.points import read_points


@pytest.fixture(scope="module")
def fit_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    points = write_points(folder / "points.csv", noisy_rows())
    fit = api.fit(read_points(points), law="classic", bootstrap=100)  # whatever was fitted, points are points
    fit.save(folder / "fit.json")
    return folder / "fit.json"


@pytest.fixture(scope="module")
def found(fit_file):
    return comparing.compare(Fit.load(fit_file))


# --- what comes out ----------------------------------------------------------------------------------------------


def test_the_document_the_table_and_the_file_agree(fit_file, found, tmp_path, ebfit):
    output = tmp_path / "comparison.json"
    status, out, err = ebfit("compare", fit_file, "-o", output)
    assert (status, err) == (0, "")
    assert max(len(line) for line in out.splitlines() if not line.startswith("wrote")) <= 80
    written = LawComparison.load(output)
    assert written.model_copy(update={"inputs": [], "settings": {}}) == found
    assert [item.path for item in written.inputs] == [str(fit_file)]
    for law in written.laws:
        row = next(line for line in out.splitlines() if line.startswith(law.name + " "))
        assert f"{law.lobo_median:.3f}" in row
    # both targets of this world have one shape
    assert written.recommendation.options == {"law": "revised", "coupling": "shared"}
    assert "\nUse --law revised --coupling shared: it predicts a left-out batch size between" in out
    status, printed, _ = ebfit("compare", fit_file, "--json")
    assert json.loads(printed)["laws"] == json.loads(output.read_text())["laws"]


def test_errors_are_those_of_the_predictions_that_are_listed(found):
    by_name = {law.name: law for law in found.laws}
    for name, law in by_name.items():
        between = [
            abs(np.log(point.predicted[name] / point.steps))
            for target in found.targets
            for point in target.left_out
            if point.between and not point.ended
        ]
        assert law.lobo_median == pytest.approx(np.median(between), rel=1e-6)
        assert law.lobo_p90 == pytest.approx(np.quantile(between, 0.9), rel=1e-6)
    assert len(between) == found.counts.between


def test_in_a_revised_world_the_classic_law_is_found_out(found):
    errors = {law.name: law for law in found.laws}
    assert errors["revised alone"].lobo_median < 0.05
    assert errors["classic"].lobo_median > 3.0 * errors["revised alone"].lobo_median
    assert errors["classic"].aicc > errors["revised pooled"].aicc
    assert "Worse than chance explains: " in found.recommendation.why


def test_some_targets_only(fit_file, found, ebfit):
    status, out, err = ebfit("compare", fit_file, "--targets", "2.2", "--json")
    assert status == 0
    document = json.loads(out)
    assert [target["loss"] for target in document["targets"]] == [2.2]
    missing = {"revised pooled", "revised shared", "surface"}
    assert "want of a second target in every group: revised pooled, revised shared, surface." in err
    assert {law["name"] for law in document["laws"]} == {law.name for law in found.laws} - missing


def test_groups_are_fitted_by_themselves_and_scored_together(fit_file, found, tmp_path):
    def second_group(document):
        others = json.loads(json.dumps(document["targets"]))
        for target in others:
            target["group"] = "larger"
            target["loss"] -= 0.5
            for point in target["points"]:
                point["batch_tokens"] *= 7.0
        document["targets"] += others

    both = comparing.compare(Fit.load(changed(fit_file, tmp_path, second_group)))
    assert both.counts.between == 2 * found.counts.between
    assert both.counts.batch_sizes == 2 * found.counts.batch_sizes
    for of_both, alone in zip(both.laws, found.laws, strict=True):
        assert of_both.lobo_median == pytest.approx(alone.lobo_median, rel=1e-3)
        if alone.lobo_mean is not None:
            assert of_both.lobo_mean == pytest.approx(alone.lobo_mean, rel=1e-3)


# --- what cannot be compared -------------------------------------------------------------------------------------


def set_point(**values):
    def change(document):
        document["targets"][0]["points"][3].update(values)

    return change


def twice(document):
    document["targets"].append(document["targets"][0])


def few(document):
    for target in document["targets"]:
        target["points"] = target["points"][-5:]


HOSTILE = {
    "negative steps": (set_point(steps=-5.0), 2, "nothing that was measured"),
    "no steps": (set_point(steps=0.0), 2, "nothing that was measured"),
    "steps beyond count": (set_point(steps=1e300), 2, "nothing that was measured"),
    "infinite steps, in words": (set_point(steps="inf"), 2, "nothing that was measured"),
    "steps that are no number": (set_point(steps="nan"), 2, "nothing that was measured"),
    "a negative batch": (set_point(batch_tokens=-1), 2, "batch_tokens"),
    "a tiny batch": (set_point(batch_tokens=1e-300), 2, "nothing that was measured"),
    "a negative error": (set_point(steps_se=-1.0), 2, "nothing that was measured"),
    "an error that is no number": (set_point(steps_se="nan"), 2, "nothing that was measured"),
    "an error of millions": (set_point(steps_se=1e9), 2, "nothing that was measured"),
    "steps in words": (set_point(steps="many"), 2, "steps"),
    "a loss that is no number": (lambda d: d["targets"][0].update(loss="nan"), 2, "targets.0.loss"),
    "a target twice": (twice, 2, "stands there twice"),
    "no targets": (lambda d: d.update(targets=[]), 1, "add batch sizes"),
    "too few batch sizes": (few, 1, "others: 5 reached a target"),
    "all ended": (
        lambda d: [p.update(censored=True) for t in d["targets"] for p in t["points"]],
        1,
        "none reached a target",
    ),
    "another schema": (lambda d: d.update(schema="ebfit.plan/1"), 2, "not a fit.json"),
}


@pytest.mark.parametrize(("change", "status", "says"), HOSTILE.values(), ids=HOSTILE)
def test_files_that_cannot_be_compared_are_refused_in_a_sentence(
    fit_file, tmp_path, ebfit, change, status, says
):
    path, output = changed(fit_file, tmp_path, change), tmp_path / "comparison.json"
    output.write_text("older")
    code, out, err = ebfit("compare", path, "-o", output)
    assert (code, out) == (status, ""), err
    assert err.startswith(f"ebfit: {path}")
    assert says.lower() in err.lower()
    assert "internal error" not in err
    assert len(err) < 400
    assert output.read_text() == "older"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--targets", "2.3"), "holds no target 2.3. Its targets: 2.4, 2.2."),
        (("--targets", "low"), "--targets low: give losses"),
        (("-o", "no/such/folder.json"), "no such folder"),
    ],
)
def test_options_that_are_wrong(fit_file, ebfit, arguments, says):
    code, out, err = ebfit("compare", fit_file, *arguments)
    assert (code, out) == (2, "")
    assert says in err


def test_the_fit_is_not_overwritten(fit_file, ebfit):
    before = fit_file.read_bytes()
    code, _, err = ebfit("compare", fit_file, "-o", fit_file)
    assert code == 2
    assert "would be lost" in err
    assert fit_file.read_bytes() == before


def test_runs_of_the_same_name_are_runs_of_their_own(fit_file, found, tmp_path):
    """Two seeds that a table did not tell apart are two rows, not one that overwrites the other."""

    def doubled(document):
        for target in document["targets"]:
            target["points"] = [dict(point) for point in target["points"] for _ in range(2)]

    both = comparing.compare(Fit.load(changed(fit_file, tmp_path, doubled)))
    classic = [next(law for law in c.laws if law.law == "classic") for c in (both, found)]
    assert both.counts == found.counts
    assert classic[0].lobo_median == pytest.approx(classic[1].lobo_median, rel=0.05)


def test_hostile_names_do_not_reach_the_terminal(fit_file, tmp_path, ebfit):
    path = changed(
        fit_file, tmp_path, lambda d: [t.update(group="\x1b[31mred [bold]x[/bold]") for t in d["targets"]]
    )
    status, out, _ = ebfit("compare", path)
    assert status == 0
    assert "\x1b" not in out
    assert "[bold]x[/bold]" in out
