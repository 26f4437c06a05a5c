"""Cactus plots: how many instances a solver proves within a time, each by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.plots.style import line_style
from lyra_opt.pictures import as_written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class CactusData:
    """What `plot_cactus` draws.

    Parameters
    ----------
    configurations
        The lines.
    time_to_proof_s
        Time until the optimum was proved, by configuration and instance; instances that a
        configuration does not prove are absent.
    instances
        All instances, proved or not.
    """

    configurations: Sequence[str]
    time_to_proof_s: Mapping[str, Mapping[str, float]]
    instances: int


def cactus_points(data: CactusData) -> dict[str, tuple[list[float], list[int]]]:
    """Return, by configuration, times in rising order and the instances proved within each."""
    found = {}
    for configuration in data.configurations:
        times = sorted(data.time_to_proof_s.get(configuration, {}).values())
        found[configuration] = (times, list(range(1, len(times) + 1)))
    return found


def plot_cactus(data: CactusData, axes: Axes) -> None:
    """Draw a step line for each configuration that proves anything."""
    found = cactus_points(data)
    longest = max((times[-1] for times, _ in found.values() if times), default=1.0)
    for configuration, (times, counts) in found.items():
        style = line_style(configuration, data.configurations) | {"marker": ""}
        if times:
            axes.step(
                [times[0], *times, 1.1 * longest],
                [0, *counts, counts[-1]],
                where="post",
                label=as_written(configuration),
                linewidth=1.4,
                **style,
            )
    axes.axhline(data.instances, color="#808080", linewidth=0.8, linestyle=":", zorder=1)
    axes.set_xscale("log")
    axes.set_xlim(right=1.1 * longest)
    axes.set_ylim(0, 1.04 * data.instances)
    axes.set_xlabel("Time to proof (s)")
    axes.set_ylabel("Instances proved optimal")
