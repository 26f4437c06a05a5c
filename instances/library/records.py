"""What is known of the instances, on a day: the best solutions and bounds, and what proves them.

Of each instance the latest record that has it counts. Grades are measured, by one rule:

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
from typing import TYPE_CHECKING

from lyra_opt.core.fields import Table, declared, key
from lyra_opt.core.formats import TableFormat
from lyra_opt.core.rules import ANY_NUMBER, Choice, Integer, Line, ListOf, Name, OrNull, Text
from lyra_opt.core.rules import Number as NumberRule

if TYPE_CHECKING:
    from lyra_opt.core.result import Number

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


FORMAT = TableFormat(RECORD_FORMAT, RECORD_VERSION, Record)
