"""The plots of a report: which data each plot shows, and its size."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.errors import UserError
from lyra_opt.core.gaps import EXCESS, gap_words
from lyra_opt.core.loading import content_hash
from lyra_opt.core.pictures import as_written, note_below
from lyra_opt.core.problem import find_problem
from lyra_opt.experiments.analysis import family_label, fixed_parameters
from lyra_opt.experiments.frames import in_order
from lyra_opt.experiments.intervals import student_interval
from lyra_opt.experiments.plots.excess import (
    LINEAR_UP_TO_PERCENT,
    plot_excess,
    plot_excess_over_axis,
    set_excess_limits,
)
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.experiments.plots.style import (
    add_legend_of_all,
    columns_of,
    new_grid,
    new_panels,
    record_columns,
)
from lyra_opt.experiments.plots.times import plot_cactus, plot_solve_time
from lyra_opt.experiments.study_cells import FILE
from lyra_opt.experiments.tables import axis_in_words, parameter_in_words
from lyra_opt.instances.family import find_family

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from lyra_opt.experiments.analysis import Analysis
    from lyra_opt.experiments.records import SolverRecord

LARGEST_DRAWN = 12
"""Largest size of an instance whose drawing is still readable."""


def draw_solutions(
    analysis: Analysis, configurations: Sequence[str]
) -> tuple[SolverRecord, Figure] | None:
    """Draw the solutions of two configurations on the small instance on which they differ most.

    Parameters
    ----------
    configurations
        The headline configurations; the first is compared with the one of the others that differs
        most.

    Returns
    -------
    tuple or None
        A run on the instance, and the figure. None with fewer than two configurations, or without a
        small instance on which they differ and that can be generated again.
    """
    runs = {(run.cell, run.configuration): run for run in analysis.runs}
    pairs = [
        (first, other)
        for first in analysis.runs
        if first.configuration in configurations[:1] and (first.size or 0) <= LARGEST_DRAWN
        for configuration in configurations[1:]
        if (other := runs.get((first.cell, configuration))) is not None
    ]
    for first, other in sorted(pairs, key=_difference, reverse=True):
        if _difference((first, other)) == 0:
            return None
        drawn = _drawn_pair(first, other)
        if drawn is not None:
            return first, drawn
    return None


def _difference(pair: tuple[SolverRecord, SolverRecord]) -> float:
    """Return the relative difference of the objectives of two runs."""
    first, other = (run.objective for run in pair)
    if first is None or other is None or min(first, other) <= 0:
        return 0.0
    return abs(first - other) / min(first, other)


def _drawn_pair(first: SolverRecord, other: SolverRecord) -> Figure | None:
    problem = find_problem(first.problem)
    instance = _generated_again(first)
    if instance is None:
        return None
    solutions = {
        run.configuration: problem.parse_solution(dict(run.solution))[0]
        for run in (first, other)
        if run.solution is not None
    }
    return problem.drawing_of(instance, solutions).figure() if len(solutions) == 2 else None


def _generated_again(run: SolverRecord) -> Any | None:
    """Generate a run's instance again; None if this needs a trace or gives another instance."""
    if run.trace_name is not None:
        return None  # a report must not depend on a trace
    try:
        family = find_family(run.problem, run.family)
        instance = family.generate(dict(run.family_parameters), run.seed)
    except UserError:
        return None
    is_same = content_hash(find_problem(run.problem), instance) == run.content_sha256
    return instance if is_same else None


LOGARITHMIC = f"The axis is logarithmic above {LINEAR_UP_TO_PERCENT:g} %"
FAMILIES_A_ROW = 7
"""Largest number of families in one row of the plot of gaps."""

FEWEST_TIMES = 3
"""Smallest number of times with a meaningful median."""

SIZE_INCHES = (7.2, 3.8)
ROW_INCHES = (9.5, 3.4)
PANEL_INCHES = (2.7, 2.6)
PANELS_A_ROW, TIMES_A_ROW = 3, 2
LEGEND_INCHES = 1.5

OF_RUN = {
    "family_group": "group",
    "family_label": "family",
    "cell": "instance",
    "configuration": "solver",
}
"""Columns of the data of plots that show single runs, and their names in the data."""


def plot_makers(
    analysis: Analysis, headline_solvers: Sequence[str] = ()
) -> dict[str, Callable[[], Plot | None]]:
    """Return functions that draw the plots of a study, or return None without data, by name.

    Parameters
    ----------
    headline_solvers
        Configurations whose solutions may be drawn side by side.
    """
    over_axes = {
        f"excess_over_{axis}": partial(excess_over_axis, analysis, column, axis)
        for column, axis in analysis.axes.items()
    }
    return {
        **over_axes,
        "excess_by_family": partial(_excess, analysis),
        "solve_time": partial(_solve_time, analysis),
        "cactus": partial(_cactus, analysis),
        "solutions": partial(_solutions, analysis, headline_solvers),
    }


