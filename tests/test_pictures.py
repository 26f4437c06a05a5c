"""The rules of pictures find what breaks them, and large instances keep them."""

import io
import re
from dataclasses import replace

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Patch

import lyra_opt as lo
from lyra_opt.core.picture_styles import STYLES, house_style
from lyra_opt.core.pictures import fit, legend_above, make_logarithmic, new_figure
from tests.pictures import faults_of
from tests.tables import tables


def panel(width_inches=4.0):
    """Return a figure with a panel that keeps the rules."""
    with house_style():
        figure = Figure(figsize=(width_inches, 3.0), layout="constrained")
        axes = figure.subplots()
        axes.plot([1, 2], [1, 2], label="line")
        axes.set_xlabel("Time (s)")
        axes.set_ylabel("Jobs")
    return figure, axes


BREAKS = {
    "points": lambda _, axes: axes.annotate("small", (1.5, 1.2), fontsize=8),
    "says no unit": lambda _, axes: axes.set_xlabel(""),
    "a legend covers": lambda _, axes: axes.legend(loc="upper left"),
    "cover each other": lambda _, axes: [axes.text(1.4, 1.5, word) for word in ("one", "two")],
    "is cut off": lambda figure, _: figure.text(0.9, 0.5, "a long word that ends outside"),
    "exponent": lambda _, axes: axes.set(xscale="log", xlim=(0.1, 100)),
}
"""By what is said of it."""


def test_a_plain_panel_keeps_the_rules():
    """None of them is broken by what every picture has."""
    assert faults_of(panel()[0]) == []


@pytest.mark.parametrize("fault", BREAKS)
def test_what_breaks_a_rule_is_found(fault):
    """And nothing else is said."""
    figure, axes = panel()
    with house_style():
        BREAKS[fault](figure, axes)
    assert {bool(re.search(fault, found)) for found in faults_of(figure)} == {True}


def test_a_picture_wider_than_a_page_is_found():
    """A page would make it smaller, and its text with it."""
    (fault,) = faults_of(panel(STYLES["page"].most_width_inches + 1)[0])
    assert "inches wide" in fault


def test_no_picture_that_tests_write_breaks_a_rule():
    """Whoever writes one hears of it."""
    figure, axes = panel()
    axes.set_xlabel("")
    with pytest.raises(AssertionError, match="says no unit"):
        figure.savefig(io.BytesIO())


@pytest.mark.parametrize("width_inches", [2.5, 4.0, 6.0, 10.0])
def test_a_legend_above_has_as_many_columns_as_there_is_room_for(width_inches):
    """None is cut off, and on a wide figure all stand in one row."""
    figure, axes = panel(width_inches)
    with house_style():
        lines = [axes.plot([1, 2], [2, 1])[0] for _ in range(4)]
        legend_above(figure, lines, [f"a line with a name {number}" for number in range(4)])
    assert faults_of(figure) == []
    (legend,) = figure.legends
    heights = {round(text.get_window_extent().y0) for text in legend.get_texts()}
    assert (len(heights) == 1) == (width_inches == 10.0)


@pytest.mark.parametrize("ends", [(3.1, 7.9), (1.0, 30.0), (0.0002, 8.0), (1.0, 1e7)])
def test_a_logarithmic_axis_has_plain_numbers(ends):
    """Several, however long it is, and no exponents."""
    figure, axes = panel()
    with house_style():
        make_logarithmic(axes.xaxis)
    axes.set_xlim(*ends)
    assert faults_of(figure) == []
    ticks = [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()]
    named = [t for t in ticks if ends[0] <= t.get_loc() <= ends[1] and t.label1.get_text()]
    assert len(named) >= 3
    for tick in named:
        assert float(tick.label1.get_text().replace(",", "")) == pytest.approx(tick.get_loc())


def test_what_only_colours_distinguish_is_found_in_a_paper():
    """Lines of one pattern and areas of one lightness look the same in print."""
    with house_style("paper"):
        figure = new_figure(3.3, 3.0)
        axes = figure.subplots()
        axes.set(xlabel="Time (s)", ylabel="Jobs")
        lines = [axes.plot([1, 2], [1, 2], color=colour)[0] for colour in ("#0072b2", "#d55e00")]
        areas = [Patch(facecolor=colour) for colour in ("#009e73", "#d55e00")]
        legend_above(figure, [*lines, *areas], ["one", "two", "three", "four"])
        faults = faults_of(figure)
        fit(figure)
    assert [fault.partition(" look")[0] for fault in faults] == ["one and two", "three and four"]
    assert len(faults_of(figure)) == 1, "areas are hatched, lines are left to who draws them"


LARGE = tables(__file__)["large"]


@pytest.mark.parametrize("problem", LARGE)
def test_large_instances_fit_on_a_page(problem):
    """Alone, and with several answers, which then stand in several rows.

    In a paper, a pair of answers leaves room for text on the page, and the rows that are drawn are
    counted.
    """
    instance = lo.generate(problem, **LARGE[problem])
    answer = lo.solve(instance, time_limit_s=10)
    for style, counts in (("page", (0, 3)), ("paper", (0, 1, 2, 6))):
        for count in counts:
            figure = lo.plot(instance, [answer] * count or None, style=style)
            assert faults_of(figure) == [], (style, count)
            if style == "paper" and count <= 2:
                assert figure.get_size_inches()[1] < 6.5
                named = [axes for axes in figure.axes if "many to name" in axes.get_ylabel()]
                assert named or problem == "allocation" or "Drawn: " in figure.get_supxlabel()
    with pytest.raises(lo.UserError, match="7 solutions do not fit on a page"):
        lo.plot(instance, [answer] * 7, style="paper")


def test_a_paper_shows_progress_only_if_it_is_asked_for():
    """Nobody wants a panel more in a column of a paper; without a solution it is all there is."""
    instance = lo.generate("reclaim", **LARGE["reclaim"])
    answer = lo.solve(instance, time_limit_s=10)
    points = [answer.trajectory[0]._replace(elapsed_s=time_s) for time_s in (1.0, 2.0)]
    slow = replace(answer, wall_time_s=3.0, trajectory=tuple(points))
    panels = {
        (style, progress): len(lo.plot(instance, slow, style=style, progress=progress).axes)
        for style in ("page", "paper")
        for progress in (None, True)
    }
    assert panels.pop(("paper", None)) == 1
    assert set(panels.values()) == {2}


def test_a_legend_lists_only_what_is_drawn():
    """A job that keeps fewer workers is not explained where there is none."""
    instance = lo.generate("reclaim", "span", servers=6, reclaim=2)
    rigid = replace(
        instance,
        jobs=tuple(
            replace(
                job,
                workers=tuple(
                    replace(group, base=group.workers, flexible=0) for group in job.workers
                ),
            )
            for job in instance.jobs
        ),
    )
    for solution in (None, lo.solve(rigid)):
        (legend,) = lo.plot(rigid, solution).legends
        said = {text.get_text() for text in legend.get_texts()}
        assert not said & {"flexible workers", "job survives with fewer workers"}
