"""The plots of the page on Lyra."""

from collections.abc import Callable, Mapping
from textwrap import fill

from lyra_opt.core.pictures import as_written, line_style, make_logarithmic
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.paper_figures.comparison import Comparison
from lyra_opt.paper_figures.document import by_name
from lyra_opt.paper_figures.plots import (
    OUR_COLOUR,
    PAPER_COLOUR,
    bars,
    new_figure,
    number,
    of_column,
    with_legend,
)

LETTERS_A_LINE = 26
"""The number of letters per line of an axis label."""


def gains_over_baseline(comparison: Comparison) -> Plot:
    """Plot each scheme's gains over the Baseline in mean queuing time and mean JCT."""
    panels = new_figure(2, 5.0)
    for axes, (column, label) in zip(
        panels,
        (("queue mean (s)", "mean queuing time"), ("JCT mean (s)", "mean JCT")),
        strict=True,
    ):
        entries = [entry for entry in of_column(comparison, column) if entry.gains is not None]
        gains = [entry.gains for entry in entries if entry.gains is not None]
        bars(
            axes,
            [entry.row for entry in entries],
            [each.paper for each in gains],
            [each.ours for each in gains],
            origin=1.0,
        )
        axes.axvline(1, color="black", linewidth=0.8)
        # The axis is logarithmic, because gains in queuing time differ by a factor of ten.
        make_logarithmic(axes.xaxis)
        axes.set_xlabel(f"Gain in {label}, times")
    panels[1].set_yticklabels([])
    return with_legend(
        comparison,
        panels,
        "Gains are the Baseline's mean divided by the scheme's, on a logarithmic axis; bars to the "
        "right are better than the Baseline. Our gains compare means over seeds.",
        above=True,
    )


def costs_of_reclaiming(comparison: Comparison) -> Plot:
    """Plot the costs of each reclaiming rule relative to Lyra's rule."""
    panels = new_figure(2)
    columns = list(dict.fromkeys(entry.column for entry in comparison.entries))
    for axes, column in zip(panels, columns, strict=True):
        entries = of_column(comparison, column)
        reference: tuple[float, float | None] = (1.0, 1.0)
        paper, ours = [], []
        for entry in entries:
            if entry.gains is None:  # the row of Lyra's rule, the reference of all rows
                reference = float(entry.paper), entry.ours
            paper.append(float(entry.paper) / reference[0])
            ours.append(
                entry.ours / reference[1] if entry.ours is not None and reference[1] else None
            )
        bars(axes, [entry.row for entry in entries], paper, ours)
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_xlabel(f"{column[0].upper()}{column[1:]}, Lyra's is 1")
    panels[1].set_yticklabels([])
    return with_legend(
        comparison,
        panels,
        "Rules to the right of the line are worse than Lyra's. Absolute sizes are not comparable; "
        "the page of the figure lists them.",
        above=True,
    )


def by_checkpoints(comparison: Comparison) -> Plot:
    """Plot lossy preemptions and gains against the share of jobs with checkpoints."""
    panels = new_figure(3, 2.8, 3.6)
    columns = list(dict.fromkeys(entry.column for entry in comparison.entries))
    for axes, column in zip(panels, columns, strict=True):
        entries = of_column(comparison, column)
        shares = [int(entry.row.split()[0]) for entry in entries]
        paper = [float(entry.paper) for entry in entries]
        ours = [number(entry.ours) for entry in entries]
        axes.plot(shares, paper, color=PAPER_COLOUR, marker="s", label="paper")
        axes.plot(shares, ours, color=OUR_COLOUR, marker="o", label="ours")
        axes.set_ylabel(fill(as_written(column[0].upper() + column[1:]), LETTERS_A_LINE))
        axes.set_xlabel("Jobs with checkpoints (%)")
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    return with_legend(
        comparison,
        panels,
        "Gains are relative to a run without checkpoints.",
        above=True,
    )


def by_elastic_shares(comparison: Comparison) -> Plot:
    """Plot each scheme's gain over the Baseline against the share of elastic jobs."""
    panels = new_figure(2, 3.0)
    rows = list(dict.fromkeys(entry.row for entry in comparison.entries))
    schemes = [row.partition(",")[0] for row in rows]
    for row, scheme in zip(rows, schemes, strict=True):
        entries = [entry for entry in comparison.entries if entry.row == row]
        shares = [int(entry.column.split()[0]) for entry in entries]
        style = line_style(scheme, schemes)
        panels[0].plot(shares, [float(entry.paper) for entry in entries], label=scheme, **style)
        panels[1].plot(shares, [number(entry.ours) for entry in entries], **style)
    for axes, title in zip(panels, ("Paper", "Ours"), strict=True):
        axes.set_title(title)
        axes.set_xlabel("Elastic jobs (%)")
        axes.axhline(1, color="black", linewidth=0.8)
        make_logarithmic(axes.yaxis)
    lows, highs = zip(*(axes.get_ylim() for axes in panels), strict=True)
    for axes in panels:
        axes.set_ylim(min(lows), max(highs))
    panels[0].set_ylabel("Gain over the Baseline")
    return with_legend(comparison, panels, "Scaling without loans.")


FUNCTIONS: Mapping[str, Callable[[Comparison], Plot]] = by_name(
    gains_over_baseline, costs_of_reclaiming, by_checkpoints, by_elastic_shares
)
