"""The page of replays: results as text, tables and plots."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import write_text
from lyra_opt.core.errors import InputError, UserError, counted
from lyra_opt.core.picture_styles import house_style
from lyra_opt.experiments.chosen_pictures import ChosenPictures
from lyra_opt.experiments.page import PAGE, how_run, render_page, write_plots
from lyra_opt.experiments.records import ReplayRecord
from lyra_opt.experiments.simulation.measuring.bounds import COLUMNS, decisions_of, winnable
from lyra_opt.experiments.simulation.measuring.classes import GANGS, LENGTHS, losses
from lyra_opt.experiments.simulation.measuring.comparison import (
    Difference,
    differences,
    main_rows,
    method_in_words,
    rows_of,
)
from lyra_opt.experiments.simulation.measuring.measures import (
    VariantRuns,
    assumptions_of,
    shown_measures,
)
from lyra_opt.experiments.simulation.running.replays import Replays
from lyra_opt.experiments.simulation.showing.axes import scheme_colour
from lyra_opt.experiments.simulation.showing.figures import PlotGroup, draw_plots, figure_of

MOST_SENTENCES = 4
"""Number of sentences at the head of a page; more schemes are sorted by mean JCT."""


def write_report(
    replays: Replays,
    *,
    window_h: tuple[float, float] | None = None,
    baseline: str | None = None,
    pictures: ChosenPictures | None = None,
) -> Path:
    """Write the page and its plots into the folder of the store; return the path of the page.

    ``window_h`` is the start and the end of the plot of single jobs, in hours since the first
    submission; None takes the busiest day. ``baseline`` is the scheme with which the others are
    compared; None takes the first. ``pictures`` are written in addition to the plots.

    Raises
    ------
    UserError
        If no replay finished, no job runs in the window, or a file cannot be written or read.
    """
    if not replays.runs:
        raise InputError(str(replays.folder), "has no finished replay")
    variants = replays.variants
    found = {each.name: differences(each, replays.jobs, baseline) for each in variants}
    groups = draw_plots(replays, variants, found, window_h)
    pictures = pictures or ChosenPictures()
    pictures.write(lambda name: figure_of(replays, name, window_h, baseline))
    with house_style(pictures.style):
        more = draw_plots(replays, variants, found, window_h) if pictures.kind else []
    plots, others = ([plot for group in each for plot in group.plots] for each in (groups, more))
    write_plots(replays.folder, plots, others, pictures.kind or "")
    page = replays.folder / PAGE
    write_text(page, page_text(replays, variants, found, groups))
    return page


def parse_window(text: str) -> tuple[float, float]:
    """Parse a value of ``--window`` into start and end in hours; raise `UserError` if bad."""
    try:
        first, last = map(float, text.split(","))
    except ValueError:
        first = last = math.nan
    if not 0 <= first < last < math.inf:
        rule = "must be two numbers of hours, FROM,TO, the first at least 0 and below the second"
        raise UserError(f"--window {text}: {rule}")
    return first, last


def page_text(
    replays: Replays,
    variants: Sequence[VariantRuns],
    found: Mapping[str, Sequence[Difference]],
    groups: Sequence[PlotGroup],
) -> str:
    """Return the page as HTML that needs no other file."""
    runs = replays.runs
    left = list(winnable(variants))
    lost = list(losses(variants, replays.jobs))
    entries = [
        *((("winnable", "What could still be won"),) if left else ()),
        *((("for-whom", "Which jobs lose time"),) if lost else ()),
        ("side-by-side", "Schemes side by side"),
        *((group.anchor, group.name) for group in groups),
        ("all-measures", "All measures"),
        ("schemes", "Schemes and setting"),
        ("assumptions", "What is assumed"),
        ("scenario", "The scenario"),
        ("how", "How it was run"),
    ]
    everything = [difference for of_variant in found.values() for difference in of_variant]
    left_out = replays.study.settings.get("left_out", {})
    return render_page(
        "replays.html.jinja",
        study=replays.study,
        unfolded=MOST_SENTENCES,
        entries=entries,
        failed=replays.failed,
        missing=replays.study.runs - len(runs) - len(replays.failed),
        headline=headline(found, variants),
        winnable=left,
        winnable_in_words=[each.in_words() for each in left],
        winnable_columns=[*COLUMNS, *decisions_of(left)],
        decisions=decisions_of(left),
        losses=lost,
        gangs=list(GANGS),
        lengths=list(LENGTHS),
        method=method_in_words(everything) if everything else "",
        sections=[_section(each, runs) for each in variants],
        several_seeds=len({run.seed for run in runs}) > 1,
        plot_groups=groups,
        colours={scheme: scheme_colour(scheme, replays.schemes) for scheme in replays.schemes},
        meanings=[measure for measure in shown_measures(runs) if measure.meaning],
        settings=[
            *map(_setting, variants),
            *(
                f"Case {name} is left out: its trace {trace} does not exist."
                for name, trace in left_out.items()
            ),
        ],
        schemes={run.scheme: run.setting["summary"] for run in runs},
        assumptions=assumptions_of(variants),
        how=how_run(replays.study, [*runs, *replays.failed]),
    )


def headline(
    found: Mapping[str, Sequence[Difference]], variants: Sequence[VariantRuns]
) -> list[tuple[str, str]]:
    """Return the main results as pairs of a scheme and a sentence on its differences.

    With several variants, the best and the worst variant of each scheme are named. With one scheme,
    its main measures are returned instead.
    """
    by_scheme: dict[str, dict[str, list[tuple[str, Difference]]]] = {}
    for variant, of_variant in found.items():
        for each in of_variant:
            of_scheme = by_scheme.setdefault(each.scheme, {})
            of_scheme.setdefault(each.compared.name, []).append((variant, each))
    schemes = list(by_scheme.items())
    if len(schemes) > MOST_SENTENCES:
        schemes.sort(
            key=lambda entry: min(each.difference_s for _, each in next(iter(entry[1].values())))
        )
    sentences = []
    for scheme, of_scheme in schemes:
        clauses = [f"{name} {_clause(of_measure)}" for name, of_measure in of_scheme.items()]
        (_, first), *_ = next(iter(of_scheme.values()))
        sentences.append((f"{scheme} against {first.baseline}", f"{'; '.join(clauses)}."))
    if not sentences:
        runs = [run for each in variants for run in each.runs]
        for section in (_section(each, runs) for each in variants):
            figures = ", ".join(
                f"{row.name} {row.cells[0].text} {row.unit}".strip() for row in section["main"][:4]
            )
            where = f" with {section['name']}" if section["name"] else ""
            (label, *_) = section["schemes"].values()
            sentences.append((f"{label}{where}", f"{figures}."))
    return sentences


def _clause(of_measure: Sequence[tuple[str, Difference]]) -> str:
    """Return the differences of one scheme and measure as a clause."""
    if len(of_measure) == 1:
        return of_measure[0][1].in_words()
    ordered = sorted(of_measure, key=lambda entry: entry[1].relative)
    (best, first), (worst, last) = ordered[0], ordered[-1]
    return f"from {first.in_words()} with {best} to {last.in_words()} with {worst}"


def _section(variant: VariantRuns, shown: Sequence[ReplayRecord]) -> dict[str, Any]:
    rows = rows_of(variant, shown)
    return {
        "name": variant.name,
        "schemes": {scheme: variant.label(scheme) for scheme in variant.by_scheme},
        "lacking": variant.lacking_in_words,
        "lines": rows,
        "main": main_rows(rows),
    }


def _setting(variant: VariantRuns) -> str:
    """Return sentences on the demand, the GPUs and the seeds of a variant."""
    first = variant.runs[0]
    gpus = ", ".join(
        f"{math.floor(count):,} {name}" for name, count in first.setting["own_gpus"].items()
    )
    words = f"{variant.name}: " if variant.name else ""
    words += f"{first.setting['demand']}. Own GPUs: {gpus}. "
    words += f"Seeds: {', '.join(map(str, variant.seeds))}."
    if dropped := (first.figures or {}).get("dropped"):
        words += f" Left out: {counted(dropped, 'job')} that can never run."
    return words