def over_axis(analysis: Analysis, group: str, axis: str) -> pd.DataFrame:
    """Return the mean gap of heuristics on a group of families, by value of an axis.

    Columns: ``value``, in the order of tables; ``configuration``; ``excess_percent``, relative to
    the best dual bound if an optimum is not proved; ``instances`` of the mean; ``low_percent`` and
    ``high_percent``, its confidence interval, NaN for one instance; ``is_proved``, whether all
    optima at this value are proved; and ``families``, the families of the mean.
    """
    frame = analysis.frame[analysis.frame.family_group == group].dropna(subset=axis)
    frame = frame.assign(value=frame[axis].astype(object), place=in_order(frame[axis]))
    excess = frame.excess_percent.where(frame.has_optimum, frame.largest_excess_percent)
    solved = frame.largest_excess_percent.notna() & ~frame.reference
    of_value = frame[solved].groupby("value").has_optimum.all()
    found = frame.assign(excess_percent=excess)[solved & np.isfinite(excess)]
    means = (
        found.groupby(["place", "value", "configuration"])
        .agg(
            excess_percent=("excess_percent", "mean"),
            instances=("excess_percent", "size"),
            low_percent=("excess_percent", lambda gaps: _interval(gaps)[0]),
            high_percent=("excess_percent", lambda gaps: _interval(gaps)[1]),
            families=("family_label", frozenset),
        )
        .reset_index()
    )
    return means.assign(is_proved=means.value.map(of_value))


def _interval(gaps: pd.Series) -> tuple[float, float]:
    """Return the confidence interval of the mean gap; NaN for fewer than two instances."""
    return student_interval(gaps.to_numpy()) if len(gaps) > 1 else (math.nan, math.nan)


def excess_over_axis(analysis: Analysis, column: str, axis: str) -> Plot | None:
    """Return the plot of gaps over an axis; None unless a group of families has several values."""
    panels = {
        group: means
        for group in analysis.frame.family_group.unique()
        if (means := over_axis(analysis, group, column)).value.nunique() > 1
    }
    if not panels:
        return None
    figure, all_axes = new_grid(len(panels), PANELS_A_ROW, PANEL_INCHES, LEGEND_INCHES)
    words = gap_words(*analysis.frame.sense.dropna())
    for (group, means), axes in zip(panels.items(), all_axes, strict=True):
        plot_excess_over_axis(means, list(means.value.unique()), analysis.heuristics, axes)
        names = {"value": axis, "configuration": "solver", "is_proved": "is_proved"}
        names["excess_percent"] = f"mean_{words.noun}_percent"
        names |= {name: name for name in ("instances", "low_percent", "high_percent")}
        record_columns(axes, means, names, group=group)
        axes.set_xlabel(axis_in_words(axis))
        axes.set_title(as_written(group))
    for axes in all_axes[:: columns_of(PANELS_A_ROW)]:
        axes.set_ylabel(f"Mean {words.noun} {words.preposition} the optimum (%)")
    is_logarithmic = any(axes.get_yscale() != "linear" for axes in all_axes)
    is_proved = all(means.is_proved.all() for means in panels.values())
    note_below(
        figure,
        LOGARITHMIC if is_logarithmic else "",
        "" if is_proved else "Hollow marks: some optimum is not proved",
    )
    add_legend_of_all(figure, all_axes, analysis.heuristics)
    return Plot(
        f"excess_over_{axis}",
        f"Mean {words.noun} over {axis_in_words(axis)}",
        "Marks are means over families, sizes, seeds and all other axes. Whiskers are 95 % "
        "intervals of the mean (Student's t) over at least two instances, as if these were a "
        "random sample. Values are evenly spaced. Lines join neighbouring "
        f"numbers with the same families. A filled mark is the {words.noun} {words.preposition} "
        "proved optima. At a hollow mark some optimum is not proved; the best bound replaces it, "
        f"so the mark is an upper bound on the {words.noun}. Each panel has its own scale.",
        figure,
    )


