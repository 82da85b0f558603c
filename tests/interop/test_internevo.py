"""The released StaticBatchSampler of InternEvo, walked over the whole run."""

from collections.abc import Iterator

from hypothesis import given, settings
from plans import plans
from released_files import released_file
from walking import in_stages, stages_of

from ebfit.batch_plan import BatchPlan
from ebfit.schedule.trainers import Setup, internevo

batch_sampler = released_file(
    "internlm/data/tokenized/batch_sampler.py",
    "internlm",
    "internlm.core",
    "internlm.core.context",
    "internlm.utils",
    "internlm.utils.logger",
)
batch_sampler.gpc.is_initialized.return_value = False  # no pipeline parallelism


def walk(text: str, packed_samples: int) -> Iterator[int]:
    """Sequences of a step over all ranks; what the first of 4 ranks takes is asked of the sampler."""
    names: dict[str, dict[str, object]] = {}
    exec(text, names)  # type: ignore[arg-type]
    data = names["data"]
    sampler = batch_sampler.StaticBatchSampler(
        [range(packed_samples)],
        batch_size=data["micro_num"],
        rampup_batch_size=data["rampup_batch_size"],
        micro_bsz=data["micro_bsz"],
        data_rank=0,
        data_world_size=4,
    )
    return (len(batch) * data["micro_bsz"] * 4 for batch in sampler)  # type: ignore[operator]


@settings(max_examples=50)
@given(plans(min_stages=2, unit=8, max_size=12, max_steps=30))
def test_the_sampler_does_what_the_export_says(plan: BatchPlan) -> None:
    export = internevo.export(plan, Setup(micro_batch=2, data_parallel=4))
    # enough for the whole ramp, which may be longer than the plan: the sampler asks for that
    packed_samples = 4 * plan.total_tokens // plan.seq_len + 10**6
    walked = in_stages(walk(export.text, packed_samples), export.as_run.total_steps)
    assert walked == stages_of(export.as_run)
