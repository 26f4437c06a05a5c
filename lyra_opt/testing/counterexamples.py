"""Search for the smallest instance on which a heuristic is worse than another solver.

It goes size by size, the smallest first. Of each size it tries every *plain* instance, where these
are known and few: then nothing plain is smaller, which is a proof. Then `hypothesis.find` draws
instances of that size. What is found is reduced as far as it stays a counterexample, and smaller
ones are drawn again.
No value is taken from a solver unchecked, and the optimum beside them is proved.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import FieldError
from lyra_opt.core.execution import execute
from lyra_opt.core.isolation.workers import Workers
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, Status, StoppedBy, same_value
from lyra_opt.core.seeding import derive_seed
from lyra_opt.core.solver import find_solver, is_built_in
from lyra_opt.core.solving import Answer, refute_claims, solve_and_check
from lyra_opt.core.stopwatch import Stopwatch
from lyra_opt.core.temporary import TemporaryFolder
from lyra_opt.testing.reductions import reductions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lyra_opt.core.result import Number
    from lyra_opt.core.solver import Solver, SolverLike
    from lyra_opt.testing.small_instances import InstanceSpace

OPTIMUM = "optimum"
"""What a heuristic is held against where no solver is named."""

MOST_PLAIN = 2_500
"""Up to how many plain instances of one size are all tried."""

DRAWS_OF_A_SIZE = 100
"""Instances of a size drawn before the next size."""

DRAWS = 200
"""Instances drawn in vain before the smallest so far is called the smallest found."""

CLEAR_DIFFERENCE = 1e-6
"""By more than how much, relative, a float must be worse. Within this gap an optimum in floats
counts as proved, and checkers forgive less; integers are compared exactly."""


LONGEST_RUN_S = 10.0
"""Of a solver that is not the toolkit's, on one of these small instances."""

UNSTEADY = "a solver answers differently when it is run again, so that nothing is known"


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
    """

    instance: Any
    heuristic: Answer
    against: Answer
    optimum: Answer

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
    no_smaller_plain
        Proved: no plain instance that is smaller is a counterexample, because all were tried.
    tried, tried_plain
        How many instances were tried, and how many of them from the list of plain ones.
    skipped, skip_reason
        How many were not compared because a solver did not take them or found no solution, or
        the optimum was not proved; why, for the first of them.
    stopped_by
        The limit that ended the search, None if it came to its end.
    wall_time_s
        Seconds that the search took.
    """

    counterexample: Counterexample | None
    no_smaller_plain: bool
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


class _EndedError(BaseException):
    """Ends the search wherever it is; an `Exception` would be a find to Hypothesis."""


def find_counterexample(
    space: InstanceSpace,
    heuristic: SolverLike,
    against: SolverLike | None = None,
    *,
    min_ratio: float | Fraction = 1,
    seed: int = 0,
    time_limit_s: float | None = None,
    progress: Callable[[Mapping[str, Number]], None] | None = None,
) -> CounterexampleSearch:
    """Find the smallest instance on which `heuristic` is worse than `against`.

    Parameters
    ----------
    space
        The instances to look among.
    heuristic
        A solver that does not prove optimality: an object, a class, a name or
        ``my_file.py:NAME``.
    against
        Another solver; None is the optimum.
    min_ratio
        The objective of `heuristic` must be at least this many times the other (for a maximised
        objective the other way round), floats within 1e-9 relative, and worse in any case:
        integers by any difference, floats by more than `CLEAR_DIFFERENCE`, relative. Where the
        smaller value is 0 the ratio is infinite.
    seed
        Seed of the search and of both solvers: the same seed gives the same answer with the same
        versions of the packages, unless the time limit ends the search.
    time_limit_s
        Seconds for the search; None is no limit. Solvers that are not the toolkit's run in a
        process of their own, with what is left of it, or `LONGEST_RUN_S`, as their limit; no run
        of another is cut short.
    progress
        Called with the measures of each counterexample that is the smallest so far.

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
    >>> from lyra_opt.testing.small_instances import InstanceSpace
    >>> space = InstanceSpace(problem="reclaim", variant="rigid", limits={"jobs": 2})
    >>> found = find_counterexample(space, "lyra-greedy", min_ratio=2).counterexample
    >>> found.heuristic.objective, found.optimum.objective
    (2, 1)
    """
    ratio = _valid_ratio(min_ratio)
    first = find_solver(space.problem, heuristic)
    second = None if against is None else find_solver(space.problem, against)
    require_comparable(space.problem, space.variant, first, second)
    with Workers() as workers:
        search = _Search(space, first, second, ratio, seed, time_limit_s, progress, workers)
        return search.run()


