"""The catalogue of a version of the library: which instances, where from, and why these.

A catalogue is frozen: later versions are further catalogues, which add instances and change none.
What is known of the instances changes, and is kept apart: `lyra_opt.instances.library.records`.
"""

from __future__ import annotations

from typing import ClassVar

from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import OneOfTables, Table, declared, key
from lyra_opt.core.formats import TableFormat
from lyra_opt.core.rules import Integer, Line, ListOf, Name, Named, OrNull, Text
from lyra_opt.instances.parameters import PARAMETER

CATALOGUE_FORMAT, CATALOGUE_VERSION = "lyra-opt/library", 1


@declared()
class FromFamily:
    """A family's instance: the same parameters and seed give the same one on any machine."""

    kind: ClassVar[str] = "family"

    family: str = key(Name(), "its name")
    version: int = key(Integer(1), "of the family")
    seed: int = key(Integer(), "that it is drawn from; without effect where a family draws nothing")
    parameters: dict[str, str | int] = key(Named(PARAMETER), "that it is given")

    def in_words(self) -> str:
        """Return it on a line."""
        given = "".join(f", {name} {value}" for name, value in self.parameters.items())
        return f"family {self.family}, version {self.version}{given}, seed {self.seed}"


@declared()
class FromTrace:
    """A decision that a simulated cluster met in the replay of a real trace."""

    kind: ClassVar[str] = "trace"

    trace: str = key(Line(), "file of the trace, and where it is published")
    licence: str = key(Line(), "of the trace")
    window: str = key(Line(), "part of the trace that is replayed")
    scheme: str = key(Line(), "that ran the cluster")
    made_by: str = key(Line(), "command that writes the decision again")
    decision: str = key(Line(), "file among those that the command writes")

    def in_words(self) -> str:
        """Return it on a line."""
        return f"trace {self.trace} ({self.licence}), {self.window}, scheme {self.scheme}"


@declared()
class FromSearch:
    """The smallest instance found on which a heuristic is worse than something else."""

    kind: ClassVar[str] = "search"

    made_by: str = key(Line(), "command that finds it again")

    def in_words(self) -> str:
        """Return it on a line."""
        return f"found by {self.made_by}"


@declared()
class FromText:
    """An instance that somebody wrote down."""

    kind: ClassVar[str] = "text"

    source: str = key(Line(), "who, and where")

    def in_words(self) -> str:
        """Return it on a line."""
        return self.source


Provenance = FromFamily | FromTrace | FromSearch | FromText


@declared()
class Entry:
    """An instance of the library."""

    id: str = key(Name(), "its name, which never changes")
    problem: str = key(Text(), "that it is an instance of")
    variant: str = key(Text(), "what it asks for: semantics or objective")
    size: int = key(Integer(), "servers, jobs, or what else the problem counts")
    page: str = key(Name(), "page of the documentation that describes its kind")
    file: str | None = key(
        OrNull(Line(), "made on demand from its family and seed"), "that comes along", None
    )
    sha256: str = key(Text(), "of its content, whatever the layout of a file")
    features: str = key(Line(), "what makes it hard, or telling")
    provenance: Provenance = key(
        OneOfTables((FromFamily, FromTrace, FromSearch, FromText)), "where it is from"
    )

    def __post_init__(self) -> None:
        if self.file is None and not isinstance(self.provenance, FromFamily):
            raise FieldError("file", None, "must be there where no family makes the instance")


@declared()
class Catalogue:
    """A version of the library."""

    format: str = key(Text((CATALOGUE_FORMAT,)), "of the file")
    version: int = key(Integer(CATALOGUE_VERSION, CATALOGUE_VERSION), "of the format")
    name: str = key(Name(), "of this version of the library")
    licence: str = key(Line(), "of the instances, but for what their provenance says")
    instances: tuple[Entry, ...] = key(ListOf(Table(Entry), unique="id"), "of this version")


FORMAT = TableFormat(CATALOGUE_FORMAT, CATALOGUE_VERSION, Catalogue)
