"""Which contestant is chosen, and what is called chance."""

import numpy as np
import pytest

from ebfit.fitting.comparison import Contestant, LeftOut, judge

REVISED = Contestant("revised", "revised", "none", lambda refit: None, {"law": "revised"})
CLASSIC = Contestant("classic", "classic", "none", lambda refit: None, {"law": "classic"})
LINES = Contestant("interpolation", "interpolation", "none", lambda refit: None, extrapolates=False)


def of_errors(*errors, targets=1):
    """Left-out points with these errors of each contestant; ``targets`` points per batch size."""
    predicted = np.array(errors, dtype=float)
    count = predicted.shape[1]
    return LeftOut(
        group=np.zeros(count, dtype=int),
        target=np.arange(count) % targets,
        log_batch=7.0 + np.arange(count) // targets,
        observed=np.zeros(count),
        ended=np.zeros(count, dtype=bool),
        between=np.ones(count, dtype=bool),
        predicted=predicted,
    )


def test_the_preferred_law_stays_where_another_is_better_by_chance():
    verdict = judge(
        of_errors([0.02, 0.03, 0.02, 0.05, 0.02], [0.03, 0.01, 0.03, 0.01, 0.01]), [REVISED, CLASSIC]
    )
    assert (verdict.best, verdict.chosen) == (1, 0)
    # of the 32 choices of signs of (-1, 2, -1, 4, 1), those whose sum is 5 or more
    assert verdict.p_value[0] == pytest.approx(np.mean(_sums([-1, 2, -1, 4, 1]) >= 5))


def _sums(differences):
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(differences))).reshape(len(differences), -1)
    return np.array(differences) @ signs


def test_a_law_that_is_better_at_every_batch_size_is_chosen():
    verdict = judge(of_errors([0.04] * 5, [0.01, 0.02, 0.03, 0.01, 0.02]), [REVISED, CLASSIC])
    assert verdict.chosen == 1
    assert verdict.p_value.tolist() == [1 / 32, 1.0]


def test_four_batch_sizes_can_prove_nothing():
    verdict = judge(of_errors([0.4] * 4, [0.01] * 4), [REVISED, CLASSIC])
    assert (verdict.best, verdict.chosen) == (1, 0)
    assert verdict.p_value[0] == 1 / 16


def test_a_batch_size_counts_once_however_many_targets_it_reached():
    errors = ([0.4] * 12, [0.01] * 12)
    assert judge(of_errors(*errors, targets=1), [REVISED, CLASSIC]).p_value[0] == 1 / 2**12
    verdict = judge(of_errors(*errors, targets=4), [REVISED, CLASSIC])
    assert (verdict.batch_sizes, verdict.p_value[0]) == (3, 1 / 8)


def test_many_batch_sizes_are_judged_by_random_signs_and_always_alike():
    rng = np.random.default_rng(4)
    errors = np.abs(rng.standard_normal((2, 40)))
    errors[0] += 0.35
    verdicts = [judge(of_errors(*errors), [REVISED, CLASSIC]) for _ in range(2)]
    assert verdicts[0].p_value[0] == verdicts[1].p_value[0]
    # close to the normal approximation of the same test
    differences = errors[0] - errors[1]
    z = differences.sum() / np.sqrt(np.sum(differences**2))
    from scipy.stats import norm

    assert verdicts[0].p_value[0] == pytest.approx(norm.sf(z), abs=0.02)


def test_equal_contestants_are_no_worse_than_each_other():
    verdict = judge(of_errors([0.02] * 6, [0.02] * 6), [REVISED, CLASSIC])
    assert verdict.chosen == 0
    assert verdict.p_value.tolist() == [1.0, 1.0]


def test_interpolation_is_never_chosen_but_may_shame_the_laws():
    verdict = judge(of_errors([0.09] * 6, [0.30] * 6, [0.01] * 6), [REVISED, CLASSIC, LINES])
    assert (verdict.best, verdict.chosen) == (0, 0)
    assert verdict.beaten_by_interpolation == 1 / 64
    assert judge(of_errors([0.01] * 6, [0.02] * 6), [REVISED, LINES]).beaten_by_interpolation is None


def test_laws_are_ranked_at_the_edges_too_and_interpolation_is_compared_between():
    left_out = of_errors([0.01, 0.02, 0.9], [0.02, 0.03, 0.1], [0.02, 0.03, np.nan])
    left_out.between[2] = False
    verdict = judge(left_out, [REVISED, CLASSIC, LINES])
    assert verdict.between.tolist() == [True, True, False]
    assert verdict.ranked.tolist() == [True, True, True]
    assert verdict.mean[:2] == pytest.approx([0.31, 0.05])
    assert np.isnan(verdict.mean[2])


def test_nothing_that_all_predict_gives_no_verdict():
    assert judge(of_errors([0.01], [np.nan]), [REVISED, LINES]) is None
    assert judge(of_errors([0.01], [np.nan]), [REVISED, CLASSIC]) is None


def test_of_several_laws_the_usual_one_stays_or_the_best_is_taken():
    other = Contestant("shared", "revised", "shared", lambda refit: None, {"law": "revised"})
    verdict = judge(of_errors([0.04] * 5, [0.03] * 5, [0.01] * 5), [REVISED, other, CLASSIC])
    assert verdict.chosen == 2
