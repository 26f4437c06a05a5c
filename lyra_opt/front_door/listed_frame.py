"""The data frame that the lists of the front door return, which prints all of its text."""

from __future__ import annotations

from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import pandas as pd

from lyra_opt.core.numbers import exact
from lyra_opt.core.table import Column, Table, as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Listing(pd.DataFrame):  # type: ignore[misc]  # pandas has no types
    """A data frame that prints its text whole, folded to the width of the terminal."""

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Listing:
        """Return the frame of some columns, whose rows are named by the first; lists become text.

        The index has no name, so that ``frame.query`` and ``frame.groupby`` find the column.
        """
        cells = [[_cell(row[column]) for column in columns] for row in rows]
        names = [row[0] for row in cells]
        return cls(cells, columns=list(columns), index=names)

    @property
    def _constructor(self) -> Callable[..., Listing]:
        return Listing

    def __repr__(self) -> str:
        """Return a table of all rows and columns as text."""
        return self._table().plain(get_terminal_size().columns).rstrip("\n")

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        frame = self if self.index.names == [None] else self.reset_index()
        return Table(
            [
                Column(key=str(name), values=list(values), show=_show(values), heading=str(name))
                for name, values in frame.items()
            ]
        )


class Comparison(Listing):
    """The data frame of `compare`, which prints whole, with units and without empty columns."""

    @property
    def _constructor(self) -> Callable[..., Comparison]:
        return Comparison

    def _table(self) -> Table:
        from lyra_opt.experiments.tables import table_of_frame

        is_named = any(self.index.names)
        return table_of_frame(self.reset_index() if is_named else self).without_empty()


def _cell(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _show(values: pd.Series) -> Callable[[Any], str]:
    return exact if pd.api.types.is_any_real_numeric_dtype(values) else as_text