class _Search:
    """One run of `find_counterexample`."""

    def __init__(
        self,
        space: InstanceSpace,
        heuristic: Solver,
        against: Solver | None,
        min_ratio: Fraction,
        seed: int,
        time_limit_s: float | None,
        progress: Callable[[Mapping[str, Number]], None] | None,
        workers: Workers,
    ) -> None:
        self._workers = workers
        self._space = space
        self._problem = find_problem(space.problem)
        self._heuristic = heuristic
        self._against = against
        self._prover = find_solver(space.problem, space.prover)
        self._min_ratio = min_ratio
        self._seed = seed
        self._time_limit_s = time_limit_s
        self._progress = progress
        self._stopwatch = Stopwatch()
        self._random = Random(derive_seed(search="counterexample", seed=seed))  # noqa: S311
        self._best: Any = None
        self._sizes = space.sizes()
        self._unlisted = next(self._sizes, None)
        """The first size of which plain instances were not all tried."""
        self._tried = self._tried_plain = self._skipped = 0
        self._skip_reason: str | None = None

    def run(self) -> CounterexampleSearch:
        """Search size by size until one holds a counterexample, then for a smaller one."""
        stopped_by = None
        try:
            for size in self._space.sizes():
                if self._try_plain(size) or self._draw(size, DRAWS_OF_A_SIZE):
                    break
            while self._best is not None:
                self._reduce()
                if not self._draw(self._space.measures(self._best), DRAWS):
                    break
            # What was drawn may be larger than the size at which it was.
            while (next_size := self._unlisted) is not None and not self._is_smallest_plain():
                self._try_plain(next_size)
                if self._unlisted is next_size:  # there are too many of it
                    break
        except _EndedError as ended:
            if ended.args:
                raise SolverFailedError(*ended.args) from None
            stopped_by = StoppedBy.TIME
        return CounterexampleSearch(
            counterexample=self._best and self._proved(self._best),
            no_smaller_plain=self._is_smallest_plain(),
            tried=self._tried,
            tried_plain=self._tried_plain,
            skipped=self._skipped,
            skip_reason=self._skip_reason,
            stopped_by=stopped_by,
            wall_time_s=self._stopwatch.elapsed_s,
        )

    def _is_smallest_plain(self) -> bool:
        """Whether all plain instances smaller than the best were tried and compared."""
        if self._skipped or self._best is None:
            return False
        order = self._space.order(self._best)
        return self._unlisted is None or order[: len(self._unlisted)] < (*self._unlisted.values(),)

    def _try_plain(self, size: Mapping[str, int]) -> bool:
        """Try the plain instances of a size in ascending order; return if one is found.

        Unless they are too many, or not all of a smaller size were tried.
        """
        if size != self._unlisted:
            return False
        instances = self._space.plain(size, MOST_PLAIN)
        if instances is None:
            return False
        tried = self._tried
        smaller = filter(self._smaller_than(self._best), instances)
        is_found = any(map(self._is_counterexample, smaller))
        self._tried_plain += self._tried - tried
        self._unlisted = next(self._sizes, None)
        return is_found

    def _draw(self, limits: Mapping[str, Number], draws: int) -> bool:
        """Let Hypothesis draw a counterexample smaller than the best; return if there is one."""
        from hypothesis import Phase, find, settings
        from hypothesis.errors import Flaky, NoSuchExample, Unsatisfiable

        is_smaller = self._smaller_than(self._best)

        def is_wanted(instance: Any) -> bool:
            self._end_in_time()
            return is_smaller(instance) and self._is_counterexample(instance)

        # Shrinking is left to `_reduce`, which knows what is small.
        options = settings(
            max_examples=draws,
            database=None,
            deadline=None,
            phases=(Phase.generate,),
        )
        try:
            with _no_files_left():
                strategy = self._space.strategy(limits)
                find(strategy, is_wanted, settings=options, random=self._random)
        except (NoSuchExample, Unsatisfiable):
            return False
        except Flaky:
            raise SolverFailedError(UNSTEADY) from None
        return True

    def _reduce(self) -> None:
        """Take the first reduction of the best that is a counterexample still, until none is."""
        before = None
        while before is not self._best:
            before = self._best
            is_smaller = self._smaller_than(before)
            for document in reductions(self._problem.instance_document(before)):
                try:
                    instance = self._problem.parse_instance(document)
                except FieldError:
                    continue
                is_known = is_smaller(instance) and self._space.holds(instance)
                if is_known and self._is_counterexample(instance):
                    break

    def _smaller_than(self, best: Any) -> Callable[[Any], bool]:
        if best is None:
            return lambda _: True
        order = self._space.order(best)
        return lambda instance: self._space.order(instance) < order

    def _end_in_time(self) -> None:
        if self._time_limit_s is not None and self._stopwatch.elapsed_s > self._time_limit_s:
            raise _EndedError

    def _is_counterexample(self, instance: Any) -> bool:
        """Compare the solvers on `instance`; keep it if it is the smallest counterexample."""
        self._end_in_time()
        if not self._is_enough(self._tried_ratio(instance)):
            return False
        if self._smaller_than(self._best)(instance):
            self._best = instance
            if self._progress is not None:
                self._progress(self._space.measures(instance))
        return True

    def _tried_ratio(self, instance: Any) -> Fraction | float:
        """Run both solvers; return the ratio, 1 where they cannot be compared."""
        self._tried += 1
        better_solver = self._against
        if better_solver is None or instance.variant in better_solver.exact_variants:
            better_solver = self._prover
        answers = []
        for solver in (self._heuristic, better_solver):
            answer = self._answer(instance, solver, self._left_s())
            if answer.status is Status.ERROR:
                failure = f"{solver.name} failed in the search: {answer.message}"
                raise _EndedError(failure, answer.traceback)
            is_unproved = solver is self._prover and answer.status is not Status.OPTIMAL
            if answer.objective is None or is_unproved or answer.stopped_by is not None:
                self._skipped += 1
                self._skip_reason = self._skip_reason or _why_not_compared(answer)
                return 1
            answers.append(answer)
        return self._ratio(*answers)

    def _left_s(self) -> float:
        """Return how long a run may take."""
        if self._time_limit_s is None:
            return LONGEST_RUN_S
        return min(LONGEST_RUN_S, max(0.0, self._time_limit_s - self._stopwatch.elapsed_s))

    def _answer(self, instance: Any, solver: Solver, limit_s: float) -> Answer:
        """Run a solver: the toolkit's own here, all others where they can do no harm."""
        is_trusted = is_built_in(solver)
        return solve_and_check(
            self._problem,
            instance,
            solver,
            limits=None if is_trusted else Limits(time_s=limit_s),
            seed=self._seed,
            executor=execute if is_trusted else self._workers,
        )

    def _ratio(self, heuristic: Answer, against: Answer) -> Fraction | float:
        """Return the ratio; of floats that it was asked for within rounding, just that."""
        ratio = _ratio(heuristic, against)
        is_exact = isinstance(heuristic.objective, int) or ratio == math.inf
        is_asked_for = not is_exact and same_value(float(ratio), float(self._min_ratio))
        return self._min_ratio if is_asked_for else ratio

    def _proved(self, instance: Any) -> Counterexample:
        """Run everything anew on the instance as it comes back from its file format."""
        problem = self._problem
        read_back = problem.parse_instance(problem.instance_document(instance))
        solvers = [self._heuristic, self._prover, *([self._against] if self._against else [])]
        answers = refute_claims(
            [self._answer(read_back, solver, LONGEST_RUN_S) for solver in solvers]
        )
        for answer in answers:
            if answer.objective is None:
                failure = f"{answer.solver} failed: {_why_not_compared(answer)}"
                raise SolverFailedError(failure, answer.traceback)
        heuristic, optimum, against = answers[0], answers[1], answers[-1]
        if optimum.status is not Status.OPTIMAL:
            raise SolverFailedError(f"{optimum.solver} did not prove the optimum")
        if not self._is_enough(self._ratio(heuristic, against)):
            raise SolverFailedError(UNSTEADY)
        return Counterexample(
            instance=read_back, heuristic=heuristic, against=against, optimum=optimum
        )

    def _is_enough(self, ratio: Fraction | float) -> bool:
        return ratio > 1 and ratio >= self._min_ratio


