"""The file formats of the library: catalogues of instances, and records of their best results.

A catalogue lists the instances that an edition of the library adds, with their sources and the
reasons to include them. It is frozen: a later edition is another catalogue, which adds instances
and changes none.

A record has the best known solutions and bounds as of a date, and their proofs. The latest record
of an instance counts. Grades are measured by one rule:

easy
    At least two exact methods with different engines were run, and each of them proved the optimum
    within `EASY_LIMIT_S` of processor time on the record's machine, from the instance alone.
hard
    The optimum is proved, but the instance is not easy.
open
    The optimum is not proved: best value and best bound differ.

If no solution exists, the proof of this counts as the proof of an optimum.
"""

from enum import StrEnum
from typing import ClassVar

from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import OneOfTables, Table, declared, key
from lyra_opt.core.formats import TableFormat
from lyra_opt.core.result import Number
from lyra_opt.core.rules import ANY_NUMBER, Choice, Integer, Line, ListOf, Name, Named, OrNull, Text
from lyra_opt.core.rules import Number as NumberRule
from lyra_opt.instances.parameters import PARAMETER

CATALOGUE_FORMAT, CATALOGUE_VERSION = "lyra-opt/library", 1


@declared()
class FromFamily:
    """An instance of a family, determined by parameters and seed on any machine."""

    kind: ClassVar[str] = "family"

    family: str = key(Name(), "name of the family")
    version: int = key(Integer(1), "version of the family")
    seed: int = key(
        Integer(), "seed of the instance; it has no effect on families without random draws"
    )
    parameters: dict[str, str | int] = key(Named(PARAMETER), "parameters of the family, by name")

    def in_words(self) -> str:
        """Return family, version, parameters and seed as a phrase."""
        given = "".join(f", {name} {value}" for name, value in self.parameters.items())
        return f"family {self.family}, version {self.version}{given}, seed {self.seed}"


@declared()
class FromTrace:
    """A decision of a simulated cluster in the replay of a real trace."""

    kind: ClassVar[str] = "trace"

    trace: str = key(Line(), "file of the trace, and its publisher")
    licence: str = key(Line(), "licence of the trace")
    window: str = key(Line(), "part of the trace that is replayed")
    scheme: str = key(Line(), "scheme of the simulated cluster")
    made_by: str = key(Line(), "command that writes the decision again")
    decision: str = key(Line(), "file of the decision among those that the command writes")

    def in_words(self) -> str:
        """Return trace, licence, window and scheme as a phrase."""
        return f"trace {self.trace} ({self.licence}), {self.window}, scheme {self.scheme}"


@declared()
class FromSearch:
    """The smallest instance found on which a heuristic is worse than another method."""

    kind: ClassVar[str] = "search"

    made_by: str = key(Line(), "command that finds it again")

    def in_words(self) -> str:
        """Return the command that found the instance as a phrase."""
        return f"found by {self.made_by}"


@declared()
class FromText:
    """An instance that a person wrote down, such as the example of a paper."""

    kind: ClassVar[str] = "text"

    source: str = key(Line(), "author, and place of publication")

    def in_words(self) -> str:
        """Return the source of the instance."""
        return self.source


Provenance = FromFamily | FromTrace | FromSearch | FromText


@declared()
class Entry:
    """The entry of an instance in a catalogue."""

    id: str = key(Name(), "name of the instance, which never changes")
    problem: str = key(Text(), "problem of the instance")
    variant: str = key(Text(), "semantics or objective of the instance")
    size: int = key(Integer(), "number of servers, jobs or other items, depending on the problem")
    page: str = key(Name(), "page of the documentation that describes this kind of instance")
    file: str | None = key(
        OrNull(Line(), "generated on demand from family and seed"), "file in the package", None
    )
    sha256: str = key(Text(), "hash of the content, which does not depend on the file's layout")
    features: str = key(Line(), "what makes the instance hard or instructive")
    provenance: Provenance = key(
        OneOfTables((FromFamily, FromTrace, FromSearch, FromText)), "source of the instance"
    )

    def __post_init__(self) -> None:
        if self.file is None and not isinstance(self.provenance, FromFamily):
            raise FieldError("file", None, "must be set for an instance that no family generates")


