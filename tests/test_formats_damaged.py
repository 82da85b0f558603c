"""Console logs that were damaged: a sentence, or a correct read of what is left, and no hang."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_runs
from ebfit.runs.formats import CONSOLE
from tests import test_formats_llm_logs as llm_logs
from tests import test_formats_megatron as megatron_logs
from tests.test_formats_console import LOGS

ALL_LOGS = [
    *LOGS.values(),
    llm_logs.NANOTRON_START + "".join(map(llm_logs.nanotron_line, llm_logs.STEPS)),
    "".join(map(llm_logs.internevo_line, llm_logs.STEPS)),
    llm_logs.COMPOSER_CONFIG
    + "".join(llm_logs.composer_step(step) + llm_logs.composer_evaluation(3.0) for step in llm_logs.STEPS),
    megatron_logs.arguments(seq_length=2048, seed=1)
    + "".join(map(megatron_logs.megatron_line, megatron_logs.STEPS)),
    megatron_logs.neox_arguments() + "".join(map(megatron_logs.neox_line, megatron_logs.STEPS)),
]
NAMES = [known.NAME for known in CONSOLE]
DAMAGE = [
    b"9" * 5000,
    b"nan",
    b"-1",
    b"1e999",
    b"\xff",
    b"\0",
    b"\r",
    b"\n",
    b"\x1b[3",
    b"|",
    b": ",
    b"=",
    b"step",
]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    logs=st.lists(st.sampled_from(ALL_LOGS), min_size=1, max_size=2),
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 400), st.sampled_from(DAMAGE) | st.binary(max_size=3)),
        min_size=1,
        max_size=12,
    ),
    name=st.sampled_from([None, *NAMES]),
)
def test_damage_ends_in_a_sentence_or_a_read(
    tmp_path: Path, logs: list[str], edits: list[tuple[float, int, bytes]], name: str | None
):
    data = bytearray("".join(logs).encode())
    for place, length, put in edits:
        at = int(place * len(data))
        data[at : at + length] = put
    path = tmp_path / "train.log"
    path.write_bytes(data)
    try:
        runs = read_runs([path], ReadOptions(format=name, batch_tokens=1000, warmup_steps=1))
    except BadInputError:
        return
    assert all(run.train is not None or run.val is not None for run in runs)


@pytest.mark.parametrize("start", [b"train/", b"eval/", b"validation-", b"[Start training]", b"| loss: "])
@pytest.mark.parametrize("name", NAMES)
def test_a_line_of_nothing_but_beginnings_does_not_hang(tmp_path: Path, name: str, start: bytes):
    """OLMo-core's took a minute: every beginning was followed to the end of the line."""
    anchors = b"throughput/total eval/ | elapsed time per iteration num_consumed_tokens= | consumed_tokens: Train time/"
    path = tmp_path / "train.log"
    path.write_bytes(start * (400_000 // len(start)) + anchors + b" 1\n")
    with pytest.raises(BadInputError):
        read_runs([path], ReadOptions(format=name))