@contextmanager
def _no_files_left() -> Iterator[None]:
    """Let Hypothesis keep what it writes, without a database too, in a folder that goes again."""
    from hypothesis.configuration import set_hypothesis_home_dir

    with TemporaryFolder() as folder:
        set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            set_hypothesis_home_dir(None)


def require_comparable(
    problem: str, variant: str, heuristic: Solver, against: Solver | None
) -> None:
    """Raise `FieldError` unless `heuristic` can be worse than `against` on that variant."""
    if variant in heuristic.exact_variants:
        raise FieldError(
            "heuristic", heuristic.name, "proves optimality, so nothing is better; name a heuristic"
        )
    if against is not None and against.name == heuristic.name:
        raise FieldError("against", against.name, "must be another solver than the heuristic")
    named = [("heuristic", heuristic)] + ([("against", against)] if against is not None else [])
    for field_name, solver in named:
        if solver.problem != problem:
            raise FieldError(field_name, solver.name, f"must be a solver of {problem}")
        missing = solver.availability()
        if missing is not None:
            raise FieldError(field_name, solver.name, f"cannot run here: {missing.reason}")
        if variant not in solver.variants:
            takes = " and ".join(solver.variants)
            raise FieldError(
                field_name, solver.name, f"takes {takes} instances, not {variant} ones"
            )


def _valid_ratio(value: float | Fraction) -> Fraction:
    is_number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and value >= 1):
        raise FieldError("min_ratio", value, "must be a finite number of at least 1")
    return Fraction(value)


def _ratio(heuristic: Answer, against: Answer) -> Fraction | float:
    """Return how many times as bad `heuristic` is, exactly; 1 if it is not clearly worse."""
    smaller, larger = against.objective, heuristic.objective
    assert smaller is not None, "an answer that is compared has a solution"
    assert larger is not None, "an answer that is compared has a solution"
    if heuristic.sense == "max":
        smaller, larger = larger, smaller
    is_exact = isinstance(smaller, int) and isinstance(larger, int)
    if larger - smaller <= (0 if is_exact else CLEAR_DIFFERENCE * abs(larger)):
        return 1
    return Fraction(larger) / Fraction(smaller) if smaller > 0 else math.inf


def _why_not_compared(answer: Answer) -> str:
    ending = "a solution" if answer.objective is None else "a proof"
    return f"{answer.solver}: {answer.message or f'ended {answer.status} without {ending}'}"
