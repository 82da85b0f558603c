import itertools
import subprocess
import sys
from collections.abc import Iterator

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation, Text
from PIL import Image

from ebfit.errors import BadInputError
from ebfit.files import (
    CurveRecord,
    Estimate,
    Fit,
    GroupTrends,
    PointRecord,
    RunRecord,
    TargetRecord,
    Trend,
    Trends,
)
from ebfit.laws import revised
from ebfit.report.plots import figures, style, write_plots

BATCHES = [256.0 * 2**k for k in range(9)]


def ok(value: float) -> Estimate:
    return Estimate(value=value, low=0.8 * value, high=1.3 * value, status="ok")


def target(
    loss: float, scale: float = 1.0, batches: list[float] = BATCHES, **changes: object
) -> TargetRecord:
    """Make a target that a revised law describes exactly: B_min 400 and B_opt 1000 tokens, times ``scale``."""
    params = {"s_min": 100, "s_1": 300, "s_opt": 1000, "s_2": 3000, "c": 0.1 * scale, "e_min": 1e6 * scale}
    log_steps = revised.log_steps(revised.free_from_params(params), np.log(batches))
    points = [
        PointRecord(
            run=f"b{batch:g}",
            batch_tokens=batch,
            steps=steps,
            tokens=steps * batch,
            steps_se=0.05 * steps,
            censored=censored,
        )
        for batch, log_s in zip(batches, log_steps, strict=True)
        for censored in [not np.isfinite(log_s)]
        for steps in [20_000.0 if censored else float(np.exp(log_s))]
    ]
    fields: dict[str, object] = {
        "loss": loss,
        "law": "revised",
        "b_min": ok(400.0 * scale),
        "b_opt": ok(1000.0 * scale),
        "s_min": 100.0,
        "e_min": 1e6 * scale,
        "s_opt": 1000.0,
        "params": params,
        "points": points,
    }
    return TargetRecord.model_validate(fields | changes)


def classic_target(loss: float) -> TargetRecord:
    params = {"s_min": 100.0, "e_min": 1e6}
    return target(loss, law="classic", b_min=None, b_opt=None, b_crit=ok(1e4), s_opt=None, params=params)


def run(batch_tokens: float, smooth: bool = True) -> RunRecord:
    steps = np.geomspace(100.0, 20_000.0, 40)
    loss = 1.5 + 6.0 * steps**-0.3 + 8.0 * batch_tokens**-0.5
    curve = CurveRecord(
        kind="val",
        column="val_loss",
        steps=list(steps),
        loss=list(loss),
        smooth=[None, *loss[1:]] if smooth else [],
    )
    return RunRecord(
        name=f"b{batch_tokens:g}",
        path="metrics.jsonl",
        format="ebfit",
        batch_tokens=batch_tokens,
        batch_source="run.json",
        seq_len=32,
        lr=0.01,
        seed=0,
        rows=40,
        dropped={},
        stable_from=100,
        stable_to=20_000,
        stable_source="lr column",
        curve=curve,
    )


def fit_of(*targets: TargetRecord, runs: list[RunRecord] | None = None) -> Fit:
    return Fit(ebfit_version="0", settings={}, inputs=[], runs=runs or [], targets=list(targets))


def trend(batch_tokens: float, exponent: float = 0.4) -> Trend:
    """Make a power law through a batch size at a million tokens."""
    return Trend(
        k=batch_tokens / 1e6**exponent,
        exponent=exponent,
        exponent_low=exponent - 0.1,
        exponent_high=exponent + 0.1,
        d_low=5e5,
        d_high=8e6,
        pivot_tokens=1e6,
        pivot_batch_tokens=batch_tokens,
        log_sd_at_pivot=0.1,
        exponent_sd=0.05,
        quantile=1.96,
        scatter_log_sd=0.05,
        n_targets=4,
    )


TRENDS = Trends(b_opt_vs_tokens=trend(1000.0), b_min_vs_tokens=trend(400.0))
OLD_TREND = Trend(k=3.0, exponent=0.4, exponent_low=0.3, exponent_high=0.5, d_low=5e5, d_high=8e6)


