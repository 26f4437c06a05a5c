"""The data frame that the lists of the front door return, which prints all of its text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from shutil import get_terminal_size
from typing import Any

import pandas as pd

from lyra_opt.core.folding import fold
from lyra_opt.core.numbers import exact
from lyra_opt.core.table import Column, Table, as_text


class Listing(pd.DataFrame):  # type: ignore[misc]  # pandas has no types
    """A data frame that prints its text whole, folded to the width of the terminal."""

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> "Listing":
        """Return the frame of some columns, whose rows are named by the first; lists become text.

        The index has no name, so that ``frame.query`` and ``frame.groupby`` find the column.
        """
        cells = [[_cell(row[column]) for column in columns] for row in rows]
        names = [row[0] for row in cells]
        return cls(cells, columns=list(columns), index=names)

    @property
    def _constructor(self) -> "Callable[..., Listing]":
        return Listing

    def __repr__(self) -> str:
        """Return a table of all rows and columns as text."""
        width = get_terminal_size().columns
        note = fold(self.attrs.get("note", ""), width, keeps_words=True)
        return "\n".join([self._table().plain(width).rstrip("\n"), *note]).rstrip("\n")

    def _repr_html_(self) -> str:
        note = self.attrs.get("note", "")
        return self._table().html() + (f"<p>{escape(note)}</p>" if note else "")

    def _table(self) -> Table:
        return Table(
            [
                Column(key=str(name), values=list(values), show=_show(values), heading=str(name))
                for name, values in self._labelled().items()
            ]
        )

    def _labelled(self) -> pd.DataFrame:
        """Return the frame with its row labels as columns.

        Numbers label no row, and labels that the first column repeats are left out.
        """
        index = self.index
        if any(index.names):
            return self.reset_index()
        is_repeated = len(self.columns) > 0 and list(index) == list(self.iloc[:, 0])
        if is_repeated or pd.api.types.is_integer_dtype(index):
            return self
        return self.reset_index(names="")


class Comparison(Listing):
    """The data frame of `compare`, which prints whole, with units and without empty columns."""

    @property
    def _constructor(self) -> "Callable[..., Comparison]":
        return Comparison

    def _table(self) -> Table:
        from lyra_opt.experiments.tables import table_of_frame

        return table_of_frame(self._labelled()).with_intervals().without_empty()


class Published(Listing):
    """The data frame of `paper`, which prints with its title and its verdicts.

    A page without numbers, such as that of a picture, prints its notes instead.
    """

    @property
    def _constructor(self) -> "Callable[..., Published]":
        return Published

    def __repr__(self) -> str:
        """Return the title, the table and the sentences as text."""
        width = get_terminal_size().columns
        parts = ["\n".join(fold(each, width, keeps_words=True)) for each in self._around()]
        if len(self.columns):
            parts.insert(1, super().__repr__())
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(each)}</p>" for each in self._around()) + self._table().html()

    def _around(self) -> list[str]:
        attrs = self.attrs
        notes = [*attrs.get("notes", ()), f"Full page: {attrs.get('page')}"] if self.empty else ()
        return [*filter(None, (attrs.get("title"), attrs.get("verdicts"))), *notes]


def _cell(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _show(values: pd.Series) -> Callable[[Any], str]:
    return exact if pd.api.types.is_any_real_numeric_dtype(values) else as_text
