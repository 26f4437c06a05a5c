"""The function ``lo.diff``, which compares stored results."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError, UserError, without_inner_frames
from lyra_opt.core.plotting import drawn_figure
from lyra_opt.core.table import RAW, text_of_tables
from lyra_opt.core.texts import PrintedText
from lyra_opt.experiments.diff import Diff, compare_folders, print_diff
from lyra_opt.experiments.plots.paired import drawing_of_diff
from lyra_opt.experiments.simulation.showing.results import Runs
from lyra_opt.front_door.printed import Printed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, repr=False)
class ReadableDiff(Printed, Diff):
    """The differences between A and B, which print as ``lyra-opt diff`` shows them."""

    def _print(self) -> None:
        print_diff(self)

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each measure: first those of ``measures``, then those equal in all pairs."""
        import pandas as pd

        return pd.concat([self.measures, self.unchanged], ignore_index=True)

    @without_inner_frames
    def summary(self, format: str = "table") -> str:  # noqa: A002 - the name of the option
        """Return the measures that differ as a table in a format of `lyra_opt.summary`."""
        tables = [self.main.shown()] if format == "table" else self.for_papers()
        if format in RAW:
            tables = [self.table()]
        return PrintedText(text_of_tables(tables, format))

    @without_inner_frames
    def plot(self, *, style: str = "page", file: str | Path | None = None) -> Figure:
        """Return a picture of the main measures: B - A in % of A, with intervals.

        Parameters
        ----------
        style, file
            As for `lyra_opt.plot`. The data has every measure that differs.

        Raises
        ------
        UserError
            If no difference has a percentage, or the file cannot be written.
        """
        return drawn_figure(lambda: drawing_of_diff(self).figure(), style, file)

    def __repr__(self) -> str:
        """Return the numbers of pairs and of measures on one line."""
        differing = self.measures.measure.nunique()
        return f"<diff of {self.a} and {self.b}: {self.pairs} pairs, {differing} measures differ>"


@without_inner_frames
def diff(
    a: str | Path | Runs,
    b: str | Path | Runs | None = None,
    *,
    by: tuple[str, str, str] | None = None,
) -> ReadableDiff:
    """Compare two folders of results, or two schemes or solvers of one folder, run by run.

    Parameters
    ----------
    a, b
        Folders that `simulate`, ``lyra-opt study`` and other commands wrote, or runs that
        `simulate` returned.
    by
        Instead of `b`: a property and two of its values, such as ``("scheme", "fifo", "lyra")``.

    Returns
    -------
    ReadableDiff
        The differences: ``measures`` is a data frame with the paired difference of each measure
        and its 95 % interval, and ``frame`` has the equal measures as well. ``summary`` writes
        a table. ``print`` shows them as ``lyra-opt diff`` does.

    Raises
    ------
    UserError
        If a folder has no results, the property or a value does not exist, or no runs match.
    """
    if (b is None) == (by is None):
        raise UserError('diff needs a second folder, or by=("scheme", "fifo", "lyra") instead')
    if by is not None and (isinstance(by, str) or len(by) != 3):
        rule = 'must be a property and two of its values, such as ("scheme", "fifo", "lyra")'
        raise FieldError("by", by, rule)
    folders = [_folder_of(each) for each in (a, b) if each is not None]
    found = compare_folders(*folders, by=by)
    _, first, second = by or ("", *(_name_of(each) for each in (a, b)))
    known = {each.name: getattr(found, each.name) for each in fields(Diff)}
    return ReadableDiff(**known | {"a": first, "b": second})


def _folder_of(results: object) -> Path:
    if not isinstance(results, str | Path | Runs):
        raise FieldError("results", str(results), "must be a folder, or runs of lo.simulate")
    return results.replays.folder if isinstance(results, Runs) else Path(results)


def _name_of(results: object) -> str:
    return (
        f"the runs of {results.scenario.table.name}" if isinstance(results, Runs) else str(results)
    )
