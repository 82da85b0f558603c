"""The released RampupBatchManager of MaxText, walked over the whole run."""

from collections.abc import Iterator
from types import SimpleNamespace

import yaml
from hypothesis import given, settings
from plans import plans, worked_example
from released_files import released_file
from walking import in_stages, stages_of

from ebfit.batch_plan import BatchPlan
from ebfit.schedule.trainers import Setup, maxtext

RampupBatchManager = released_file(
    "maxtext/utils/rampup_batch.py", "maxtext", "maxtext.common", "maxtext.common.checkpointing"
).RampupBatchManager


def walk(text: str, devices: int) -> Iterator[int]:
    manager = RampupBatchManager(SimpleNamespace(**yaml.safe_load(text), num_target_devices=devices), -1)
    while True:
        yield manager.global_batch_size_current
        manager.update()


@settings(max_examples=50)
@given(plans(min_stages=2, unit=8, max_size=30, max_steps=60))
def test_the_manager_does_what_the_export_says(plan: BatchPlan) -> None:
    export = maxtext.export(plan, Setup(data_parallel=8))
    assert in_stages(walk(export.text, 8), export.as_run.total_steps) == stages_of(export.as_run)


def test_the_worked_example_over_its_whole_run() -> None:
    export = maxtext.export(worked_example(), Setup(data_parallel=64))
    assert in_stages(walk(export.text, 64), export.as_run.total_steps) == stages_of(export.as_run)
