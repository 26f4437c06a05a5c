"""Brute force for any problem: the solver class, ways to take GPUs, and a dynamic programme."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lyra_opt.core.problem import Problem
from lyra_opt.core.result import Limits, Number, SolveResult, StoppedBy
from lyra_opt.core.solver import Observer, Solver, Unsupported
from lyra_opt.core.stopwatch import OutOfTimeError, grace, require_time
from lyra_opt.formulations.exact_solver import (
    Incumbent,
    result_of,
    start_with_objective,
    with_objective,
)

LONGEST_NUMBER = 10**15
STATES_BETWEEN_TIME_CHECKS = 100


class BruteForceSolver(Solver):
    """Base class of brute-force solvers, which enumerate all solutions and keep the best.

    If the time limit ends the search, the solver returns the best solution it knows, which may be
    the warm start, and a bound that needs no search. It ignores all other limits.
    """

    name = engine = "brute-force"
    of: ClassVar[Problem]
    """The problem that the solver answers."""
    gives_bound = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.problem, cls.exact_variants = cls.of.name, cls.variants

    @abstractmethod
    def supports(self, instance: Any) -> Unsupported | None:
        """Return why brute force refuses the instance; None if it can solve the instance."""

    @abstractmethod
    def improvements(self, instance: Any) -> Iterator[Any]:
        """Yield ever better solutions, the last one optimal; nothing if the instance is infeasible.

        Raises
        ------
        OutOfTimeError
            When the time limit is reached.
        """

    @abstractmethod
    def simple_bound(self, instance: Any) -> Number:
        """Return a bound on the objective that needs no search."""

    def without_search(self, instance: Any) -> Any:  # noqa: ARG002
        """Return a fallback solution for a search that ran out of time; None without a fallback."""
        return None

    def solve(
        self,
        instance: Any,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        warm_start: Any = None,
        observer: Observer | None = None,
    ) -> SolveResult[Any]:
        """Enumerate all solutions of `instance` and return the best.

        Raises
        ------
        ValueError
            If the warm start is not a valid solution.
        """
        start = None if warm_start is None else start_with_objective(self.of, instance, warm_start)
        best: Incumbent[Any] | None = None
        bound: Number | None = None
        stopped_by = None

        def offer(found: Incumbent[Any] | None) -> None:
            nonlocal best
            if found is not None and (
                best is None or instance.variant.is_better(found[1], best[1])
            ):
                best = found
                if observer is not None:
                    observer("objective", found[1], found[0])

        try:
            for solution in self.improvements(instance):
                offer(with_objective(self.of, instance, solution))
        except OutOfTimeError:
            stopped_by = StoppedBy.TIME
            offer(start)
            if best is None and (nothing := self.without_search(instance)) is not None:
                offer(with_objective(self.of, instance, nothing))
            with grace(), suppress(OutOfTimeError):
                bound = self.simple_bound(instance)
        else:
            bound = math.inf if best is None else best[1]
        return result_of(instance, best, bound, stopped_by=stopped_by, observer=observer)


def too_many(choices: int, most: int, said: str) -> Unsupported | None:
    """Return why brute force refuses `choices` choices; None if they are at most `most`.

    In `said`, ``{}`` stands for the number of choices; a long number is given as a power of ten.
    """
    if choices <= most:
        return None
    number = str(choices) if choices < LONGEST_NUMBER else f"10^{math.log10(choices):.0f}"
    return Unsupported(f"{said.format(number)}; brute force tries at most {most}")


def ways_to_take(free: Sequence[int], gang: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to take `gang` GPUs from servers with `free` GPUs, in lexicographic order."""
    if not free:
        if not gang:
            yield ()
        return
    for count in range(min(free[0], gang) + 1):
        for rest in ways_to_take(free[1:], gang - count):
            yield (count, *rest)


def count_ways_to_take(free: Iterable[int], gang: int) -> int:
    """Return the number of ways to take `gang` GPUs from `free`; complexity O(servers * gang)."""
    ways = [1] + [0] * gang
    for there in free:
        sums = [0, *accumulate(ways)]
        ways = [sums[n + 1] - sums[max(0, n - there)] for n in range(gang + 1)]
    return ways[gang]


class Reached(NamedTuple):
    """The best path found to a state of a dynamic programme: value, previous state, last choice."""

    value: Fraction
    before: Any
    choice: Any


def best_ways(
    start: Any, stages: Iterable[Callable[[Any], Iterable[tuple[Any, Fraction, Any]]]]
) -> list[dict[Any, Reached]]:
    """Return, for each stage of a dynamic programme, its reachable states and best paths to them.

    The first layer holds the start and the last layer the states after all stages. Of equally good
    ways the first one found is kept. Complexity O(states * choices) per stage.

    Parameters
    ----------
    start
        The only state before the first stage.
    stages
        Functions that yield, for a state, triples of the next state, the added value and the
        choice.

    Raises
    ------
    OutOfTimeError
        When the time limit is reached.
    """
    layers = [{start: Reached(Fraction(0), None, None)}]
    for follow in stages:
        require_time()
        layer: dict[Any, Reached] = {}
        for tried, (state, reached) in enumerate(layers[-1].items()):
            if tried % STATES_BETWEEN_TIME_CHECKS == 0:
                require_time()
            for after, added, choice in follow(state):
                value = reached.value + added
                if after not in layer or value > layer[after].value:
                    layer[after] = Reached(value, state, choice)
        layers.append(layer)
    return layers


def choices_to(layers: Sequence[dict[Any, Reached]], state: Any) -> list[Any]:
    """Return the choices, first stage first, on the best path to a state of the last stage."""
    chosen = []
    for layer in reversed(layers[1:]):
        chosen.append(layer[state].choice)
        state = layer[state].before
    return chosen[::-1]
