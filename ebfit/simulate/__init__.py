"""Whole sweeps with a known answer, as arrays, as runs, or as log files: for trying out a fit, and `ebfit simulate`.

>>> from ebfit import simulate
>>> world = simulate.draw_world("surface", seed=1)
>>> swept = simulate.sweep(world, "realistic", seeds=2)
>>> result = ebfit.fit(swept.as_runs(), targets=swept.targets)
>>> swept.truth[0].b_opt
"""

from ebfit.simulate.curves import Rows, SimulatedRun
from ebfit.simulate.noise import FIELDS as NOISE_FIELDS
from ebfit.simulate.noise import PRESETS, Noise
from ebfit.simulate.sweep import Sweep, default_batch_tokens, default_targets, sweep
from ebfit.simulate.worlds import PARAMETERS, WORLDS, Answer, World, WorldName, draw_world

__all__ = [
    "NOISE_FIELDS",
    "PARAMETERS",
    "PRESETS",
    "WORLDS",
    "Answer",
    "Noise",
    "Rows",
    "SimulatedRun",
    "Sweep",
    "World",
    "WorldName",
    "default_batch_tokens",
    "default_targets",
    "draw_world",
    "sweep",
]
