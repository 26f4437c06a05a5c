"""Objects whose fields are declared, as pandas data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lyra_opt.core.fields import keys_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd


class Column(NamedTuple):
    """A column of a frame: a field, the type of its values in pandas, and what they mean."""

    name: str
    dtype: str
    meaning: str


def columns_of(table: type[Any]) -> tuple[Column, ...]:
    """Return the columns of a frame of objects of a class, in the order of its fields."""
    return tuple(Column(each.name, each.rule.dtype, each.meaning) for each in keys_of(table))


def frame_of(table: type[Any], objects: Sequence[Any]) -> pd.DataFrame:
    """Return a frame with a row an object and a column a field.

    Lists and mappings stay what they are in the object. Time O(objects times fields).

    Parameters
    ----------
    table
        The class of the objects, made by `lyra_opt.core.fields.declared`.
    objects
        Such as the servers or the jobs of an instance; there may be none.
    """
    import pandas as pd

    return pd.DataFrame(
        {
            column.name: pd.Series(
                [getattr(each, column.name) for each in objects], dtype=column.dtype
            )
            for column in columns_of(table)
        }
    )
