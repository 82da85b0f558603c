"""A sound schedule, variations of it, and what `check_schedule` says: for the tests of it."""

from plans import BILLION

from ebfit.schedule.check import Finding, check_schedule
from ebfit.schedule.trainers import ReadSchedule

# 512 -> 1024 -> 1536 sequences of 4096 tokens every 125B tokens
SOUND = ReadSchedule((0, 125 * BILLION, 250 * BILLION), "tokens", (512, 1024, 1536))
RUN = {"seq_len": 4096, "micro_batch": 8, "data_parallel": 64, "total_tokens": 500 * BILLION}


def check(read: ReadSchedule, format_name: str = "megatron", **settings: object) -> list[Finding]:
    return check_schedule(read, format_name=format_name, **settings)  # type: ignore[arg-type]


def the_one(findings: list[Finding], severity: str) -> str:
    """The message of the only finding of a severity."""
    messages = [finding.message for finding in findings if finding.severity == severity]
    assert len(messages) == 1, findings
    return messages[0]


def said_beside_notes(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity != "note"]


def with_starts(*starts: int, unit: str = "tokens", **more: object) -> ReadSchedule:
    return ReadSchedule(starts, unit, (512, 1024, 1536)[: len(starts)], **more)  # type: ignore[arg-type]


def with_sizes(*batches: int, **more: object) -> ReadSchedule:
    return ReadSchedule(SOUND.starts[: len(batches)], "tokens", batches, **more)  # type: ignore[arg-type]