def grown(*targets: TargetRecord, trends: Trends = TRENDS) -> Fit:
    return fit_of(*targets).model_copy(update={"trends": trends})


def grouped() -> Fit:
    groups = [GroupTrends(group=LONG, b_opt_vs_tokens=trend(1500.0, 0.6)), GroupTrends(group="85M")]
    targets = [target(2.5 - 0.1 * k, 2.0**k, group=name) for name in (LONG, "85M") for k in range(3)]
    return grown(*targets, trends=Trends(b_opt_vs_tokens=trend(1000.0), groups=groups))


UPPER = Estimate(value=777.0, low=1.0, high=2000.0, status="upper_bound")
LOWER = Estimate(value=777.0, low=3000.0, high=9999.0, status="lower_bound")
LONG = "a model with $a long$ name_of^many parts, trained on many things (151M)"
ALL_RUNS = [run(batch) for batch in BATCHES]
A_HUNDRED = [256.0 * 1.055**k for k in range(100)]

FITS = {
    "one target": fit_of(target(2.2), runs=ALL_RUNS),
    "three runs": fit_of(target(2.2), runs=[run(512, smooth=False), run(600), run(65_536)]),
    "eight targets": fit_of(*(target(2.5 - 0.07 * k, 1.2**k) for k in range(8)), runs=ALL_RUNS),
    "twenty targets": fit_of(*(target(2.6 - 0.0351 * k, 1.3**k) for k in range(20)), runs=ALL_RUNS),
    "targets far apart": fit_of(*(target(3.1 - 0.2 * k, 40.0**k) for k in range(5))),
    "groups with long names": fit_of(
        target(2.2, group=LONG), target(2.0, group=LONG), target(2.2, 1e4, group=f"{LONG} and more")
    ),
    "one-sided": fit_of(
        target(2.4, b_min=UPPER), target(2.2, b_min=LOWER, b_opt=UPPER), target(2.0, b_opt=LOWER)
    ),
    "nothing known": fit_of(
        target(2.2, b_min=None, b_opt=Estimate(), s_min=None, e_min=None, s_opt=None, params={}), target(2.0)
    ),
    "a hundred batch sizes": fit_of(
        target(2.2, batches=A_HUNDRED),
        target(2.1, batches=A_HUNDRED),
        runs=[run(batch) for batch in A_HUNDRED],
    ),
    "classic": fit_of(classic_target(3.4), classic_target(3.2)),
    "trends": grown(*(target(2.5 - 0.1 * k, 2.0**k) for k in range(4))),
    "trends of groups": grouped(),
    "one trend and bounds": grown(
        target(2.4, b_min=UPPER),
        target(2.0, b_opt=LOWER, e_min=None),
        trends=Trends(b_min_vs_tokens=OLD_TREND),
    ),
    "a huge interval": fit_of(target(2.2, b_opt=Estimate(value=1000, low=1e-9, high=1e30, status="ok"))),
}
every_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS)


def with_gid(axes: Axes, gid: str) -> list[Line2D]:
    return [line for line in axes.lines if line.get_gid() == gid]


def panels(fit: Fit, name: str = "e_of_s.png") -> list[Axes]:
    return figures(fit)[name].axes


def texts(figure: Figure) -> Iterator[Text]:
    """Yield every text that is drawn."""
    yield from figure.texts
    for legend in figure.legends:
        yield from legend.get_texts()
    for axes in figure.axes:
        yield from (*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label)
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in axis.get_major_ticks():
                if min(low, high) <= tick.get_loc() <= max(low, high):
                    yield from (label for label in (tick.label1, tick.label2) if label.get_visible())


@every_fit
def test_no_text_overlaps_another_or_leaves_the_figure(fit):
    for name, figure in figures(fit).items():
        figure.draw_without_rendering()
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure) if text.get_text()]
        assert len(boxes) > 5
        for (one, a), (other, b) in itertools.combinations(boxes, 2):
            assert not a.overlaps(b), f"{name}: {one!r} and {other!r}"
        for text, box in boxes:
            inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
            assert inside, f"{name}: {text!r} at {box}"


