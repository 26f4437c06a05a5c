"""Pictures of stored studies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.core.errors import without_inner_frames
from lyra_opt.core.plotting import drawn_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@without_inner_frames
def plot_study(
    folder: str | Path,
    picture: str | None = None,
    *,
    style: str = "page",
    file: str | Path | None = None,
) -> Figure:
    """Return a picture of the stored runs of a study.

    Parameters
    ----------
    folder
        The folder of the results.
    picture
        The name of the picture, as in the folder ``plots`` of a report, such as ``cactus``. None is
        the first picture of the report.
    style, file
        As for `lyra_opt.plot`.

    Raises
    ------
    UserError
        If the folder has no readable results of a study, they do not have the picture, or the file
        cannot be written.
    """
    from lyra_opt.experiments.chosen_pictures import chosen
    from lyra_opt.experiments.report import make_report

    report = make_report(Path(folder))
    return drawn_figure(lambda: chosen(report.plot_makers(), picture), style, file)
