"""A finished plot of a report: its figure, what it shows, and its data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lyra_opt.core.pictures import fit, svg_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Plot:
    """A drawn plot.

    Parameters
    ----------
    name
        Name of its file, without the suffix.
    title, caption
        Title, and an explanation of how to read the plot.
    figure
        The figure, with its data.
    """

    name: str
    title: str
    caption: str
    figure: Figure

    def __post_init__(self) -> None:
        fit(self.figure)

    @cached_property
    def svg(self) -> str:
        """The plot as an SVG element."""
        return svg_text(self.figure, self.name.replace("_", "-"))
