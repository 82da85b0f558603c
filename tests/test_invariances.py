"""DESIGN 6: units, order and names never change a result, and the same seed gives the same file."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import between, noisy_rows, write_points, write_run, write_sweep

from ebfit import api
from ebfit.cli.main import main
from ebfit.points import read_points
from ebfit.runs import read_runs

ROWS = noisy_rows()
NAMES = ("b_min", "b_opt")


def _fit(folder, rows, **more):
    table = read_points(write_points(folder / "points.csv", rows))
    return api.fit(table, **({"bootstrap": 100} | more))


def _scaled(rows, **factors):
    return [{key: _times(value, factors.get(key)) for key, value in row.items()} for row in rows]


def _times(value, factor):
    return value if factor is None else value * factor


def _without_what_names_things(fit):
    """The document without paths and digests of inputs."""
    return fit.model_dump(exclude={"inputs"})


def _assert_scaled(fit, reference, *, tokens, steps):
    rel = 1e-6
    for target, old in zip(fit.targets, reference.targets, strict=True):
        for name in NAMES:
            number, before = getattr(target, name), getattr(old, name)
            assert number.status == before.status
            for end in ("value", "low", "high"):
                was, now = getattr(before, end), getattr(number, end)
                assert (was is None) == (now is None), (name, end)
                if was is not None:
                    assert now == pytest.approx(was * tokens / steps, rel=rel), (name, end)
        assert (target.e_min is None) == (old.e_min is None) == (old.b_opt.status != "ok")
        assert target.params["e_min"] == pytest.approx(old.params["e_min"] * tokens, rel=rel)
        assert target.params["s_opt"] == pytest.approx(old.params["s_opt"] * steps, rel=rel)
        assert target.params["s_min"] == pytest.approx(old.params["s_min"] * steps, rel=rel)
        assert target.rms_log_residual == pytest.approx(old.rms_log_residual, rel=rel)
        assert target.second_opinion.weight == pytest.approx(old.second_opinion.weight, abs=1e-6)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return _fit(tmp_path_factory.mktemp("reference"), ROWS)


def test_the_reference_has_something_to_lose(reference):
    statuses = [getattr(target, name).status for target in reference.targets for name in NAMES]
    assert statuses.count("ok") >= 3
    assert any(point.censored for target in reference.targets for point in target.points)


@settings(max_examples=3)
@given(factor=between(1e-3, 1e6))
def test_scaling_tokens_scales_what_is_in_tokens_and_leaves_steps(factor, reference, tmp_path_factory):
    fit = _fit(tmp_path_factory.mktemp("scaled"), _scaled(ROWS, batch_tokens=factor))
    _assert_scaled(fit, reference, tokens=factor, steps=1.0)


@settings(max_examples=3)
@given(factor=between(0.01, 100.0))
def test_scaling_steps_scales_what_is_in_steps(factor, reference, tmp_path_factory):
    fit = _fit(tmp_path_factory.mktemp("scaled"), _scaled(ROWS, steps=factor, steps_se=factor))
    _assert_scaled(fit, reference, tokens=factor, steps=factor)


def test_scaling_tokens_scales_a_one_sided_bound(tmp_path):
    right = [row for row in ROWS if row["target_loss"] == 2.4 and row["batch_tokens"] > 3000.0]
    one, scaled = _fit(tmp_path, right), _fit(tmp_path, _scaled(right, batch_tokens=4096.0))
    assert one.targets[0].b_opt.status == "upper_bound"
    _assert_scaled(scaled, one, tokens=4096.0, steps=1.0)


@settings(max_examples=3)
@given(order=st.permutations(range(len(ROWS))))
def test_the_order_of_rows_changes_nothing(order, reference, tmp_path_factory):
    fit = _fit(tmp_path_factory.mktemp("shuffled"), [ROWS[i] for i in order])
    assert _without_what_names_things(fit) == _without_what_names_things(reference)


@settings(max_examples=3)
@given(data=st.data())
def test_the_order_of_replicates_changes_nothing(data, tmp_path_factory):
    rows = [row | {"seed": seed} for seed in (1, 2) for row in noisy_rows(seed, sizes=7)]
    folder = tmp_path_factory.mktemp("replicates")
    shuffled = [rows[i] for i in data.draw(st.permutations(range(len(rows))))]
    one, other = (_without_what_names_things(_fit(folder, each)) for each in (rows, shuffled))
    assert one == other


def test_sequences_times_their_length_give_the_same_fit_as_tokens(tmp_path, reference):
    rows = []
    for row in ROWS:
        length = 4 if row["batch_tokens"] % 4 == 0 else 1
        sequences = {"batch_sequences": row["batch_tokens"] / length, "seq_len": length}
        rows.append(sequences | {key: value for key, value in row.items() if key != "batch_tokens"})
    fit = _fit(tmp_path, rows)
    assert _without_what_names_things(fit) == _without_what_names_things(reference)


def test_the_order_of_targets_asked_for_changes_nothing(tmp_path, reference):
    fit = _fit(tmp_path, ROWS, targets=[2.2, 2.4, 2.2])
    assert [t.model_dump() for t in fit.targets] == [t.model_dump() for t in reference.targets]


def test_a_group_beside_it_changes_nothing(tmp_path, reference):
    rows = [row | {"group": group} for group in ("a", "b") for row in _group_rows(group)]
    fit = _fit(tmp_path, rows)
    [*mine] = [t for t in fit.targets if t.group == "a"]
    assert [t.model_dump(exclude={"group"}) for t in mine] == [
        t.model_dump(exclude={"group"}) for t in reference.targets
    ]


def _group_rows(group):
    return ROWS if group == "a" else noisy_rows(seed=9, sizes=6)


# --- logs ------------------------------------------------------------------------------------------------------


def _numbers(fit):
    return [
        {"loss": target.loss, "s_min": target.s_min, "e_min": target.e_min, "params": target.params}
        | {name: getattr(target, name).model_dump() for name in NAMES}
        for target in fit.targets
    ]


def test_names_and_order_of_runs_change_nothing(tmp_path):
    sizes = [1000 * 2**k for k in range(7)]
    write_sweep(tmp_path / "by_size", sizes)
    for position, size in enumerate(reversed(sizes)):
        write_run(tmp_path / "by_name" / f"run_{'zyxwvut'[position]}", size)
    one, other = (
        api.fit(read_runs([tmp_path / folder]), targets=[2.1, 2.0], bootstrap=100)
        for folder in ("by_size", "by_name")
    )
    paths = sorted((tmp_path / "by_size").glob("*/metrics.jsonl"), reverse=True)
    listed = api.fit(list(reversed(read_runs(paths))), targets=[2.1, 2.0], bootstrap=100)
    assert _numbers(one) == _numbers(other) == _numbers(listed)


# --- seeds -----------------------------------------------------------------------------------------------------


def _command(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert not ended.value.code


def test_the_same_seed_gives_the_same_file_byte_for_byte(tmp_path):
    points = write_points(tmp_path / "points.csv", ROWS)
    first, second, third = (tmp_path / name for name in ("first.json", "second.json", "third.json"))
    for output, seed in ((first, 7), (second, 7), (third, 8)):
        _command("fit", "--points", points, "-o", output, "--bootstrap", 100, "--seed", seed)
    assert first.read_bytes() == second.read_bytes()
    one, other = (json.loads(path.read_text()) for path in (first, third))
    for target, again in zip(one["targets"], other["targets"], strict=True):
        for key in ("params", "s_min", "e_min", "s_opt", "rms_log_residual", "points"):
            assert target[key] == again[key]
        for name in NAMES:
            assert target[name]["value"] == again[name]["value"]
            assert target[name]["status"] == again[name]["status"]
        ends = [(t["b_opt"]["low"], t["b_opt"]["high"]) for t in (target, again)]
        assert ends[0] != ends[1]
        np.testing.assert_allclose(ends[0], ends[1], rtol=0.3)
