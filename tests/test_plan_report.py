"""What a plan looks like: the table within 80 columns, the figure with its stages, bands and shades."""

import io

import pytest
from fits import fit_of, trend
from matplotlib.colors import to_rgba
from rich.console import Console

from ebfit.files import Plan
from ebfit.report.plan_summary import print_plan
from ebfit.report.plots import plan as plan_figure
from ebfit.report.plots import style
from ebfit.schedule.planning import Wanted, given_plan, make_plan
from ebfit.schedule.source import Source
from ebfit.schedule.stage_options import StageOptions


def _plan(wanted: Wanted | None = None, **options: object) -> Plan:
    b_opt = trend(k=300.0, exponent=0.4, d_high=1e11)
    chosen = StageOptions(**{"total_tokens": 4 * 10**11, "seq_len": 4096} | options)
    return make_plan(Source(fit_of(b_opt), "fit.json"), chosen, wanted or Wanted())


def _printed(plan: Plan) -> list[str]:
    file = io.StringIO()
    print_plan(plan, Console(file=file, width=80, highlight=False, no_color=True))
    return file.getvalue().splitlines()


def test_the_widest_plan_fits_80_columns():
    plan = _plan(
        Wanted(policy="overhead:0.25", bound="high", lr_rule="sqrt"),
        total_tokens=20 * 10**15,
        warmup_tokens=10**13,
        decay_tokens=10**15,
    )
    lines = _printed(plan)
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if line[:1].isdigit() and "[" in line]
    assert len(rows) == len(plan.stages)  # none is wrapped


def test_a_scale_of_the_learning_rate_is_shown_where_there_is_one():
    scaled, plain = _printed(_plan(Wanted(lr_rule="sqrt"))), _printed(_plan())
    assert "lr x" in scaled[1]
    assert "1.41" in "".join(scaled)
    assert "lr x" not in plain[1]


def test_a_plan_without_a_fit_says_nothing_of_b_opt():
    lines = _printed(given_plan([(0, 8192)], StageOptions(total_tokens=10**6, seq_len=4096), Wanted()))
    text = "\n".join(lines)
    assert "B_opt" not in text
    assert "beyond" not in text
    assert "122 steps in all; 576 tokens, less than one batch, are left over." in lines
    assert "Steps with one batch size all along: 122 at 8.19K (first stage and last stage)." in lines


def test_a_plan_of_one_stage_has_no_earlier_batches_to_remember():
    text = " ".join(" ".join(_printed(_plan(max_stages=1))).split())
    assert "the plan is as far as the best constant batch after 400B [" in text
    assert "smaller batches" not in text
    assert "smaller batches" in " ".join(_printed(_plan()))


def test_losses_are_given_within_those_that_were_measured():
    inside, outside = _plan(total_tokens=10**10), _plan()
    assert "of the model that was fitted" in " ".join(_printed(inside))
    assert "of the model that was fitted" not in " ".join(_printed(outside))


@pytest.mark.parametrize("decay", [0, 4 * 10**10])
def test_the_figure_shows_stages_bands_and_where_they_were_measured(decay: int):
    plan = _plan(decay_tokens=decay)
    with style.context():
        figure = plan_figure.draw(plan)
    axes = figure.axes[0]
    stairs = next(line for line in axes.lines if line.get_drawstyle() == "steps-post")
    assert list(stairs.get_ydata())[:-1] == [stage.batch_tokens for stage in plan.stages]
    assert list(stairs.get_xdata())[1:-1] == [stage.start_tokens for stage in plan.stages[1:]]
    assert stairs.get_xdata()[-1] == plan.total_tokens
    shaded = [patch for patch in axes.patches if patch.get_facecolor() == to_rgba(style.PALE)]
    assert [patch.get_x() + patch.get_width() for patch in shaded] == [1e11]
    assert bool(decay) == any(patch.get_hatch() for patch in axes.patches)
    legend = {text.get_text() for text in figure.legends[0].get_texts()}
    assert ("decay" in legend) == bool(decay)
    assert {"plan", "measured"} <= legend


def test_a_single_stage_without_a_fit_is_drawn():
    plan = given_plan([(0, 8192)], StageOptions(total_tokens=10**6, seq_len=4096), Wanted())
    with style.context():
        figure = plan_figure.draw(plan)
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"plan"}
