"""Performance profiles: how often a solver proves the optimum within a factor of the fastest.

Source: Dolan and More, "Benchmarking optimization software with performance profiles",
Mathematical Programming 91 (2002).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.plots.style import line_style, round_numbers
from lyra_opt.pictures import as_written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes


PLAIN_UP_TO = 1000.0
"""Multiples up to here are written out, larger ones as powers of ten."""

EVEN_STEPS_UP_TO = 6.0


@dataclass(frozen=True, slots=True)
class PerformanceProfileData:
    """What `plot_performance_profile` draws.

    Parameters
    ----------
    configurations
        The lines.
    time_to_proof_ms
        Time until the optimum was proved, by configuration and instance; instances that a
        configuration does not prove are absent.
    instances
        All instances, proved or not: what the shares are of.
    """

    configurations: Sequence[str]
    time_to_proof_ms: Mapping[str, Mapping[str, float]]
    instances: int


def profiles(data: PerformanceProfileData) -> dict[str, tuple[list[float], list[float]]]:
    """Return, by configuration, factors in rising order and the percent proved within each."""
    fastest: dict[str, float] = {}
    for times in data.time_to_proof_ms.values():
        for instance, time_ms in times.items():
            fastest[instance] = min(time_ms, fastest.get(instance, time_ms))
    found = {}
    for configuration in data.configurations:
        times = data.time_to_proof_ms.get(configuration, {})
        factors = sorted(
            time_ms / fastest[instance] if fastest[instance] else 1.0
            for instance, time_ms in times.items()
        )
        shares = [100 * count / data.instances for count in range(1, len(factors) + 1)]
        found[configuration] = (factors, shares)
    return found


def factor_ticks(highest: float) -> list[float]:
    """Return round multiples from 1 to `highest`: in even steps if all are near 1."""
    from matplotlib.ticker import MaxNLocator

    if highest > EVEN_STEPS_UP_TO:
        return round_numbers(1.0, highest, (1, 2, 3, 5))
    steps = MaxNLocator(nbins=6, steps=[1, 2, 5, 10]).tick_values(1.0, highest)
    return [float(tick) for tick in steps if 1.0 <= tick <= highest]


def plot_performance_profile(data: PerformanceProfileData, axes: Axes) -> None:
    """Draw a step line for each configuration that proves anything."""
    found = profiles(data)
    farthest = max((factors[-1] for factors, _ in found.values() if factors), default=1.0)
    for configuration, (factors, shares) in found.items():
        style = line_style(configuration, data.configurations) | {"marker": ""}
        if factors:
            axes.step(
                [1.0, *factors, 1.1 * farthest],
                [0.0, *shares, shares[-1]],
                where="post",
                label=as_written(configuration),
                linewidth=1.4,
                **style,
            )
    axes.set_xscale("log")
    axes.set_xlim(1.0, 1.1 * farthest)
    if farthest <= PLAIN_UP_TO:
        ticks = factor_ticks(1.1 * farthest)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
    axes.set_ylim(0.0, 102.0)
    axes.set_xlabel("Time to proof, as a multiple of the fastest solver's on the same instance")
    axes.set_ylabel("Instances proved optimal (%)")
