"""Mix-ups of units that `ebfit schedule --check` finds, and those that it must not see."""

import pytest
from checking import RUN, SOUND, check, the_one, with_sizes, with_starts
from plans import BILLION, MI

from ebfit.errors import BadInputError
from ebfit.schedule.trainers import TRAINERS, ReadSchedule, Setup


def test_tokens_in_place_of_sequences():
    # 4194304 sequences of 4096 tokens would be 17 billion tokens a step
    findings = check(with_sizes(1024, 1536, 4_194_304), **RUN)
    message = the_one(findings, "warning")
    assert message.startswith("stage 3 (4,194,304 sequences = 17.2B tokens")
    assert message.endswith("If 4,194,304 are tokens, write sequences: 1024.")


def test_tokens_in_place_of_sequences_of_a_small_run():
    # 65,536 tokens in steps of 1024 would be 64 steps of a run, in steps of 1024 sequences of 32 tokens they are 2
    read = ReadSchedule((0,), "sequences", (1024,))
    message = the_one(check(read, "lightning", seq_len=32, total_tokens=65_536), "warning")
    assert message.endswith("If 1,024 are tokens, write sequences: 32.")


def test_sequences_in_place_of_tokens():
    read = with_sizes(0, 0, batch_tokens=(1024, 2048))
    errors = [finding.message for finding in check(read, "olmo-core", **RUN) if finding.severity == "error"]
    assert (
        "is 0.25 of one sequence of 4,096 tokens. If 1,024 are sequences, write tokens: 4194304." in errors[0]
    )
    assert errors[1].startswith("stage 2")
    assert errors[1].endswith("8388608.")


def test_sequences_in_place_of_tokens_where_they_are_whole_sequences():
    # 4096 tokens are one sequence, and 500B tokens are 122 million steps of it
    read = with_sizes(1, batch_tokens=(4096,))
    findings = check(
        read, "olmo-core", seq_len=4096, micro_batch=1, data_parallel=1, total_tokens=500 * BILLION
    )
    message = the_one(findings, "warning")
    assert "122M steps" in message
    assert message.endswith("If 4,096 are sequences, write tokens: 16777216.")


def test_a_decimal_size_that_should_be_binary():
    read = with_sizes(488, 1024, batch_tokens=(2_000_000, 4 * MI))
    message = the_one(check(read, "olmo-core", seq_len=4096, total_tokens=500 * BILLION), "error")
    assert message.endswith("2M is 2,000,000; 2Mi, 2097152 tokens, is 512 sequences.")


def test_a_size_between_two_whole_ones():
    read = with_sizes(488, batch_tokens=(2_001_001,))
    message = the_one(check(read, "olmo-core", seq_len=4096, total_tokens=500 * BILLION), "error")
    assert message.endswith("1998848 and 2002944 would be.")


UNIT_WARNING = "the starts are read as"


@pytest.mark.parametrize(
    ("read", "sensible"),
    [
        # 125B and 250B tokens, divided by 4096 though tokens are due: all changes in the first 0.01%
        (with_starts(0, 30_517_578, 61_035_156), "sequences"),
        # the other way round
        (with_starts(0, 125 * BILLION, 250 * BILLION, unit="sequences"), "tokens"),
        (with_starts(0, 125 * BILLION, 250 * BILLION, unit="steps"), "tokens"),
        # steps of 2M tokens
        (with_starts(0, 40_000, 80_000), "steps"),
        (with_starts(0, 20_000, 30_000, unit="sequences"), "steps"),
        (with_starts(0, 30_517_578, 61_035_156, unit="steps"), "sequences"),
    ],
)
def test_starts_in_the_wrong_unit(read, sensible):
    [message] = [f.message for f in check(read, "other", **RUN) if UNIT_WARNING in f.message]
    assert message.startswith(f"{UNIT_WARNING} {read.start_unit}, ")
    assert f"they would make sense as {sensible}." in message


def test_a_smoke_test_of_a_long_schedule_is_no_mix_up():
    findings = check(SOUND, **{**RUN, "total_tokens": BILLION})
    assert not any(UNIT_WARNING in finding.message for finding in findings)


def test_starts_in_tokens_need_the_sequence_length():
    with pytest.raises(BadInputError, match="--seq-len"):
        check(SOUND)


def test_a_file_that_ends_elsewhere():
    # 500B tokens were turned into steps of the last size, and the first ones are smaller
    steps = 500 * BILLION // (1536 * 4096)
    read = with_starts(0, 20_000, 40_000, unit="steps", total_steps=steps)
    message = the_one(check(read, "levanter", **RUN), "warning")
    seen = 4096 * (20_000 * 512 + 20_000 * 1024 + (steps - 40_000) * 1536)
    assert f"ends the run after {seen / 1e9:.1f}B tokens, and it is to have 500.0B tokens" in message


def test_sequences_in_the_callback_of_olmo_core():
    text = (
        "BatchSizeSchedulerCallback(batch_sizes=[512, 1024], "
        "schedule=[Duration.tokens(0), Duration.tokens(125_000_000_000)])"
    )
    findings = check(TRAINERS["olmo-core"].parse(text, 4096, Setup()), "olmo-core", **RUN)
    assert [finding.message.partition(" is ")[2] for finding in findings] == [
        "0.125 of one sequence of 4,096 tokens. If 512 are sequences, write tokens: 2097152.",
        "0.25 of one sequence of 4,096 tokens. If 1,024 are sequences, write tokens: 4194304.",
    ]
