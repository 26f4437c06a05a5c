"""The formats of files by name: their keys for people, and their JSON schemas.

The formats of instances and solutions come with their problem; `lyra_opt.registry` lists others.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lyra_opt.core.described import Described, described, markdown_table
from lyra_opt.core.fields import format_schema, schema_of
from lyra_opt.core.plugins import Plugins
from lyra_opt.core.problem import Problem, problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lyra_opt.core.documents import JsonObject


class FileFormat(Protocol):
    """What the files of a format may hold."""

    @property
    def format_name(self) -> str:
        """What such a file has as its ``format`` key."""

    def keys(self) -> Iterator[Described]:
        """Yield the keys, for people."""

    def schema(self) -> JsonObject:
        """Return the JSON schema."""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """The format of files whose keys, ``format`` and ``version`` among them, are a table's.

    Parameters
    ----------
    format_name
        What such a file has as its ``format`` key.
    version
        Of the format.
    table
        A class made by `lyra_opt.core.fields.declared`.
    """

    format_name: str
    version: int
    table: type[Any]

    def keys(self) -> Iterator[Described]:
        """See `FileFormat`."""
        yield from described(self.table)

    def schema(self) -> JsonObject:
        """See `FileFormat`."""
        description = (self.table.__doc__ or "").partition("\n")[0]
        return format_schema(self.format_name, self.version, description, schema_of(self.table))


@dataclass(frozen=True, slots=True)
class _OfProblem:
    """The format of the instances, or of the solutions, of a problem."""

    format_name: str
    problem: Problem

    def keys(self) -> Iterator[Described]:
        """See `FileFormat`."""
        return self.problem.keys(self.format_name)

    def schema(self) -> JsonObject:
        """See `FileFormat`."""
        return self.problem.schemas()[self.format_name]


FORMATS = Plugins("lyra_opt.formats", "format", needs=("format_name", "keys", "schema"))
"""Those that belong to no problem."""


def formats() -> dict[str, FileFormat]:
    """Return every format by what its files have as their ``format`` key: of problems, then others.

    Raises
    ------
    UserError
        If one that somebody registered cannot be loaded.
    """
    of_problems = [
        _OfProblem(name, problem) for problem in problems().values() for name in problem.formats
    ]
    return {each.format_name: each for each in (*of_problems, *FORMATS.all().values())}


_TABLE = re.compile(r"(<!-- keys of (\S+) -->\n).*?(<!-- end of keys -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """Return a page with its tables of keys as they are declared now; KeyError without a format."""

    def table(found: re.Match[str]) -> str:
        return f"{found[1]}\n{markdown_table(known[found[2]].keys())}\n\n{found[3]}"

    known = formats()
    return _TABLE.sub(table, page)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
