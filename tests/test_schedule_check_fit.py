"""A schedule against a fit: B_opt = 4M tokens at 250B, B_min a quarter of it, both rising with D^0.5."""

import math

import numpy as np
from checking import RUN, SOUND, check, the_one, with_sizes
from plans import BILLION

from ebfit.files import PlanTrends, Trend
from ebfit.schedule.cost import Cost
from ebfit.schedule.trainers import ReadSchedule


def trend(batch_at_pivot: float, d_high: float = 500e9) -> Trend:
    return Trend(
        k=batch_at_pivot / math.sqrt(250e9),
        exponent=0.5,
        d_low=1e9,
        d_high=d_high,
        pivot_tokens=250e9,
        pivot_batch_tokens=batch_at_pivot,
        log_sd_at_pivot=0.05,
        exponent_sd=0.01,
        quantile=1.96,
    )


TRENDS = PlanTrends(b_opt_vs_tokens=trend(4e6), b_min_vs_tokens=trend(1e6))


def test_sizes_between_b_min_and_b_opt_give_nothing():
    assert check(SOUND, **RUN, trends=TRENDS) == []


def test_a_stage_below_b_min():
    # 262,144 tokens are B_min at 250B (0.262144)^2 = 17.2B tokens; at 500B it is 1.41M
    read = ReadSchedule((0,), "tokens", (64,))
    settings = {**RUN, "micro_batch": 1}
    message = the_one(check(read, **settings, trends=TRENDS), "warning")
    assert message.startswith(
        "stage 1 (64 sequences = 262K tokens, from 0 tokens on) is below B_min from 17.2B tokens on"
    )
    assert "B_min is 1.41M (1.28M to 1.56M)" in message


def test_a_stage_far_above_b_opt():
    # at 125B tokens B_opt is 2.83M, at 250B 4M; 3584 sequences are 14.7M
    read = with_sizes(3584, 3584, 3584)
    message = the_one(check(read, **RUN, trends=TRENDS), "warning")
    assert message.startswith("stage 1 (3,584 sequences = 14.7M tokens, from 0 tokens on) is 5.2 times B_opt")


def test_far_above_b_opt_is_what_costs_a_fifth_more_where_the_fit_tells():
    log_ratio = [math.log(1 / 8), 0.0, math.log(3.0), math.log(64.0)]
    grid = np.arange(-7.0, 16.0, 0.005)
    cost = Cost(grid, np.interp(grid, log_ratio, [0.0, 0.0, math.log(1.5), math.log(8.0)]))
    # 2.04, 2.16 and 1.53 times B_opt at the ends of the stages
    read = ReadSchedule((0, 125 * BILLION, 250 * BILLION), "tokens", (1408, 2112, 2112))
    settings = {**RUN, "micro_batch": 1}
    assert check(read, **settings, trends=TRENDS) == []
    messages = [
        f.message for f in check(read, **settings, trends=TRENDS, cost=cost) if f.severity == "warning"
    ]
    assert [message[:7] for message in messages] == ["stage 1", "stage 2"]
    assert "30% more tokens to the same loss" in messages[0]  # 1.5 ** (ln 2.04 / ln 3)


def test_a_schedule_beyond_what_was_measured_is_told_once():
    trends = PlanTrends(b_opt_vs_tokens=trend(4e6, 5e9), b_min_vs_tokens=trend(1e6, 5e9))
    message = the_one(check(SOUND, **RUN, trends=trends), "note")
    assert "measured up to 5.00B tokens, and the schedule goes to 500B, 100 times as far" in message


def test_without_an_end_the_last_stage_is_compared_where_it_begins():
    settings = {**RUN, "total_tokens": None}
    assert "stage 3" in the_one(check(SOUND, **settings, trends=TRENDS), "note")
