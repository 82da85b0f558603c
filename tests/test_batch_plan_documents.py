"""BatchPlan as a document: it survives JSON, and whatever is no plan is refused in a sentence."""

import contextlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from plans import SMALL, one_sentence, plans

from ebfit import BatchPlan, PlanError


@given(plans(lr_scales=True, start_losses=True))
def test_a_plan_survives_json(plan: BatchPlan):
    assert BatchPlan.from_dict(plan.to_dict()) == plan
    assert BatchPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_a_plan_is_read_from_a_file(tmp_path: Path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(SMALL.to_dict()))
    assert BatchPlan.load(path) == BatchPlan.load(str(path)) == SMALL


def test_more_keys_than_needed_are_no_fault():
    """The command line writes what a person wants to know besides."""
    document = SMALL.to_dict() | {"ebfit_version": "9", "prediction": {"band": [1, 2]}}
    document["stages"] = [stage | {"extrapolation": 3.5} for stage in document["stages"]]
    assert BatchPlan.from_dict(document) == SMALL


def test_fewer_keys_mean_what_the_schema_says():
    counts = ("start_tokens", "start_step", "batch_tokens", "batch_sequences", "steps")
    document = {
        "schema": "ebfit.plan/1",
        "total_tokens": 1000,
        "seq_len": 10,
        "stages": [{name: getattr(stage, name) for name in counts} for stage in SMALL.stages],
    }
    plain = tuple(replace(stage, lr_scale=1.0, start_loss=None) for stage in SMALL.stages)
    assert BatchPlan.from_dict(document) == BatchPlan(total_tokens=1000, seq_len=10, stages=plain)


ROOT_KEYS = ["schema", "total_tokens", "seq_len", "stages"]
STAGE_KEYS = ["start_tokens", "start_step", "batch_tokens", "batch_sequences", "steps"]
NO_COUNTS = {
    "true": True,
    "text": "40",
    "suffix": "2M",
    "list": [],
    "object": {},
    "nested": [[[]]],
    "negative": -1,
    "half": 0.5,
    "NaN": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "1e300": 1e300,
    "31 digits": 10**30,
    "more digits than Python prints": 10**5000,
}


@pytest.mark.parametrize("key", ROOT_KEYS)
def test_a_document_that_lacks_a_key(key: str):
    document = SMALL.to_dict()
    del document[key]
    with pytest.raises(PlanError, match=key) as error:
        BatchPlan.from_dict(document)
    one_sentence(error)


@pytest.mark.parametrize("key", STAGE_KEYS)
def test_a_stage_that_lacks_a_key(key: str):
    document = SMALL.to_dict()
    del document["stages"][1][key]
    with pytest.raises(PlanError, match=key) as error:
        BatchPlan.from_dict(document)
    one_sentence(error)


@pytest.mark.parametrize("value", NO_COUNTS.values(), ids=NO_COUNTS)
@pytest.mark.parametrize(
    "key", ["total_tokens", "seq_len", "warmup_tokens", "decay_start_tokens", *STAGE_KEYS]
)
def test_what_is_no_count(key: str, value: Any):
    document = SMALL.to_dict()
    (document["stages"][1] if key in STAGE_KEYS else document)[key] = value
    with pytest.raises(PlanError) as error:
        BatchPlan.from_dict(document)
    one_sentence(error)


@pytest.mark.parametrize("key", ["total_tokens", "seq_len", "warmup_tokens", *STAGE_KEYS])
def test_null_is_no_count(key: str):
    document = SMALL.to_dict()
    (document["stages"][1] if key in STAGE_KEYS else document)[key] = None
    with pytest.raises(PlanError, match=f"{key} is None, no whole number"):
        BatchPlan.from_dict(document)


