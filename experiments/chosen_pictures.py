"""The options that write pictures of results: which one, to which file, and in which style."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.commands.messages import say
from lyra_opt.commands.output import require_file_path
from lyra_opt.core.errors import UserError
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.picture_styles import house_style, require_style
from lyra_opt.core.pictures import require_picture_path, save_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from matplotlib.figure import Figure

    from lyra_opt.experiments.plots.plot import Plot

    PlotMakers: TypeAlias = Mapping[str, Callable[[], Plot | None]]

OF_STUDIES = (
    *("excess_by_family", "excess_over_AXIS", "solve_time"),
    *("cactus", "solutions", "profiles_PROBLEM"),
)
OF_REPLAYS = (
    *("overview", "time_parts", "differences", "over_axis_NUMBER", "distributions", "over_time"),
    *("jobs", "decision"),
)
"""The names of pictures, as in the folder of a report; capitals stand for an axis or a problem."""


@dataclass(frozen=True, slots=True)
class ChosenPictures:
    """The pictures that a command writes in addition to those of a page.

    Parameters
    ----------
    style
        The name of their style.
    file
        The file of one picture; None for none.
    name
        The name of that picture; None for the one that says most.
    kind
        The format in which all pictures of a page are written too, ``pdf`` or ``png``; None for
        no further files.
    """

    style: str = "page"
    file: Path | None = None
    name: str | None = None
    kind: str | None = None

    def write(self, draw: Callable[[str | None], Figure]) -> None:
        """Write the picture of ``--plot``, which `draw` returns for its name."""
        if self.file is not None:
            with house_style(self.style):
                save_picture(self.file, draw(self.name))
            say(f"{self.file}: a picture, with its data in {self.file.with_suffix('.csv')}")


def chosen(plots: PlotMakers, name: str | None) -> Figure:
    """Draw the plot with a name, the first one without a name; raise `UserError` if unknown.

    No other plot is drawn, unless an error message must list those that exist.
    """
    makers = plots.values() if name is None else [plots[name]] if name in plots else []
    found = next((plot for make in makers if (plot := make()) is not None), None)
    if found is None:
        names = [plot.name for plot in drawn(plots)]
        hint = meant(name, names, "these results have:")
        raise UserError(f"picture {name}: the results do not have this picture; {hint}")
    return found.figure


def drawn(plots: PlotMakers) -> list[Plot]:
    """Return all plots for which the results have data, in the style in force."""
    with house_style():
        return [plot for make in plots.values() if (plot := make()) is not None]


def chosen_pictures(
    style: str,
    file: str | None,
    name: str | None = None,
    names: Sequence[str] = (),
    inputs: Sequence[str | Path | None] = (),
    kind: str | None = None,
) -> ChosenPictures:
    """Return the pictures that the options of a command choose, before anything is computed.

    Parameters
    ----------
    style, file, name, kind
        The values of ``--style``, ``--plot``, ``--picture`` and ``--pictures``.
    names
        The names that `--picture` may have, with capitals for axes and problems. Without names,
        any name is accepted, for results that know their pictures.
    inputs
        The files that the command reads, which no picture may overwrite.

    Raises
    ------
    UserError
        If an option is not valid.
    """
    if file is not None:
        require_picture_path("--plot", file, [each for each in inputs if each is not None])
        require_file_path("--plot", file)
    elif name is not None:
        raise UserError(f"--picture {name}: needs --plot FILE, the file to write")
    patterns = [re.sub("[A-Z]+", "*", each) + end for each in names for end in ("", "_[2-9]")]
    if name is not None and patterns and not any(fnmatchcase(name, each) for each in patterns):
        raise UserError(f"--picture {name}: unknown picture; {meant(name, names)}")
    return ChosenPictures(
        require_style("--style", style), None if file is None else Path(file), name, kind
    )