@every_fit
def test_there_is_one_panel_for_every_target_and_twelve_at_most_on_a_page(fit):
    pages = [figure for name, figure in figures(fit).items() if name.startswith("e_of_s")]
    assert sum(len(page.axes) for page in pages) == len(fit.targets)
    assert all(len(page.axes) <= 12 for page in pages)


@every_fit
def test_every_panel_shows_all_its_points(fit):
    drawn = [
        axes for name, figure in figures(fit).items() if name.startswith("e_of_s") for axes in figure.axes
    ]
    for axes in drawn:
        for gid in ("reached", "censored"):
            (line,) = with_gid(axes, gid)
            x, y = line.get_data()
            assert np.all((x > axes.get_xlim()[0]) & (x < axes.get_xlim()[1]))
            assert np.all((y > axes.get_ylim()[0]) & (y < axes.get_ylim()[1]))


def test_the_files_are_named_and_are_200_dpi_pictures(tmp_path):
    written = write_plots(FITS["twenty targets"], tmp_path / "new" / "plots")
    assert [path.name for path in written] == [
        "e_of_s.png",
        "e_of_s_2.png",
        "loss_vs_tokens.png",
        "batch_vs_loss.png",
    ]
    for path in written:
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert picture.info["dpi"] == pytest.approx((200, 200), abs=0.1)
            assert "Software" not in picture.info


def test_the_same_fit_gives_the_same_bytes_whatever_the_users_matplotlib_settings(tmp_path):
    fit = FITS["one target"]
    first = [path.read_bytes() for path in write_plots(fit, tmp_path)]
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "black", "lines.linewidth": 7}):
        before = dict(matplotlib.rcParams)
        second = [path.read_bytes() for path in write_plots(fit, tmp_path)]
        assert dict(matplotlib.rcParams) == before
    assert first == second


def test_matplotlib_is_imported_only_to_draw_and_pyplot_never():
    code = (
        "import sys, ebfit.report.plots as plots; from ebfit.files import Fit\n"
        "assert 'matplotlib' not in sys.modules\n"
        "plots.figures(Fit(ebfit_version='0', settings={}, inputs=[], runs=[], targets=[]))\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_the_font_cannot_show_is_no_warning(tmp_path):
    assert write_plots(fit_of(target(2.2, group="模型")), tmp_path)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "plots").write_text("mine")
    with pytest.raises(BadInputError, match="plots: cannot be made a folder"):
        write_plots(FITS["one target"], tmp_path / "plots")
    assert (tmp_path / "plots").read_text() == "mine"


def test_steps_and_tokens_stand_on_labelled_logarithmic_axes():
    (axes,) = panels(FITS["one target"])
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("steps S", "tokens E")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100", "1K", "10K"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1M", "2M", "5M"]


def test_panels_share_their_axes_only_where_that_leaves_none_empty():
    assert len({axes.get_ylim() for axes in panels(FITS["eight targets"])}) == 1
    assert len({axes.get_ylim() for axes in panels(FITS["targets far apart"])}) == 5


