"""`ebfit fit --law auto`: the law that predicts left-out batch sizes best, said aloud."""

import numpy as np
import pytest
from strategies import noisy_rows, write_points

from ebfit import api, comparing
from ebfit.errors import BadInputError
from ebfit.files import Fit
from ebfit.laws import classic
from ebfit.points import read_points


def classic_rows():
    """Rows of a points table in which E falls with every smaller batch."""
    log_batch = np.linspace(7.0, 13.0, 10)
    log_steps = classic.log_steps(np.array([5.5, 15.0]), log_batch)
    return [
        {"target_loss": 2.4, "batch_tokens": batch, "steps": steps}
        for batch, steps in zip(np.exp(log_batch), np.exp(log_steps), strict=True)
    ]


def revised_rows():
    return [row for row in noisy_rows() if row["target_loss"] == 2.4]


@pytest.mark.parametrize(("rows", "law"), [(classic_rows(), "classic"), (revised_rows(), "revised")])
def test_the_law_of_the_world_is_fitted_and_the_comparison_kept(tmp_path, rows, law):
    points = read_points(write_points(tmp_path / "points.csv", rows))
    automatic = api.fit(points, law="auto", bootstrap=100)
    assert {target.law for target in automatic.targets} == {law}
    assert automatic.settings["law_reason"].startswith(f"Law {law}")
    by_hand = api.fit(points, law=law, coupling=automatic.settings["coupling"], bootstrap=100)
    assert automatic.targets == by_hand.targets
    assert by_hand.comparison == []
    of_compare = {(each.law, each.coupling): each.lobo_median for each in comparing.compare(by_hand).laws}
    of_fit = {(each.law, each.coupling): each.lobo_median for each in automatic.comparison}
    assert of_fit == pytest.approx(of_compare, rel=1e-4, abs=1e-9)


def test_too_few_batch_sizes_to_compare_are_no_reason_to_stop(tmp_path, ebfit):
    rows = [row for row in revised_rows() if row["batch_tokens"] > 7000.0]
    points, output = write_points(tmp_path / "points.csv", rows), tmp_path / "fit.json"
    status, out, _ = ebfit("fit", "--points", points, "--law", "auto", "--bootstrap", 100, "-o", output)
    assert status == 0
    out = " ".join(out.split())
    assert "Law revised, without a comparison: no batch size can be left out" in out
    written = Fit.load(output)
    assert written.comparison == []
    assert written.settings["law"] == "auto"
    assert {target.law for target in written.targets} == {"revised"}


def test_a_law_that_is_not_known_is_refused(tmp_path):
    points = read_points(write_points(tmp_path / "points.csv", noisy_rows()))
    with pytest.raises(BadInputError, match=r"law 'linear' is not known. Choose one of revised, classic"):
        api.fit(points, law="linear")
