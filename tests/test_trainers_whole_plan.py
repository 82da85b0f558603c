"""Formats that hold a whole plan come back as the same plan, through the parsers that users have."""

import dataclasses
import io
import json

import pandas as pd
import pytest
import yaml
from hypothesis import given
from plans import plans, worked_example

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers import TRAINERS, Setup, csv_plan, json_plan, yaml_plan

ANY_PLAN = plans(lr_scales=True, start_losses=True)


@given(ANY_PLAN)
def test_json_is_read_by_json_and_by_us(plan: BatchPlan) -> None:
    text = json_plan.export(plan, Setup()).text
    assert BatchPlan.from_dict(json.loads(text)) == plan
    assert json_plan.whole_plan(text) == plan


@given(ANY_PLAN)
def test_yaml_is_read_by_yaml_and_by_us(plan: BatchPlan) -> None:
    text = yaml_plan.export(plan, Setup()).text
    assert text.startswith("# ")
    assert BatchPlan.from_dict(yaml.safe_load(text)) == plan
    assert yaml_plan.whole_plan(text) == plan


def test_yaml_of_a_plan_with_warnings_comes_back() -> None:
    plan = worked_example(warnings=("B_opt is extrapolated: 12 times.", "# no comment, 'quoted' \"twice\""))
    assert yaml_plan.whole_plan(yaml_plan.export(plan, Setup()).text) == plan


@given(ANY_PLAN)
def test_csv_comes_back_whole(plan: BatchPlan) -> None:
    assert csv_plan.whole_plan(csv_plan.export(plan, Setup()).text) == plan


@given(plans(start_losses=True))
def test_csv_is_read_by_pandas(plan: BatchPlan) -> None:
    table = pd.read_csv(io.StringIO(csv_plan.export(plan, Setup()).text))
    assert table["batch_tokens"].tolist() == [stage.batch_tokens for stage in plan.stages]
    assert table["start_tokens"].tolist() == [stage.start_tokens for stage in plan.stages]
    assert table["total_tokens"].tolist() == [plan.total_tokens] * len(plan.stages)


def test_csv_leaves_out_the_warnings_alone() -> None:
    plan = worked_example(warnings=("a sentence",), decay_start_tokens=400 * 10**9)
    back = csv_plan.whole_plan(csv_plan.export(plan, Setup()).text)
    assert back == dataclasses.replace(plan, warnings=())


@pytest.mark.parametrize("name", ["json", "yaml", "csv"])
def test_what_is_checked_is_the_plan(name: str) -> None:
    plan = worked_example(warmup_tokens=4096 * 1000, decay_start_tokens=500 * 10**9 - 4096 * 50)
    trainer = TRAINERS[name]
    read = trainer.parse(trainer.export(plan, Setup()).text, None, Setup())
    assert read.starts == tuple(stage.start_tokens for stage in plan.stages)
    assert read.batch_sequences == (512, 1024, 1280, 1536)
    assert (read.start_unit, read.seq_len) == ("tokens", 4096)
    assert (read.warmup_sequences, read.decay_sequences) == (1000, 50)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("json", '{\n"schema": }', "line 2"),
        ("json", "[]", "not a plan"),
        ("json", '{"schema": "ebfit.plan/1"}', "no total_tokens"),
        ("json", "1" * 5000, "can be read"),
        ("json", "[" * 100_000, "can be read"),
        ("yaml", "a: [b,\nc: d", "line 2"),
        ("yaml", "a: &a {b: *a}", "not a plan"),
        ("yaml", "", "not a plan"),
        ("yaml", "!!python/object/apply:os.system ['true']", "line 1"),
        ("csv", "", "column batch_sequences is missing"),
        ("csv", "start_tokens,batch_tokens\n0,1", "column batch_sequences is missing"),
        ("csv", csv_plan.export(worked_example(), Setup()).text.replace("1024", "many"), "line 3"),
        ("csv", csv_plan.export(worked_example(), Setup()).text.replace(",1024", ","), "line 3"),
        ("csv", csv_plan.export(worked_example(), Setup()).text.splitlines()[0], "no stages"),
        ("csv", csv_plan.export(worked_example(), Setup()).text + '"', "line 5"),
    ],
)
def test_what_is_no_plan_is_refused_in_words(name: str, text: str, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        TRAINERS[name].parse(text, None, Setup())