def _excess(analysis: Analysis) -> Plot | None:
    frame = analysis.frame[analysis.frame.excess_percent.notna() & ~analysis.frame.reference]
    infinite = int(np.isinf(frame.excess_percent).sum())
    has_terms = bool((frame.terms.fillna(1) > 1).any())
    frame = frame[np.isfinite(frame.excess_percent)]
    one_run = {family_label(run): run for run in analysis.runs}
    words = gap_words(*analysis.frame.sense.dropna())
    families_of = frame.groupby("family_group", sort=False).family_label.unique()
    rows = [
        (group, list(families[start : start + FAMILIES_A_ROW]))
        for group, families in families_of.items()
        for start in range(0, len(families), FAMILIES_A_ROW)
    ]
    if not rows:
        return None
    width, height = ROW_INCHES
    figure, grid = new_panels(len(rows), 1, (width, height * len(rows)), sharey=True)
    all_axes = grid[:, 0]
    for (group, families), axes in zip(rows, all_axes, strict=True):
        plot_excess(frame[frame.family_group == group], families, analysis.heuristics, axes)
        names, common = _without_common_parameters([one_run[family] for family in families])
        axes.set_xticklabels([as_written(name) for name in names])
        axes.set_title(as_written(", ".join(filter(None, (group, *common)))))
        axes.set_ylabel(f"{words.title} {words.preposition} the proved optimum (%)")
    set_excess_limits(list(all_axes))
    columns = OF_RUN | {"excess_percent": f"{words.noun}_percent"}
    record_columns(figure, frame, columns)
    add_legend_of_all(figure, all_axes, analysis.heuristics)
    missing = ""
    if infinite:
        missed = "cost more than an optimum of 0" if words is EXCESS else "miss an optimum of 0"
        if has_terms:
            missed += ", or an optimum of several terms"
        missing = f"Not drawn: {infinite} runs that {missed}"
    is_logarithmic = all_axes[0].get_ylim()[1] > LINEAR_UP_TO_PERCENT
    note_below(figure, LOGARITHMIC if is_logarithmic else "", missing)
    return Plot(
        "excess_by_family",
        f"{words.title} {words.preposition} the proved optimum, by family",
        "A faint dot is an instance with a proved optimum, a mark with a white rim is the mean.",
        figure,
    )


def _solutions(analysis: Analysis, configurations: Sequence[str]) -> Plot | None:
    drawn = draw_solutions(analysis, configurations)
    if drawn is None:
        return None
    run, figure = drawn
    return Plot(
        "solutions",
        f"Solutions side by side: {run.cell}",
        "The small instance on which the first headline solver differs most from another headline "
        "solver.",
        figure,
    )


def _solve_time(analysis: Analysis) -> Plot | None:
    panels = {
        group: timed
        for group, runs in analysis.frame.groupby("family_group", sort=False)
        if len(timed := _timed_sizes(runs))
    }
    if not panels:
        return None
    width, height = SIZE_INCHES
    figure, all_axes = new_grid(
        len(panels), TIMES_A_ROW, (width / 2, height), width / 2, sharey=True
    )
    for (group, timed), axes in zip(panels.items(), all_axes, strict=True):
        plot_solve_time(timed, analysis.configurations, analysis.size_name, axes)
        axes.set_title(as_written(group))
        record_columns(axes, timed, OF_RUN | {"size": analysis.size_name, "time_s": "time_s"})
    for axes in all_axes[:: columns_of(TIMES_A_ROW)]:
        axes.set_ylabel("Solve time (ms)")
    add_legend_of_all(figure, all_axes, analysis.configurations)
    return Plot(
        "solve_time",
        "Solve time against the size of the instance",
        "Marks are medians over all instances of a size; lines join sizes with the same families. "
        "Whiskers reach from the shortest to the longest time. A size with fewer than "
        f"{FEWEST_TIMES} instances is left out if the solver has a size with more. Runs stopped by "
        "a time limit count with the time that they took. Times exclude the problem's own bound.",
        figure,
    )


def _without_common_parameters(families: Sequence[SolverRecord]) -> tuple[list[str], list[str]]:
    """Return the names of families without their common parameters, and the common parameters.

    Parameters
    ----------
    families
        One run of each family.
    """
    parameters = [
        [parameter_in_words(name, value) for name, value in fixed_parameters(run).items()]
        for run in families
    ]
    common = [words for words in parameters[0] if all(words in found for found in parameters)]
    names = [
        ", ".join([_family_name(run), *(words for words in found if words not in common)])
        for run, found in zip(families, parameters, strict=True)
    ]
    return names, common


def _family_name(run: SolverRecord) -> str:
    """Return the tick label of a family in a panel whose title names the group of families."""
    return f"{FILE}s" if run.family == FILE else run.family


def _timed_sizes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return timed runs; drop a solver's sizes with few runs if another size has enough runs."""
    timed = frame[frame["size"].notna() & (frame.time_s > 0)]
    by_solver = timed.groupby(["configuration", "size"]).time_s.transform("size")
    is_enough = by_solver >= FEWEST_TIMES
    return timed[is_enough | ~is_enough.groupby(timed.configuration).transform("any")]


def _cactus(analysis: Analysis) -> Plot | None:
    if analysis.frame.proof_time_s.isna().all():
        return None
    instances = analysis.frame.cell.nunique()
    figure, ((axes,),) = new_panels(1, 1, SIZE_INCHES)
    plot_cactus(analysis.frame, analysis.configurations, instances, axes)
    add_legend_of_all(figure, [axes], analysis.configurations)
    proved = analysis.frame.dropna(subset="proof_time_s")
    record_columns(axes, proved, OF_RUN | {"proof_time_s": "proof_time_s"})
    return Plot(
        "cactus",
        "Instances proved over time",
        "Number of instances that a solver proves optimal within a given time each. The dotted "
        "line is the total. The proof of a heuristic is the problem's own bound, and its time is "
        "included.",
        figure,
    )
