"""What the rest of the toolkit needs to know about a decision problem, and their registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from lyra_opt.core.errors import FieldError, MissingFieldError
from lyra_opt.core.plugins import Plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from lyra_opt.core.documents import JsonObject
    from lyra_opt.core.result import Number
    from lyra_opt.core.variant import Variant


class CheckReport(Protocol):
    """What a problem's checker found; see `lyra_opt.reclaim.checker` for an example."""

    @property
    def violations(self) -> Sequence[str]:
        """Every rule that the solution breaks, one line each; empty for a valid solution."""

    @property
    def objective(self) -> Number | None:
        """The solution's value, recomputed; None for an invalid solution."""

    def measures(self) -> Mapping[str, Any]:
        """Return what else is reported of a valid solution, by key of ``solve --json``."""


class Problem(Protocol):
    """A decision problem: how to read it, check a solution of it and bound it."""

    @property
    def name(self) -> str:
        """The name the command line knows it by, such as ``reclaim``."""

    @property
    def size_name(self) -> str:
        """What the size of an instance counts, such as ``servers``."""

    @property
    def variants(self) -> type[Variant]:
        """What may be asked of an instance, whose `variant` says what is."""

    @property
    def instance_format(self) -> str:
        """The ``format`` key of its instance files."""

    @property
    def answer_keys(self) -> Sequence[str]:
        """The keys that the problem adds to an object of ``solve --json``, in order."""

    @property
    def measure_keys(self) -> Sequence[str]:
        """Those of `answer_keys` that the checker computes beside the objective."""

    def default_solver_of(self, variant: str) -> str:
        """Return the solver used where none is named."""

    def parse_instance(self, document: JsonObject) -> Any:
        """Return the validated instance; raise `FieldError` where a rule is broken."""

    def instance_document(self, instance: Any) -> JsonObject:
        """Return the instance as the JSON object that `parse_instance` reads."""

    def size(self, instance: Any) -> int:
        """Return how large the instance is, in `size_name`."""

    def parse_solution(self, document: JsonObject) -> tuple[Any, Mapping[str, Any]]:
        """Return the solution and the claims made of it, from a solution file or an answer."""

    def solution_document(self, instance: Any, solution: Any, objective: Number) -> JsonObject:
        """Return the solution as the JSON object that `parse_solution` reads."""

    def answer(self, instance: Any, solution: Any) -> Mapping[str, Any]:
        """Return the solution by key of ``solve --json``."""

    def check(self, instance: Any, solution: Any) -> CheckReport:
        """Recompute feasibility and objective from the instance alone."""

    def dual_bound(self, instance: Any) -> Number:
        """Return a proved dual bound on the optimum, for ``--certify``."""

    def drawing_of(self, variant: str) -> Callable[[Any, Mapping[str, Any]], Figure] | None:
        """Return what draws an instance and its solutions by solver, for ``--plot``, or None."""


PROBLEMS = Plugins("lyra_opt.problems", "problem")
"""All problems by name."""


def problems() -> dict[str, Problem]:
    """Return every registered problem by name, in order of name."""
    return PROBLEMS.all()


def find_problem(name: str) -> Problem:
    """Return the problem called `name`; see `Plugins.find` for errors."""
    problem: Problem = PROBLEMS.find(name)
    return problem


def problem_of_format(document: JsonObject) -> Problem:
    """Return the problem that a document's ``format`` key names.

    Raises
    ------
    FieldError
        If the key is missing or names no known format.
    """
    known = {problem.instance_format: problem for problem in problems().values()}
    if "format" not in document:
        raise MissingFieldError("format")
    given = document["format"]
    if not isinstance(given, str) or given not in known:
        raise FieldError("format", given, f"must be one of: {', '.join(known)}")
    return known[given]
