"""Solvers that lie, each in one way, about instances whose optimum is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Solver

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.judging import Truth
    from tests.reference.drawing import Draw

    Lie = Callable[[Draw, Truth, Any, SolveResult[Any]], Any]


@dataclass(frozen=True)
class Liar(Solver):
    """A solver that has an honest one find its solution, and then lies of it."""

    honest: Solver
    lie: Lie
    draw: Draw
    truth: Truth
    name: str = "liar"

    @property
    def problem(self) -> str:  # type: ignore[override]
        """That of the honest one."""
        return self.honest.problem

    @property
    def variants(self) -> Any:  # type: ignore[override]
        """Those of the honest one."""
        return self.honest.variants

    @property
    def exact_variants(self) -> Any:  # type: ignore[override]
        """It says that it is as good as the honest one."""
        return self.honest.exact_variants

    def solve(self, instance: Any, **options: Any) -> Any:
        """Lie."""
        return self.lie(self.draw, self.truth, instance, self.honest.solve(instance, **options))


def _off(draw: Draw, value: Any, direction: int = 0) -> Any:
    """Return a value that is clearly greater (1), less (-1) or either (0)."""
    direction = direction or draw.pick(1, -1)
    step = 1 if isinstance(value, int) else max(1e-3, 0.25 * abs(value))
    return value + direction * step * draw.pick(1, 10, 10**6)


def _objective(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    return replace(told, objective=_off(draw, told.objective))


def _own_bound(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    return replace(told, dual_bound=_off(draw, told.objective, -truth.sign))


def _no_proof(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    return replace(told, status=Status.OPTIMAL, dual_bound=_off(draw, told.objective, truth.sign))


def _no_number(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    nonsense = draw.pick(float("nan"), float("inf"), float("-inf"), "1", True, [1], {}, 1j)
    return replace(told, **{draw.pick("objective", "dual_bound"): nonsense})


def _no_status(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    nonsense = draw.pick("best", 7, None, StoppedBy.TIME, Status, [])
    return SolveResult(status=nonsense) if draw.sometimes(0.5) else replace(told, status=nonsense)


def _no_extras(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    nonsense = {
        "counters": draw.pick({"nodes": "many"}, {1: 2}, {"nodes": float("nan")}, None, []),
        "message": draw.pick(7, ["x"], {}, b"x"),
        "stopped_by": draw.pick("boredom", 3, Status.OPTIMAL),
    }
    name = draw.choice(list(nonsense))
    return replace(told, **{name: nonsense[name]})


def _no_solution(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    nonsense = draw.pick("x", 7, {}, [], (), {"servers": []}, object(), told, instance, Solver)
    return replace(told, solution=nonsense)


def _no_result(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    return draw.pick(None, 3, "optimal", told.solution, [told], (told,), told.status, SolveResult)


def _raised(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    raise draw.pick(
        KeyError("x"), RecursionError(), MemoryError(), SystemExit(0), ValueError("a\nb"), OSError()
    )


def _entries(instance: Any) -> str:
    return "jobs" if hasattr(instance, "jobs") else "gangs"


def _changed_instance(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    held = getattr(instance, _entries(instance)) or instance.servers
    which = draw.choice(held)
    name = "weight" if hasattr(which, "weight") else "id"
    object.__setattr__(which, name, 12_345 if name == "weight" else "other")
    return told


def _cut_down_instance(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    name = _entries(instance)
    object.__setattr__(instance, name, getattr(instance, name)[1:])
    object.__setattr__(instance, "name", "another")
    return told


CAUGHT_ALONE: dict[str, Lie] = {
    "a wrong objective": _objective,
    "a bound beyond its own solution": _own_bound,
    "optimal, with a bound that does not prove it": _no_proof,
    "what is no number": _no_number,
    "what is no status": _no_status,
    "what is no counter, message or limit": _no_extras,
    "what is no solution": _no_solution,
    "what is no result": _no_result,
    "an exception": _raised,
    "a changed instance": _changed_instance,
    "an instance cut down": _cut_down_instance,
}
"""Lies that the checker finds by itself."""


def _infeasible(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    return SolveResult(status=Status.INFEASIBLE)


def _bound_alone(draw: Draw, truth: Truth, instance: Any, told: SolveResult[Any]) -> Any:
    bound = _off(draw, told.objective, -truth.sign)
    stopped_by = draw.pick(None, StoppedBy.TIME)
    return SolveResult(status=Status.UNKNOWN, dual_bound=bound, stopped_by=stopped_by)


CAUGHT_BESIDE: dict[str, Lie] = {
    "that there is no solution": _infeasible,
    "a bound beyond the optimum": _bound_alone,
}
"""Lies that only another solver's solution refutes."""
