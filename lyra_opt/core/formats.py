"""The file formats by name: descriptions of their keys, and their JSON schemas.

Each problem defines the formats of its instances and solutions; `lyra_opt.registry` lists the other
formats.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lyra_opt.core.described import Described, described, markdown_table
from lyra_opt.core.documents import JsonObject
from lyra_opt.core.fields import format_schema, schema_of
from lyra_opt.core.plugins import Plugins
from lyra_opt.core.problem import Problem, problems


class FileFormat(Protocol):
    """A file format: the keys that its files may contain."""

    @property
    def format_name(self) -> str:
        """The value of the key ``format`` in files of this format."""

    def keys(self) -> Iterator[Described]:
        """Yield the description of each key of the format."""

    def schema(self) -> JsonObject:
        """Return the JSON schema of files in this format."""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A file format whose keys, including ``format`` and ``version``, are the fields of a class.

    Parameters
    ----------
    format_name
        The value of the key ``format`` in such files.
    version
        The version of the format.
    table
        A class made by `lyra_opt.core.fields.declared`.
    """

    format_name: str
    version: int
    table: type[Any]

    def keys(self) -> Iterator[Described]:
        """Yield the description of each field of the class."""
        yield from described(self.table)

    def schema(self) -> JsonObject:
        """Return the JSON schema of the class."""
        description = (self.table.__doc__ or "").partition("\n")[0]
        return format_schema(self.format_name, self.version, description, schema_of(self.table))


@dataclass(frozen=True, slots=True)
class _OfProblem:
    """The format of the instances or of the solutions of a problem."""

    format_name: str
    problem: Problem

    def keys(self) -> Iterator[Described]:
        return self.problem.keys(self.format_name)

    def schema(self) -> JsonObject:
        return self.problem.schemas()[self.format_name]


FORMATS = Plugins("lyra_opt.formats", "format", needs=("format_name", "keys", "schema"))
"""The file formats that do not belong to a problem."""


def formats() -> dict[str, FileFormat]:
    """Return all file formats by the value of ``format``; formats of problems come first.

    Raises
    ------
    UserError
        If a format of a plug-in cannot be loaded.
    """
    of_problems = [
        _OfProblem(name, problem) for problem in problems().values() for name in problem.formats
    ]
    return {each.format_name: each for each in (*of_problems, *FORMATS.all().values())}


_TABLE = re.compile(r"(<!-- keys of (\S+) -->\n).*?(<!-- end of keys -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """Return a page with updated tables of keys; raise KeyError if it names an unknown format."""

    def table(found: re.Match[str]) -> str:
        return f"{found[1]}\n{markdown_table(known[found[2]].keys())}\n\n{found[3]}"

    known = formats()
    return _TABLE.sub(table, page)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