@pytest.mark.parametrize("key", ["lr_scale", "start_loss"])
@pytest.mark.parametrize("value", [True, "1.0", [], {}, math.nan, math.inf, -math.inf, 1e300, 10**400])
def test_what_is_no_number(key: str, value: Any):
    document = SMALL.to_dict()
    document["stages"][1][key] = value
    with pytest.raises(PlanError, match=key) as error:
        BatchPlan.from_dict(document)
    one_sentence(error)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", "ebfit.fit/1"),
        ("schema", "ebfit.plan/2"),
        ("schema", None),
        ("schema", ["ebfit.plan/1"]),
        ("stages", {}),
        ("stages", "40,80"),
        ("stages", None),
        ("stages", 3),
        ("stages", []),
        ("stages", [None]),
        ("stages", ["40"]),
        ("stages", [[0, 0, 40, 4, 3]]),
        ("stages", [{}]),
        ("stages", [[[[[[[[]]]]]]]]),
        ("policy", 3),
        ("policy", {"name": "optimal"}),
        ("warnings", "none"),
        ("warnings", [1]),
        ("warnings", None),
    ],
)
def test_values_of_another_kind(key: str, value: Any):
    with pytest.raises(PlanError) as error:
        BatchPlan.from_dict(SMALL.to_dict() | {key: value})
    one_sentence(error)


@pytest.mark.parametrize("document", [[], None, 3, "plan", True, [SMALL.to_dict()], {}])
def test_documents_of_another_kind(document: Any):
    with pytest.raises(PlanError, match=r"not a plan: its schema is not ebfit\.plan/1") as error:
        BatchPlan.from_dict(document)
    one_sentence(error)


VALID = json.dumps(SMALL.to_dict()).encode()
NO_PLANS = {
    "empty": b"",
    "NUL bytes": b"\0" * 64,
    "NUL within": VALID.replace(b"stages", b"sta\0ges"),
    "cut": VALID[:-40],
    "twice": VALID * 2,
    "binary": bytes(range(256)),
    "a pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x07ebfit_x\x94.",
    "not UTF-8": VALID.replace(b"given", b"\xff\xfe\xfa"),
    "UTF-16 without a mark": VALID.decode().encode("utf-16-le")[1:],
    "deep": b"[" * 100_000,
    "deep and whole": b"[" * 100_000 + b"]" * 100_000,
    "deep within": VALID.replace(b'"given"', b"[" * 100_000 + b"]" * 100_000),
    "a list": b"[" + VALID + b"]",
    "NaN": VALID.replace(b'"total_tokens": 1000', b'"total_tokens": NaN'),
    "infinite": VALID.replace(b'"total_tokens": 1000', b'"total_tokens": -Infinity'),
    "1e999": VALID.replace(b'"total_tokens": 1000', b'"total_tokens": 1e999'),
    "a huge integer": VALID.replace(b'"total_tokens": 1000', b'"total_tokens": 1' + b"0" * 4000),
    "an integer beyond Python's limit": VALID.replace(
        b'"total_tokens": 1000', b'"total_tokens": 1' + b"0" * 9000
    ),
    "YAML": b"schema: ebfit.plan/1\nstages: []\n",
}


@pytest.mark.parametrize("content", NO_PLANS.values(), ids=NO_PLANS)
def test_a_file_that_is_no_plan(content: bytes, tmp_path: Path):
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(PlanError, match=r"plan\.json: ") as error:
        BatchPlan.load(path)
    one_sentence(error)


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        BatchPlan.load(tmp_path / "plan.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=8,
)


@given(
    st.lists(
        st.tuples(st.sampled_from([*SMALL.to_dict(), *STAGE_KEYS, "lr_scale", "start_loss"]), JSON),
        min_size=1,
    )
)
def test_any_value_in_any_place_is_a_plan_or_a_sentence(changes: list[tuple[str, Any]]):
    document = SMALL.to_dict()
    stage = document["stages"][1]
    for key, value in changes:
        (document if key in document else stage)[key] = value
    with contextlib.suppress(PlanError):
        plan = BatchPlan.from_dict(document)
        assert BatchPlan.from_dict(plan.to_dict()) == plan


@given(plans(max_stages=3), st.integers(0, 2), st.sampled_from(STAGE_KEYS), st.integers(-3, 3))
def test_one_wrong_count_is_noticed(plan: BatchPlan, number: int, key: str, change: int):
    """Every count of a stage is tied to another, so a plan edited by hand in one place is refused.

    But for the number of steps of the last stage, where the leftover has room for it.
    """
    number %= len(plan.stages)
    assume(change != 0)
    assume(not (key == "steps" and number == len(plan.stages) - 1))
    document = plan.to_dict()
    document["stages"][number][key] += change
    with pytest.raises(PlanError):
        BatchPlan.from_dict(document)
