"""The plot of a simulation on a network of tiers: what GPU time goes into, and what gangs span."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.plots.figures import Plot
from experiments.plots.style import svg_text
from lyra_opt.network.links import Tier
from lyra_opt.pictures import as_written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from experiments.simulation.replay import Replay

HOUR_S = 3600

COSTS_INCHES_WIDE = 9.4
INCHES_AROUND, INCHES_A_SCHEME = 1.3, 0.32

TIER_COLOURS = ("#1b6e4b", "#e0a82e", "#b8402a")
"""From near to far."""

TIER_NAMES = ("one machine", "one rack", "several racks")
COST_COLOURS = ("#2f6db3", "#b8402a", "#b9b9b9")


def network_costs(replays: Sequence[Replay]) -> Plot:
    """Return the plot of what GPU time goes into, and of how close together gangs are placed."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    height = INCHES_AROUND + INCHES_A_SCHEME * len(replays)
    figure = Figure(figsize=(COSTS_INCHES_WIDE, height), layout="constrained")
    costs, allocations, gpu_time = figure.subplots(1, 3, sharey=True)
    _stack(costs, _gpu_hours(replays), COST_COLOURS)
    costs.set_xlabel("GPU hours")
    costs.xaxis.set_major_locator(MaxNLocator(4))
    costs.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    for axes, title, name in (
        (allocations, "Share of allocations (%)", "allocations_by_tier"),
        (gpu_time, "Share of GPU time held (%)", "gpu_s_by_tier"),
    ):
        _stack(axes, _shares_of_tiers(replays, name), TIER_COLOURS)
        axes.set_xlabel(title)
        axes.set_xlim(0, 100)
    costs.set_yticks(range(len(replays)), [as_written(replay.scheme.name) for replay in replays])
    costs.invert_yaxis()
    for axes in (costs, allocations):
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=3,
            frameon=False,
            fontsize="small",
            columnspacing=1.0,
            handlelength=1.0,
        )
    return Plot(
        "network_costs",
        "What GPU time goes into, and how close together gangs are",
        "Left: GPU hours in which gangs compute, the same under every scheme, wait for the "
        "network, and in which released GPUs are idle before they are free. The others: what the "
        "GPUs of gangs span, by how often a gang gets some, and by how long it holds them.",
        svg_text(figure, "network-costs"),
    )


def _gpu_hours(replays: Sequence[Replay]) -> dict[str, np.ndarray]:
    found = [replay.metrics for replay in replays]
    running = np.array([metrics.gpu_s for metrics in found]) / HOUR_S
    computing = np.array([metrics.computing_gpu_s for metrics in found]) / HOUR_S
    handed_over = np.array([metrics.hand_over_share * metrics.makespan_s for metrics in found])
    return {
        "computing": computing,
        "network": (running - computing).clip(0),
        "handed over": handed_over * replays[0].setup.cluster.gpus / HOUR_S,
    }


def _shares_of_tiers(replays: Sequence[Replay], name: str) -> dict[str, np.ndarray]:
    values = np.array(
        [[getattr(replay.metrics, name)[tier.label] for tier in Tier] for replay in replays]
    )
    shares = 100 * values / values.sum(axis=1, keepdims=True)
    return dict(zip(TIER_NAMES, shares.T, strict=True))


def _stack(axes: Axes, parts: dict[str, np.ndarray], colours: Sequence[str]) -> None:
    """Draw a bar for each scheme, its parts one after the other."""
    ends = np.zeros(len(next(iter(parts.values()))))
    for (name, values), colour in zip(parts.items(), colours, strict=True):
        axes.barh(range(len(values)), values, left=ends, height=0.7, color=colour, label=name)
        ends = ends + values
    axes.grid(visible=False, axis="y")