def labels(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_panels_with_other_batch_sizes_have_their_own_axes_and_labels():
    others = [target(2.2 - factor, batches=[factor * batch for batch in BATCHES]) for factor in (1.1, 1.3)]
    drawn = panels(fit_of(target(2.2), *others))
    assert len({axes.get_xlim() for axes in drawn}) == 3
    assert all(axes.get_yticklabels()[0].get_visible() for axes in drawn)
    for axes, largest in zip(drawn, ("65.5K", "72.1K", "85.2K"), strict=True):
        assert largest in labels(axes)


def test_a_target_that_lacks_some_batch_sizes_still_shares_the_axes_and_shows_all_rays():
    fewer = target(2.0, batches=BATCHES[:-2])
    first, second = panels(fit_of(target(2.2), fewer))
    assert first.get_xlim() == second.get_xlim()
    assert set(BATCHES) <= {round(slope, 6) for slope in slopes(second)}
    assert len(with_gid(second, "reached")[0].get_xdata()) == 6


def test_runs_that_never_reached_the_target_are_open_markers_with_an_arrow_along_their_ray():
    (axes,) = panels(FITS["one target"])
    (line,) = with_gid(axes, "censored")
    assert line.get_xydata() == pytest.approx(np.array([[20_000.0, 20_000.0 * 256.0]]))
    assert line.get_markerfacecolor() == "white"
    (arrow,) = [text for text in axes.texts if isinstance(text, Annotation) and text.arrow_patch]
    assert arrow.xyann == pytest.approx((20_000.0, 20_000.0 * 256.0))
    assert arrow.xy[0] > 20_000.0
    assert arrow.xy[1] / arrow.xy[0] == pytest.approx(256.0)


def test_an_error_bar_lies_along_the_ray_of_its_batch_size():
    (axes,) = panels(FITS["one target"])
    point = target(2.2).points[-1]
    bars = [
        line
        for line in axes.lines
        if len(line.get_xdata()) == 2
        and np.mean(np.log(line.get_xdata())) == pytest.approx(np.log(point.steps))
    ]
    assert len(bars) == 1
    x, y = bars[0].get_data()
    assert y / x == pytest.approx(point.batch_tokens)
    assert np.log(x[1] / x[0]) == pytest.approx(0.1)


def test_the_three_stages_differ_in_stroke_meet_and_follow_the_law():
    (axes,) = panels(FITS["one target"])
    params = target(2.2).params
    strokes = set()
    for gid, low, high in (
        ("initial stage", params["s_min"], 300.0),
        ("transition stage", 300.0, 3000.0),
        ("asymptotic stage", 3000.0, axes.get_xlim()[1]),
    ):
        lines = with_gid(axes, gid)
        strokes.add(lines[0].get_linestyle())
        shown = np.concatenate([line.get_xydata() for line in lines])
        shown = shown[np.isfinite(shown[:, 1])]
        assert shown[:, 0].min() == pytest.approx(low, rel=1e-3)
        assert shown[:, 0].max() == pytest.approx(high, rel=1e-3)
        assert shown[:, 1] == pytest.approx(revised.tokens_at(params, shown[:, 0]))
    assert len(strokes) == 3


def test_the_curve_is_faint_outside_the_batch_sizes_that_reached_the_target():
    (axes,) = panels(FITS["one target"])
    for gid in ("initial stage", "transition stage", "asymptotic stage"):
        for line in with_gid(axes, gid):
            x, y = line.get_data()
            batch = y[np.isfinite(y)] / x[np.isfinite(y)]
            inside = (batch > 0.99 * 512.0) & (batch < 1.01 * 65_536.0)
            assert inside.all() if line.get_alpha() == 1.0 else not inside[batch < 500.0].any()


def test_the_classic_law_is_one_curve_and_b_crit():
    first, _ = panels(FITS["classic"])
    x, y = with_gid(first, "classic law")[0].get_data()
    shown = np.isfinite(y)
    assert y[shown] == pytest.approx(1e6 / (1.0 - 100.0 / x[shown]))
    assert any("crit" in text.get_text() for text in first.texts)
    assert not any("min" in text.get_text() for text in first.texts)


def slopes(axes: Axes) -> list[float]:
    """Return E / S of every full-width ray."""
    low, high = axes.get_xlim()
    return [float(line.get_ydata()[0] / low) for line in axes.lines if list(line.get_xdata()) == [low, high]]


def test_b_min_and_b_opt_are_rays_with_bands_and_a_star_at_the_fewest_tokens():
    (axes,) = panels(FITS["one target"])
    assert sorted(slopes(axes)) == pytest.approx(sorted([*BATCHES, 400.0, 1000.0]))
    (star,) = with_gid(axes, "fewest tokens")
    assert star.get_xydata() == pytest.approx(np.array([[1000.0, 1e6]]))
    bands = [c for c in axes.collections if isinstance(c, FillBetweenPolyCollection)]
    assert len(bands) == 2


def test_a_bound_is_a_ray_without_band_star_or_value():
    _, second, third = panels(FITS["one-sided"])
    assert sorted(slopes(second)) == pytest.approx(sorted([*BATCHES, 2000.0, 3000.0]))
    for axes in (second, third):
        assert not with_gid(axes, "fewest tokens")
        assert not any("777" in text.get_text() or "9999" in text.get_text() for text in axes.texts)
    assert not second.collections
    shown = [text.get_text() for text in second.texts]
    assert r"$B_\mathrm{min}$ ≥ 3.0K" in shown
    assert r"$B_\mathrm{opt}$ ≤ 2.0K" in shown


def test_a_target_without_a_law_still_shows_its_points():
    first, _ = panels(FITS["nothing known"])
    assert len(with_gid(first, "reached")[0].get_xdata()) == 8
    assert not with_gid(first, "transition stage")


def test_losses_stand_against_tokens_with_the_targets_as_lines():
    axes, bar = panels(fit_of(target(2.2), target(2.0), runs=ALL_RUNS[:3]), "loss_vs_tokens.png")
    assert axes.get_xscale() == "log"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("tokens E", "validation loss")
    lines = {
        line.get_xdata()[0]: line
        for line in axes.lines
        if line.get_marker() == "None" and len(line.get_xdata()) == 40
    }
    assert sorted(lines) == pytest.approx([25_600.0, 51_200.0, 102_400.0])
    assert lines[25_600.0].get_xdata() == pytest.approx(256.0 * np.geomspace(100.0, 20_000.0, 40))
    assert {line.get_ydata()[0] for line in axes.lines if len(line.get_xdata()) == 2} == {2.2, 2.0}
    assert len({line.get_color() for line in lines.values()}) == 3
    assert bar.get_ylabel() == "batch size (tokens)"
    assert [label.get_text() for label in bar.get_yticklabels()] == ["256", "512", "1.02K"]


def test_without_loss_curves_there_is_no_loss_figure():
    assert list(figures(FITS["targets far apart"])) == ["e_of_s.png", "batch_vs_loss.png"]


def test_batch_sizes_stand_against_loss_as_training_goes():
    (axes,) = panels(fit_of(target(2.0, 3.0), target(2.4), target(2.2, 2.0)), "batch_vs_loss.png")
    assert axes.xaxis_inverted()
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel() == "batch size (tokens)"
    curves = [line.get_xydata().tolist() for line in axes.lines]
    assert [[2.4, 400.0], [2.2, 800.0], [2.0, 1200.0]] in curves
    assert [[2.4, 1000.0], [2.2, 2000.0], [2.0, 3000.0]] in curves
    (run_range,) = [patch for patch in axes.patches if patch.get_gid() == "run"]
    assert (run_range.get_y(), run_range.get_y() + run_range.get_height()) == pytest.approx((256.0, 65_536.0))


def test_a_bound_is_an_arrow_that_parts_the_line():
    fit = fit_of(target(2.4), target(2.2, b_opt=LOWER), target(2.0), target(1.8, b_opt=UPPER))
    (axes,) = panels(fit, "batch_vs_loss.png")
    assert with_gid(axes, "lower_bound")[0].get_xydata().tolist() == [[2.2, 3000.0]]
    assert with_gid(axes, "upper_bound")[0].get_xydata().tolist() == [[1.8, 2000.0]]
    up, down = (text for text in axes.texts if isinstance(text, Annotation))
    assert up.xy[1] > up.xyann[1] == 3000.0
    assert down.xy[1] < down.xyann[1] == 2000.0
    assert not any(777.0 in line.get_ydata() for line in axes.lines)
    assert [[2.4, 1000.0]] in [line.get_xydata().tolist() for line in axes.lines]


def test_an_interval_without_end_does_not_squeeze_the_rest():
    (axes,) = panels(FITS["a huge interval"], "batch_vs_loss.png")
    low, high = axes.get_ylim()
    assert low > 1.0
    assert high < 1e7


def test_where_no_batch_size_is_identified_there_is_no_batch_figure():
    fit = fit_of(target(2.2, b_min=None, b_opt=Estimate(value=5.0)))
    assert list(figures(fit)) == ["e_of_s.png"]


def test_batch_sizes_stand_against_tokens_with_their_lines():
    (axes,) = panels(FITS["trends"], "batch_vs_tokens.png")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    points = [line.get_xydata()[0].tolist() for line in with_gid(axes, "estimate")]
    assert [4e6, 4000.0] in points
    assert [4e6, 1600.0] in points
    lines = {line.get_color(): line.get_xydata() for line in with_gid(axes, "trend")}
    assert lines[style.BATCHES["b_opt"].colour] == pytest.approx(
        np.array([[5e5, 1000.0 * 0.5**0.4], [8e6, 1000.0 * 8.0**0.4]])
    )
    bands = [c for c in axes.collections if isinstance(c, FillBetweenPolyCollection)]
    assert len(bands) == 2


def test_published_exponents_go_through_the_pivot_of_b_opt_and_name_their_sources():
    (axes,) = panels(FITS["trends"], "batch_vs_tokens.png")
    slopes_found = []
    for line in with_gid(axes, "published"):
        (x_0, y_0), (x_1, y_1) = np.log(line.get_xydata())
        slope = (y_1 - y_0) / (x_1 - x_0)
        assert y_0 + slope * (np.log(1e6) - x_0) == pytest.approx(np.log(1000.0))
        slopes_found.append(slope)
    assert sorted(slopes_found) == pytest.approx([0.383, 0.47, 0.566, 0.571])
    named = " ".join(labels(axes))
    assert all(number in named for number in ("2505.13738", "2410.21676", "2607.01487", "2503.04715"))
    (legend,) = figures(FITS["trends"])["batch_vs_tokens.png"].legends
    assert any("secondary sources" in text.get_text() for text in legend.get_texts())


def test_every_group_has_a_panel_with_its_own_line_and_that_of_all():
    first, second = panels(FITS["trends of groups"], "batch_vs_tokens.png")
    assert len(with_gid(first, "trend")) == 1
    assert not with_gid(second, "trend")
    assert len(with_gid(first, "joint")) == len(with_gid(second, "joint")) == 1
    assert len(with_gid(second, "estimate")) == 6


def test_a_bound_stands_at_e_min_or_at_the_fewest_tokens_of_its_runs():
    (axes,) = panels(FITS["one trend and bounds"], "batch_vs_tokens.png")
    assert with_gid(axes, "upper_bound")[0].get_xydata().tolist() == [[1e6, 2000.0]]
    fewest = min(point.tokens for point in target(2.0).points if not point.censored)
    assert with_gid(axes, "lower_bound")[0].get_xydata().tolist() == [[fewest, 3000.0]]


def test_without_a_trend_there_is_no_figure_over_tokens():
    assert "batch_vs_tokens.png" not in figures(FITS["eight targets"])


@given(st.floats(1e-2, 1e12), st.floats(1.3, 1e9), st.integers(4, 8))
def test_ticks_lie_inside_and_are_neither_too_few_nor_too_many(low, ratio, most):
    ticks = style.log_ticks(low, low * ratio, most)
    assert 2 <= len(ticks) <= most
    assert all(low <= tick <= low * ratio for tick in ticks)
    assert ticks == sorted(set(ticks))


@pytest.mark.parametrize(
    ("value", "text"), [(500.0, "500"), (1000.0, "1K"), (2.5e6, "2.5M"), (3e10, "30B"), (0.5, "0.5")]
)
def test_a_tick_is_as_short_as_it_can_be(value, text):
    assert style.tick_text(value) == text


@given(st.text(), st.integers(10, 40))
def test_a_name_is_one_line_of_bounded_length_without_mathematics(name, longest):
    line = style.plain(name, longest)
    assert len(line.replace(r"\$", "$")) <= longest
    assert len(line.splitlines()) <= 1
    assert line.count("$") == line.count(r"\$")
