"""Search for the smallest instance on which a heuristic is worse than another solver.

The search knows nothing of any problem: what its instances look like, and which of two is the
smaller, says an `InstanceSpace`. It takes size by size, the smallest first. Of each size it tries
every *plain* instance, if they are few, then instances drawn at random and variations of the worst
ones so far. What it finds is reduced step by step while it stays a counterexample. No value is
taken from a solver unchecked, and the optimum beside them is proved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from lyra_opt.core.errors import FieldError
from lyra_opt.core.result import Status, StoppedBy, same_value
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import Answer, refute_bounds, solve_and_check
from lyra_opt.core.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np

    from lyra_opt.core.problem import Problem
    from lyra_opt.core.result import Number
    from lyra_opt.core.solver import Solver

OPTIMUM = "optimum"
"""What a heuristic is held against where no solver is named."""

MOST_PLAIN = 2_500
"""Up to how many plain instances of one size are all tried."""

DRAWS = 400
"""Instances of one size drawn at random."""

MOST_REDUCED = 5
"""Counterexamples of one size that are reduced; the smallest outcome is kept."""

MOST_PARENTS = 8
"""Worst instances so far, the smaller first, that are varied to reach the ratio asked for."""

DRAWS_AFRESH = 4
"""One draw in so many is no variation of another."""

CLEAR_DIFFERENCE = 1e-6
"""By more than how much, relative, a float must be worse. Within this gap an optimum in floats
counts as proved, and checkers forgive less; integers are compared exactly."""

CLIMB = 50
"""After so many draws the variations start again from one of the worst instances."""

Size = tuple[int, ...]
SketchT = TypeVar("SketchT")


class InstanceSpace(Protocol[SketchT]):
    """The small instances of one variant of a problem, as sketches that are cheap to change.

    A sketch is hashable and immutable. `lyra_opt.reclaim.counterexamples` and
    `lyra_opt.allocation.counterexamples` are examples.
    """

    @property
    def problem(self) -> Problem:
        """The problem."""

    @property
    def variant(self) -> str:
        """Which variant of it all instances are."""

    @property
    def prover(self) -> str:
        """The name of the solver of that variant whose proof is believed."""

    @property
    def size_names(self) -> Sequence[str]:
        """What a size counts: the names of the first `measures`."""

    @property
    def plain(self) -> str:
        """Which instances are plain, in words."""

    @property
    def extent(self) -> str:
        """How large the instances are at most, in words that follow "up to"."""

    def sizes(self) -> Iterable[Size]:
        """Return every size, ascending; a size is the first of an instance's `measures`."""

    def count_plain(self, size: Size) -> int:
        """Return how many plain instances of `size` there are, without listing them."""

    def plain_of(self, size: Size) -> Iterable[SketchT]:
        """Return all plain instances of `size`, the smallest first."""

    def draw(self, size: Size, rng: np.random.Generator) -> SketchT:
        """Return an instance of `size` at random."""

    def vary(self, sketch: SketchT, size: Size, rng: np.random.Generator) -> SketchT:
        """Return an instance of `size` that resembles `sketch`, which may have another size."""

    def reductions(self, sketch: SketchT) -> Iterator[SketchT]:
        """Yield instances that are a step smaller, those that are smallest first."""

    def measures(self, sketch: SketchT) -> Mapping[str, int]:
        """Return what is counted, by name; an instance is smaller if the first that differs is."""

    def instance(self, sketch: SketchT, name: str) -> Any:
        """Return the instance, validated, with `name`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """An instance and three checked answers to it.

    Parameters
    ----------
    instance
        As it comes back from its own file format.
    heuristic
        The answer of the heuristic, which is worse.
    against
        The answer that it was held against.
    optimum
        The answer of the exact solver, proved; the same as `against` where that is the optimum.
    measures
        What is counted of the instance, most important first.
    """

    instance: Any
    heuristic: Answer
    against: Answer
    optimum: Answer
    measures: Mapping[str, int]

    @property
    def ratio(self) -> float:
        """How many times as bad the heuristic is; infinite if the smaller value alone is 0."""
        return float(_ratio(self.heuristic, self.against))


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterexampleSearch:
    """What a search found, and how far it looked.

    Parameters
    ----------
    counterexample
        The smallest found, None if none was.
    no_plain_of_smaller_size
        Proved: no plain instance of a smaller size is a counterexample (if none was found: no
        plain one at all), because all were tried.
    tried
        How many instances were tried, reductions included.
    tried_plain
        How many of them are plain and were tried because all were.
    skipped
        How many were not compared because a solver did not take them or found no solution, or
        the optimum was not proved.
    skip_reason
        Why, for the first of them.
    stopped_by
        The limit that ended the search, None if it came to its end.
    wall_time_s
        Seconds that the search took.
    """

    counterexample: Counterexample | None
    no_plain_of_smaller_size: bool
    tried: int
    tried_plain: int
    skipped: int
    skip_reason: str | None
    stopped_by: StoppedBy | None
    wall_time_s: float


class SolverFailedError(Exception):
    """A solver failed on an instance of the search, or claimed what the checker refutes.

    `traceback` says where it raised an exception, if it did.
    """

    def __init__(self, message: str, traceback: str | None = None) -> None:
        super().__init__(message)
        self.traceback = traceback


def find_counterexample(
    space: InstanceSpace[SketchT],
    heuristic: Solver,
    against: Solver | None = None,
    *,
    min_ratio: float | Fraction = 1,
    seed: int = 0,
    time_limit_s: float | None = None,
    progress: Callable[[Size], None] | None = None,
) -> CounterexampleSearch:
    """Find the smallest instance on which `heuristic` is worse than `against`.

    Parameters
    ----------
    space
        The instances to look among, such as `lyra_opt.reclaim.counterexamples.ReclaimSpace` or
        `lyra_opt.allocation.counterexamples.AllocationSpace`.
    heuristic
        A solver that does not prove optimality; it need not be registered.
    against
        Another solver; None is the optimum.
    min_ratio
        The objective of `heuristic` must be at least this many times the other (for a maximised
        objective the other way round), floats within 1e-9 relative, and worse in any case:
        integers by any difference, floats by more than `CLEAR_DIFFERENCE`, relative. Where the
        smaller value is 0 the ratio is infinite.
    seed
        Seed of the search and of both solvers: the same seed gives the same answer, unless the
        time limit ends the search.
    time_limit_s
        Seconds for the search; None is no limit. No run of a solver is cut short.
    progress
        Called with each size before it is searched.

    Returns
    -------
    CounterexampleSearch
        Every value in it was recomputed by the problem's checker from the instance as read
        back from its file format, and the optimum is proved by the solver `space.prover`.

    Raises
    ------
    FieldError
        If the solvers cannot be compared on these instances, or `min_ratio` is no finite number
        of at least 1.
    SolverFailedError
        If a solver fails, claims what is refuted, or answers differently when run again.

    Notes
    -----
    A solver that proves optimality is asked for its own answer once, at the end; until then the
    exact solver stands for it. An instance whose optimum that one does not prove is not compared.

    An optimum in floats is proved up to a relative gap, so that the ratio to the true one may be
    larger than the ratio found by as much, never smaller but for what the checker forgives.

    Examples
    --------
    >>> from lyra_opt.reclaim.counterexamples import ReclaimSpace
    >>> greedy = find_solver("reclaim", "lyra-greedy")
    >>> found = find_counterexample(ReclaimSpace(), greedy, min_ratio=2).counterexample
    >>> found.heuristic.objective, found.optimum.objective
    (2, 1)
    """
    ratio = _valid_ratio(min_ratio)
    require_comparable(space.problem, space.variant, heuristic, against)
    search = _Search(space, heuristic, against, ratio, seed, time_limit_s)
    return search.run(progress or (lambda _: None))


def require_comparable(
    problem: Problem, variant: str, heuristic: Solver, against: Solver | None
) -> None:
    """Raise `FieldError` unless `heuristic` can be worse than `against` on that variant."""
    if heuristic.proves_optimality:
        raise FieldError(
            "heuristic", heuristic.name, "proves optimality, so nothing is better; name a heuristic"
        )
    if against is not None and against.name == heuristic.name:
        raise FieldError("against", against.name, "must be another solver than the heuristic")
    named = [("heuristic", heuristic)] + ([("against", against)] if against is not None else [])
    for field_name, solver in named:
        if solver.problem != problem.name:
            raise FieldError(field_name, solver.name, f"must be a solver of {problem.name}")
        missing = solver.availability()
        if missing is not None:
            raise FieldError(field_name, solver.name, f"cannot run here: {missing.reason}")
        if variant not in solver.variants:
            takes = " and ".join(solver.variants)
            raise FieldError(
                field_name, solver.name, f"takes {takes} instances, not {variant} ones"
            )


def _valid_ratio(value: float | Fraction) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise FieldError("min_ratio", value, "must be a finite number of at least 1")
    if not math.isfinite(value) or value < 1:
        raise FieldError("min_ratio", value, "must be a finite number of at least 1")
    return Fraction(value)


def _value(answer: Answer) -> Number:
    assert answer.objective is not None, "an answer that was compared has a solution"
    return answer.objective


def _ratio(heuristic: Answer, against: Answer) -> Fraction | float:
    """Return how many times as bad `heuristic` is, exactly; 1 if it is not clearly worse."""
    smaller, larger = _value(against), _value(heuristic)
    if heuristic.sense == "max":
        smaller, larger = larger, smaller
    if not _is_clearly_below(smaller, larger):
        return Fraction(1)
    return Fraction(larger) / Fraction(smaller) if smaller > 0 else math.inf


def _same_ratio(first: Fraction | float, second: Fraction | float, answer: Answer) -> bool:
    """Whether two ratios are one: exactly if the objective of `answer` is exact, else nearly."""
    if first == second or isinstance(answer.objective, int):
        return first == second
    return math.inf not in (first, second) and same_value(float(first), float(second))


def _is_clearly_below(smaller: Number, larger: Number) -> bool:
    if isinstance(smaller, int) and isinstance(larger, int):
        return smaller < larger
    return larger - smaller > CLEAR_DIFFERENCE * abs(larger)


class _TimeIsOverError(Exception):
    """Ends the search wherever it is."""


class _Search(Generic[SketchT]):
    """One run of `find_counterexample`."""

    def __init__(
        self,
        space: InstanceSpace[SketchT],
        heuristic: Solver,
        against: Solver | None,
        min_ratio: Fraction,
        seed: int,
        time_limit_s: float | None,
    ) -> None:
        self._space = space
        self._heuristic = heuristic
        self._against = against
        self._prover = find_solver(space.problem.name, space.prover)
        self._min_ratio = min_ratio
        self._seed = seed
        self._time_limit_s = time_limit_s
        self._stopwatch = Stopwatch()
        other = OPTIMUM if against is None else against.name
        # A solver's random choices depend on the instance's name, so it is the same throughout.
        self._name = f"{heuristic.name}-against-{other}"
        self._rng = generator(
            search="counterexample",
            problem=space.problem.name,
            variant=space.variant,
            heuristic=heuristic.name,
            against=other,
            seed=seed,
        )
        self._best: SketchT | None = None
        # The worst instances so far that are no counterexamples, with their ratios.
        self._parents: list[tuple[Fraction | float, SketchT]] = []
        self._ratios: dict[SketchT, Fraction | float] = {}  # tried since the size at hand began
        self._tried = self._tried_plain = self._skipped = 0
        self._skip_reason: str | None = None

    def run(self, progress: Callable[[Size], None]) -> CounterexampleSearch:
        """Search size by size until one holds a counterexample."""
        stopped_by = None
        first_unsure: Size | None = None  # of which plain instances were left out
        size: Size = ()
        try:
            for size in self._space.sizes():
                progress(size)
                self._ratios.clear()
                are_few = self._space.count_plain(size) <= MOST_PLAIN
                if are_few and self._try_plain(size):
                    break
                if not are_few:
                    first_unsure = first_unsure or size
                if self._try_random(size):
                    break
        except _TimeIsOverError:
            stopped_by = StoppedBy.TIME
            first_unsure = first_unsure or size
        return CounterexampleSearch(
            counterexample=None if self._best is None else self._proved(self._best),
            no_plain_of_smaller_size=not self._skipped
            and (first_unsure is None or self._is_no_larger_than(first_unsure)),
            tried=self._tried,
            tried_plain=self._tried_plain,
            skipped=self._skipped,
            skip_reason=self._skip_reason,
            stopped_by=stopped_by,
            wall_time_s=self._stopwatch.elapsed_s,
        )

    def _try_plain(self, size: Size) -> bool:
        """Try all plain instances up to the first counterexample; return whether there is one."""
        for sketch in self._space.plain_of(size):
            self._tried_plain += 1
            if self._is_counterexample(sketch):
                self._reduce(sketch)
                return True
        return False

    def _try_random(self, size: Size) -> bool:
        """Try instances at random, and reduce the first few counterexamples among them.

        Some are drawn afresh. The others climb from the worst instances so far: a variation that
        is not better for the heuristic is varied next.
        """
        reduced = 0
        climber: SketchT | None = None
        height: Fraction | float = 1
        for number in range(DRAWS):
            if number % CLIMB == 0 and self._parents:
                height, climber = self._parents[int(self._rng.integers(len(self._parents)))]
            if climber is None or number % DRAWS_AFRESH == 0:
                sketch = self._space.draw(size, self._rng)
            else:
                sketch = self._space.vary(climber, size, self._rng)
            if sketch not in self._ratios and self._is_counterexample(sketch):
                self._reduce(sketch)
                reduced += 1
                if reduced == MOST_REDUCED:
                    break
            elif climber is not None and self._ratios[sketch] >= height:
                height, climber = self._ratios[sketch], sketch
        return reduced > 0

    def _reduce(self, sketch: SketchT) -> None:
        """Take the first reduction that is a counterexample still, until none is."""
        self._keep_if_smaller(sketch)
        while True:
            order = self._order(sketch)
            for smaller in self._space.reductions(sketch):
                if self._order(smaller) < order and self._is_counterexample(smaller):
                    sketch = smaller
                    self._keep_if_smaller(sketch)
                    break
            else:
                return

    def _keep_if_smaller(self, sketch: SketchT) -> None:
        if self._best is None or self._order(sketch) < self._order(self._best):
            self._best = sketch

    def _is_no_larger_than(self, size: Size) -> bool:
        return self._best is not None and self._order(self._best)[: len(size)] <= size

    def _order(self, sketch: SketchT) -> tuple[int, ...]:
        return tuple(self._space.measures(sketch).values())

    def _is_counterexample(self, sketch: SketchT) -> bool:
        ratio = self._ratios.get(sketch)
        if ratio is None:
            ratio = self._ratios[sketch] = self._tried_ratio(sketch)
        return ratio > 1 and ratio >= self._min_ratio

    def _tried_ratio(self, sketch: SketchT) -> Fraction | float:
        """Run both solvers; return the ratio, 1 where they cannot be compared."""
        if self._time_limit_s is not None and self._stopwatch.elapsed_s > self._time_limit_s:
            raise _TimeIsOverError
        self._tried += 1
        instance = self._space.instance(sketch, self._name)
        better_solver = self._against
        if better_solver is None or better_solver.proves_optimality:
            better_solver = self._prover
        answers = []
        for solver in (self._heuristic, better_solver):
            answer = self._answer(instance, solver)
            is_unproved = solver is self._prover and answer.status is not Status.OPTIMAL
            if answer.objective is None or is_unproved:
                self._skipped += 1
                self._skip_reason = self._skip_reason or _why_not_compared(answer)
                return Fraction(1)
            answers.append(answer)
        ratio = self._ratio(*answers)
        if 1 < ratio < self._min_ratio:
            self._parents.append((ratio, sketch))
            self._parents.sort(key=lambda parent: (-parent[0], self._order(parent[1])))
            del self._parents[MOST_PARENTS:]
        return ratio

    def _ratio(self, heuristic: Answer, against: Answer) -> Fraction | float:
        """Return the ratio; of floats that it was asked for within rounding, just that."""
        ratio = _ratio(heuristic, against)
        return self._min_ratio if _same_ratio(ratio, self._min_ratio, heuristic) else ratio

    def _answer(self, instance: Any, solver: Solver) -> Answer:
        answer = solve_and_check(self._space.problem, instance, solver, seed=self._seed)
        if answer.status is Status.ERROR:
            raise SolverFailedError(
                f"{solver.name} failed in the search: {answer.message}", answer.traceback
            )
        return answer

    def _proved(self, sketch: SketchT) -> Counterexample:
        """Run everything anew on the instance as it comes back from its file format."""
        problem = self._space.problem
        instance = problem.parse_instance(
            problem.instance_document(self._space.instance(sketch, self._name))
        )
        counterexample = prove(
            problem,
            instance,
            self._heuristic,
            self._against,
            self._prover,
            seed=self._seed,
            measures=self._space.measures(sketch),
        )
        heuristic, against = counterexample.heuristic, counterexample.against
        ratio = self._ratio(heuristic, against)
        # Another solution that is optimal too may have its floats added in another order.
        if not _same_ratio(ratio, self._ratios[sketch], heuristic):
            raise SolverFailedError(
                f"{self._heuristic.name} or {against.solver} answers differently "
                "when it is run again, so that nothing is known"
            )
        return counterexample


def prove(
    problem: Problem,
    instance: Any,
    heuristic: Solver,
    against: Solver | None,
    prover: Solver,
    *,
    seed: int = 0,
    measures: Mapping[str, int] | None = None,
) -> Counterexample:
    """Run both solvers and the exact one on `instance`; return their answers, held together.

    Parameters
    ----------
    heuristic, against
        The solvers that are compared; None is the optimum.
    prover
        The solver that proves the optimum.
    seed
        Of all runs.
    measures
        What is counted of the instance.

    Raises
    ------
    SolverFailedError
        If one has no solution, a proof is missing, or their bounds and values contradict one
        another.
    """
    solvers = [heuristic, prover] + ([] if against is None else [against])
    answers = refute_bounds(
        [solve_and_check(problem, instance, solver, seed=seed) for solver in solvers]
    )
    for answer in answers:
        if answer.objective is None:
            raise SolverFailedError(
                f"{answer.solver} failed: {_why_not_compared(answer)}", answer.traceback
            )
    first, optimum, other = answers[0], answers[1], answers[-1]
    if optimum.status is not Status.OPTIMAL:
        raise SolverFailedError(f"{optimum.solver} did not prove the optimum")
    return Counterexample(
        instance=instance,
        heuristic=first,
        against=other,
        optimum=optimum,
        measures=measures or {},
    )


def _why_not_compared(answer: Answer) -> str:
    ending = "a solution" if answer.objective is None else "a proof"
    return f"{answer.solver}: {answer.message or f'ended {answer.status} without {ending}'}"
