"""The files of the library: the catalogue of a version, and what is known of its instances.

A catalogue says which instances there are, where from, and why these. It is frozen: later versions
are further catalogues, which add instances and change none.

A record says what was known on a day: the best solutions and bounds, and what proves them. Of each
instance the latest record that has it counts. Grades are measured, by one rule:

easy
    At least two exact methods that rest on different engines were asked, and each of those asked
    proved the optimum within `EASY_LIMIT_S` of one processor of the machine of the record, from the
    instance alone.
hard
    It is proved, and not easy.
open
    It is not proved: best value and best bound differ.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import OneOfTables, Table, declared, key
from lyra_opt.core.formats import TableFormat
from lyra_opt.core.rules import ANY_NUMBER, Choice, Integer, Line, ListOf, Name, Named, OrNull, Text
from lyra_opt.core.rules import Number as NumberRule
from lyra_opt.instances.parameters import PARAMETER

if TYPE_CHECKING:
    from lyra_opt.core.result import Number

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


CATALOGUES = TableFormat(CATALOGUE_FORMAT, CATALOGUE_VERSION, Catalogue)


RECORD_FORMAT, RECORD_VERSION = "lyra-opt/library-record", 1

EASY_LIMIT_S = 1.0


class Grade(StrEnum):
    """How hard an instance is; see the module."""

    EASY = "easy"
    HARD = "hard"
    OPEN = "open"


class Proof(StrEnum):
    """What shows that no solution is better than the best known."""

    CERTIFICATE = "certificate"
    """A file that the stand-alone checker accepts."""
    TWO_METHODS = "two methods"
    """Methods whose bounds rest on different engines say so; they are named."""
    ONE_METHOD = "one method"
    NONE = "none"


@declared()
class MethodRun:
    """What one exact method did, alone and from the instance alone, when it was graded."""

    method: str = key(Line(), "solver")
    engine: str = key(Line(), "that its bounds rest on")
    status: str = key(Line(), "what the run proved")
    objective: Number | None = key(OrNull(ANY_NUMBER), "of its solution", None)
    dual_bound: Number | None = key(OrNull(ANY_NUMBER), "that it proved", None)
    time_limit_s: float = key(NumberRule(above=True), "of the run, by the clock")
    time_s: float = key(NumberRule(), "of one processor, without loading of packages")


@declared()
class BestKnown:
    """What is known of an instance."""

    id: str = key(Name(), "of the instance")
    grade: Grade = key(Choice(Grade), "how hard it is")
    best_known: Number = key(ANY_NUMBER, "objective of the best solution, which comes along")
    found_by: str = key(Line(), "who found that solution")
    found_with: str = key(Line(), "by which method")
    best_bound: Number | None = key(OrNull(ANY_NUMBER), "that nothing is better than", None)
    bound_by: str | None = key(OrNull(Line()), "who proved that bound", None)
    bound_with: str | None = key(OrNull(Line()), "by which method", None)
    proof: Proof = key(Choice(Proof), "what shows that the best known is an optimum")
    proved_with: tuple[str, ...] = key(
        ListOf(Line(), least=0), "methods that prove it, of different engines", ()
    )
    proof_file: str | None = key(OrNull(Line()), "of a certificate", None)
    runs: tuple[MethodRun, ...] = key(
        ListOf(Table(MethodRun), least=0), "of the methods asked when it was graded", ()
    )

    @property
    def status(self) -> str:
        """``optimal`` or ``open``."""
        return "open" if self.proof is Proof.NONE else "optimal"


@declared()
class Record:
    """What is known of instances of a catalogue, on a day."""

    format: str = key(Text((RECORD_FORMAT,)), "of the file")
    version: int = key(Integer(RECORD_VERSION, RECORD_VERSION), "of the format")
    library: str = key(Name(), "catalogue whose instances these are")
    date: str = key(Line(), "day from which it counts, as 2026-11-23")
    machine: str = key(Line(), "on which the times were taken")
    versions: str = key(Line(), "of the packages with which they were")
    instances: tuple[BestKnown, ...] = key(ListOf(Table(BestKnown), unique="id"), "in order")


RECORDS = TableFormat(RECORD_FORMAT, RECORD_VERSION, Record)