@declared()
class Catalogue:
    """The frozen list of the instances that one edition of the library adds."""

    format: str = key(Text((CATALOGUE_FORMAT,)), "format of the file")
    version: int = key(Integer(CATALOGUE_VERSION, CATALOGUE_VERSION), "version of the format")
    name: str = key(Name(), "name of this edition of the library")
    licence: str = key(Line(), "licence of the instances, unless their provenance names another")
    instances: tuple[Entry, ...] = key(ListOf(Table(Entry), unique="id"), "instances")


CATALOGUES = TableFormat(CATALOGUE_FORMAT, CATALOGUE_VERSION, Catalogue)


RECORD_FORMAT, RECORD_VERSION = "lyra-opt/library-record", 1

EASY_LIMIT_S = 1.0


class Grade(StrEnum):
    """The difficulty of an instance: easy, hard or open, as the module's docstring defines."""

    EASY = "easy"
    HARD = "hard"
    OPEN = "open"


class Proof(StrEnum):
    """The kind of proof that no solution is better than the best known one."""

    CERTIFICATE = "certificate"
    """A file that the stand-alone checker accepts."""
    TWO_METHODS = "two methods"
    """At least two methods with different engines proved it; the record names them."""
    ONE_METHOD = "one method"
    NONE = "none"


@declared()
class MethodRun:
    """One run of an exact method for grading, without help from other methods."""

    method: str = key(Line(), "solver")
    engine: str = key(Line(), "engine that computes the bounds of the solver")
    status: str = key(Line(), "what the run proved")
    objective: Number | None = key(OrNull(ANY_NUMBER), "objective of the solution", None)
    dual_bound: Number | None = key(OrNull(ANY_NUMBER), "proved bound", None)
    time_limit_s: float = key(NumberRule(above=True), "limit of the run in wall-clock time")
    time_s: float = key(NumberRule(), "processor time, without loading of packages")


@declared()
class BestKnown:
    """The best known solution and bound of an instance, with its grade and proof."""

    id: str = key(Name(), "id of the instance")
    grade: Grade = key(Choice(Grade), "difficulty")
    best_known: Number | None = key(
        OrNull(ANY_NUMBER, "an infeasible instance"), "objective of the best known solution"
    )
    found_by: str = key(
        Line(), "author of the best known solution, or of the proof that none exists"
    )
    found_with: str = key(
        Line(), "method that found the best known solution, or proved that none exists"
    )
    best_bound: Number | None = key(OrNull(ANY_NUMBER), "best proved bound", None)
    bound_by: str | None = key(OrNull(Line()), "author of the best bound", None)
    bound_with: str | None = key(OrNull(Line()), "method that proved the best bound", None)
    proof: Proof = key(Choice(Proof), "kind of proof that the best known solution is optimal")
    proved_with: tuple[str, ...] = key(
        ListOf(Line(), least=0), "methods that proved the optimum, with different engines", ()
    )
    proof_file: str | None = key(OrNull(Line()), "file of the certificate", None)
    runs: tuple[MethodRun, ...] = key(
        ListOf(Table(MethodRun), least=0), "runs of exact methods for the grade", ()
    )

    @property
    def status(self) -> str:
        """The status of the instance: ``optimal``, ``infeasible``, or ``open`` without a proof."""
        if self.proof is Proof.NONE:
            return "open"
        return "infeasible" if self.best_known is None else "optimal"


@declared()
class Record:
    """The best known results for instances of an edition of the library, as of a date."""

    format: str = key(Text((RECORD_FORMAT,)), "format of the file")
    version: int = key(Integer(RECORD_VERSION, RECORD_VERSION), "version of the format")
    library: str = key(Name(), "newest edition of the library on that date")
    date: str = key(Line(), "date of the record, such as 2026-11-23")
    machine: str = key(Line(), "machine on which times were measured")
    versions: str = key(Line(), "versions of the packages")
    instances: tuple[BestKnown, ...] = key(ListOf(Table(BestKnown), unique="id"), "results")


RECORDS = TableFormat(RECORD_FORMAT, RECORD_VERSION, Record)
