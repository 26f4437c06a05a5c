"""A scoreboard as a page of Markdown, for documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.experiments.page import PLOTS_FOLDER, how_run
from lyra_opt.experiments.scoreboard import METHOD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lyra_opt.experiments.plots.figures import Plot
    from lyra_opt.experiments.scoreboard import Scoreboard


def scoreboard_page(scoreboard: Scoreboard, plots: Sequence[Plot]) -> str:
    """Return the page; pictures are those of the report, in the folder of its plots."""
    return "\n".join(_lines(scoreboard, plots))


def _lines(scoreboard: Scoreboard, plots: Sequence[Plot]) -> Iterator[str]:
    study, runs = scoreboard.study, scoreboard.analysis.runs
    how = how_run(study, runs)
    yield "# Scoreboard of the instance library\n"
    yield f"{study.description}\n"
    yield f"{scoreboard.in_words()}\n"
    yield f"{METHOD}\n"
    for machine, count in how.environments:
        yield f"Machine and versions of {count} runs: {machine}.\n"
    yield (
        "`make scoreboard` makes this page again. A solver of one's own is one more row of each "
        "ranking:\n\n```\nlyra-opt study library --solver my_file.py:MySolver\n"
        "lyra-opt report results/library\n```\n"
    )
    of_plot = {plot.name: plot for plot in plots}
    for problem in scoreboard.problems:
        yield f"## {problem.capitalize()}\n"
        plot = of_plot.get(f"profiles_{problem}")
        if plot is not None:
            yield f"![{plot.title}]({PLOTS_FOLDER}/{plot.name}.svg)\n\n{plot.caption}\n"
        yield f"{scoreboard.shown(problem).markdown()}"
    better = scoreboard.better_than_record()
    if better:
        yield "## Better than the record\n"
        yield "\n".join(f"- {line}" for line in better) + "\n"
