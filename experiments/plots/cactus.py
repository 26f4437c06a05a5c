"""Cactus plots: how many instances a solver proves within a time, each by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.pictures import as_written, make_logarithmic
from lyra_opt.experiments.plots.style import line_style

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes


def plot_cactus(
    frame: pd.DataFrame, configurations: Sequence[str], instances: int, axes: Axes
) -> None:
    """Draw a step line for each configuration that proves anything.

    Parameters
    ----------
    frame
        Runs, with ``configuration`` and ``proof_time_s``.
    configurations
        Their order sets the colours.
    instances
        All instances, proved or not.
    """
    proved = frame.dropna(subset="proof_time_s").sort_values("proof_time_s")
    longest = 1.1 * proved.proof_time_s.max()
    for configuration in configurations:
        times = proved.proof_time_s[proved.configuration == configuration].tolist()
        style = line_style(configuration, configurations) | {"marker": ""}
        if times:
            axes.step(
                [times[0], *times, longest],
                [0, *range(1, len(times) + 1), len(times)],
                where="post",
                label=as_written(configuration),
                linewidth=1.4,
                **style,
            )
    axes.axhline(instances, color="#808080", linewidth=0.8, linestyle=":", zorder=1)
    make_logarithmic(axes.xaxis)
    axes.set_xlim(right=longest)
    axes.set_ylim(0, 1.04 * instances)
    axes.set_xlabel("Time to proof (s)")
    axes.set_ylabel("Instances proved optimal")
