"""The speed that a run states is that of training: without the first lap, validation and checkpoints."""

import time

import pytest

from ebfit.sweep.clock import Clock


def test_pauses_and_laps_that_do_not_count_are_left_out_of_the_speed_but_not_of_the_time(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    clock = Clock()
    now += 60.0  # compiling
    assert clock.lap(1000, counts=False) == pytest.approx(1000 / 60)
    assert clock.tokens_per_second is None
    with clock.paused():
        now += 5.0
    now += 2.0
    assert clock.lap_seconds == pytest.approx(2.0)
    assert clock.lap(1000, counts=True) == pytest.approx(500.0)
    now += 3.0
    clock.lap(2500, counts=True)
    assert clock.tokens_per_second == pytest.approx(3500 / 5)
    clock.seconds_before = 1000.0
    assert clock.seconds == pytest.approx(1070.0)
