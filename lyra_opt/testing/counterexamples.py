"""Search for the smallest instance on which a heuristic is worse than another solver.

The search goes through instance sizes, smallest first. For each size it tries every *plain*
instance, if they can be enumerated and are few; this proves that no smaller plain instance is a
counterexample. Then `hypothesis.find` draws instances of that size. A counterexample is reduced as
far as possible, and smaller ones are drawn again. The checker confirms every value, and the optimum
shown with them is proved.
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
"""The comparison if no other solver is named."""

MOST_PLAIN = 2_500
"""Most plain instances of one size; if there are more, none of them is tried."""

DRAWS_OF_A_SIZE = 100
"""Instances of a size that are drawn before the next size."""

DRAWS = 200
"""Unsuccessful draws after which the search for a smaller counterexample ends."""

CLEAR_DIFFERENCE = 1e-6
"""Least relative difference by which a float objective must be worse. Within this gap a float
optimum counts as proved, and checkers have smaller tolerances; integers are compared exactly.
"""


LONGEST_RUN_S = 10.0
"""Time limit, in seconds, of one run of a solver that is not part of the toolkit."""

UNSTEADY = "a solver answers differently when it runs again, so no comparison is possible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """An instance on which a heuristic is worse than another solver, with three checked answers.

    Parameters
    ----------
    instance
        The instance as read back from its own file format.
    heuristic
        The answer of the heuristic, which is worse.
    against
        The answer with which it is compared.
    optimum
        The proved answer of the exact solver; the same as `against` if the comparison is the
        optimum.
    """

    instance: Any
    heuristic: Answer
    against: Answer
    optimum: Answer

    @property
    def ratio(self) -> float:
        """How many times worse the heuristic is; infinite if only the smaller value is 0."""
        return float(_ratio(self.heuristic, self.against))


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterexampleSearch:
    """The result of a counterexample search, with the numbers of instances tried and skipped.

    Parameters
    ----------
    counterexample
        The smallest counterexample found; None if none was found.
    no_smaller_plain
        Whether it is proved that no smaller plain instance is a counterexample, because all were
        tried.
    tried, tried_plain
        Number of instances tried, and number of plain instances among them.
    skipped, skip_reason
        Number of instances without a comparison, because a solver did not support them or found no
        solution, or the optimum was not proved; the reason for the first of them.
    stopped_by
        The limit that ended the search; None if it finished.
    wall_time_s
        Wall time of the search, in seconds.
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
    """A solver failed on an instance of the search, or the checker refuted its claim.

    If the solver raised an exception, `traceback` says where.
    """

    def __init__(self, message: str, traceback: str | None = None) -> None:
        super().__init__(message)
        self.traceback = traceback


class _EndedError(BaseException):
    """Ends the search at any point; Hypothesis would treat an `Exception` as a counterexample."""


def find_counterexample(
    space: InstanceSpace,
    heuristic: SolverLike,
    against: SolverLike | None = None,
    *,
    min_ratio: float | Fraction = 1,
    seed: int = 0,
    time_limit_s: float | None = None,
    start: Any = None,
    progress: Callable[[Mapping[str, Number]], None] | None = None,
) -> CounterexampleSearch:
    """Find the smallest instance on which `heuristic` is worse than `against`.

    Parameters
    ----------
    space
        The instances to search.
    heuristic
        A solver that does not prove optimality: an object, a class, a name or ``my_file.py:NAME``.
    against
        Another solver; None means the optimum.
    min_ratio
        Least ratio of the objective of `heuristic` to that of `against` (inverted for a maximised
        objective), floats within 1e-9 relative. The heuristic must also be worse: integers by any
        difference, floats by a relative difference above `CLEAR_DIFFERENCE`. If the smaller value
        is 0, the ratio is infinite.
    seed
        Seed of the search and of both solvers. The same seed gives the same answer with the same
        package versions, unless the time limit ends the search.
    time_limit_s
        Time limit of the search in seconds; None for no limit. Solvers outside the toolkit run in a
        separate process, limited to the remaining time or `LONGEST_RUN_S`, whichever is less; runs
        of the toolkit's solvers are not cut short.
    start
        An instance on which the heuristic is worse. The search then begins with it, whatever its
        size, and makes it smaller. None begins with the smallest instances.
    progress
        Called with the measures of each counterexample that is the smallest so far.

    Returns
    -------
    CounterexampleSearch
        The checker has recomputed every value in it from the instance as read back from its file
        format, and the solver `space.prover` has proved the optimum.

    Raises
    ------
    FieldError
        If the solvers cannot be compared on these instances, `min_ratio` is not a finite number of
        at least 1, or the heuristic is not worse on `start`.
    SolverFailedError
        If a solver fails, makes a refuted claim, or answers differently when it runs again.

    Notes
    -----
    If `against` proves optimality, it runs only once, at the end; until then the exact solver
    `space.prover` replaces it. An instance whose optimum the exact solver does not prove is not
    compared.

    A float optimum is proved up to a relative gap. So the ratio to the true optimum may exceed the
    reported ratio by that gap; it is never smaller, except for the checker's tolerance.

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
        search = _Search(space, first, second, ratio, seed, time_limit_s, start, progress, workers)
        return search.run()


class _Search:
    """The state of one counterexample search, with the smallest counterexample so far."""

    def __init__(
        self,
        space: InstanceSpace,
        heuristic: Solver,
        against: Solver | None,
        min_ratio: Fraction,
        seed: int,
        time_limit_s: float | None,
        start: Any,
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
        self._start = start
        self._progress = progress
        self._stopwatch = Stopwatch()
        self._random = Random(derive_seed(search="counterexample", seed=seed))  # noqa: S311
        self._best: Any = None
        self._sizes = space.sizes()
        self._unlisted = next(self._sizes, None)
        """The first size whose plain instances were not all tried."""
        self._tried = self._tried_plain = self._skipped = 0
        self._skip_reason: str | None = None

    def run(self) -> CounterexampleSearch:
        """Search size by size until a counterexample is found, then search for a smaller one."""
        stopped_by = None
        try:
            if self._start is not None and not self._is_counterexample(self._start):
                rule = "the heuristic is not worse on this instance by the ratio"
                if self._skip_reason is not None:
                    rule = f"the solvers cannot be compared on this instance: {self._skip_reason}"
                raise FieldError("start", self._start.name, rule)
            for size in self._space.sizes() if self._best is None else ():
                if self._try_plain(size) or self._draw(size, DRAWS_OF_A_SIZE):
                    break
            while self._best is not None:
                self._reduce()
                if not self._draw(self._space.measures(self._best), DRAWS):
                    break
            # A randomly drawn instance may be larger than the size that was requested.
            while (next_size := self._unlisted) is not None and not self._is_smallest_plain():
                self._try_plain(next_size)
                if self._unlisted is next_size:  # this size has too many plain instances
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
        """Return whether all plain instances smaller than the best counterexample were compared."""
        if self._skipped or self._best is None:
            return False
        order = self._space.order(self._best)
        return self._unlisted is None or order[: len(self._unlisted)] < (*self._unlisted.values(),)

    def _try_plain(self, size: Mapping[str, int]) -> bool:
        """Try the plain instances of a size in order; return whether one is a counterexample.

        No instance is tried if the size has too many plain instances, or if the plain instances of
        a smaller size were not all tried.
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
        """Search for a smaller counterexample with Hypothesis; return whether it found one."""
        from hypothesis import Phase, find, settings
        from hypothesis.errors import Flaky, NoSuchExample, Unsatisfiable

        is_smaller = self._smaller_than(self._best)

        def is_wanted(instance: Any) -> bool:
            self._end_in_time()
            return is_smaller(instance) and self._is_counterexample(instance)

        # Hypothesis does not shrink instances; `_reduce` does, by the measures of the problem.
        options = settings(
            max_examples=draws, database=None, deadline=None, phases=(Phase.generate,)
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
        """Reduce the best counterexample until no further reduction is a counterexample."""
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
        """Compare the solvers on an instance, and keep it if it is the smallest counterexample."""
        self._end_in_time()
        if not self._is_enough(self._tried_ratio(instance)):
            return False
        if self._smaller_than(self._best)(instance):
            self._best = instance
            if self._progress is not None:
                self._progress(self._space.measures(instance))
        return True

    def _tried_ratio(self, instance: Any) -> Fraction | float:
        """Run both solvers; return how many times worse the heuristic is, 1 if incomparable."""
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
        """Return the time limit of the next run, in seconds."""
        if self._time_limit_s is None:
            return LONGEST_RUN_S
        return min(LONGEST_RUN_S, max(0.0, self._time_limit_s - self._stopwatch.elapsed_s))

    def _answer(self, instance: Any, solver: Solver, limit_s: float) -> Answer:
        """Run a solver, in this process if it is built in, otherwise in a separate process."""
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
        """Return how many times worse the heuristic is, rounded to `min_ratio` if nearly equal."""
        ratio = _ratio(heuristic, against)
        is_exact = isinstance(heuristic.objective, int) or ratio == math.inf
        is_asked_for = not is_exact and same_value(float(ratio), float(self._min_ratio))
        return self._min_ratio if is_asked_for else ratio

    def _proved(self, instance: Any) -> Counterexample:
        """Solve the counterexample again, as read back from its file, and prove the optimum."""
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
    """Redirect the files that Hypothesis writes to a temporary folder, which is then deleted."""
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
    """Raise `FieldError` unless `heuristic` can be worse than `against` on a variant."""
    if variant in heuristic.exact_variants:
        raise FieldError(
            "heuristic", heuristic.name, "must not be an exact solver: no solver is better"
        )
    if against is not None and against.name == heuristic.name:
        raise FieldError("against", against.name, "must differ from the heuristic")
    named = [("heuristic", heuristic)] + ([("against", against)] if against is not None else [])
    for field_name, solver in named:
        if solver.problem != problem:
            raise FieldError(field_name, solver.name, f"must be a solver of {problem}")
        missing = solver.availability()
        if missing is not None:
            raise FieldError(field_name, solver.name, f"is not available: {missing.reason}")
        if variant not in solver.variants:
            rule = f"must solve {variant} instances; it solves {' and '.join(solver.variants)}"
            raise FieldError(field_name, solver.name, rule)


def _valid_ratio(value: float | Fraction) -> Fraction:
    is_number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and value >= 1):
        raise FieldError("min_ratio", value, "must be a finite number of at least 1")
    return Fraction(value)


def _ratio(heuristic: Answer, against: Answer) -> Fraction | float:
    """Return how many times worse `heuristic` is, exactly; 1 if it is not clearly worse."""
    smaller, larger = against.objective, heuristic.objective
    assert smaller is not None, "only answers with a solution are compared"
    assert larger is not None, "only answers with a solution are compared"
    if heuristic.sense == "max":
        smaller, larger = larger, smaller
    is_exact = isinstance(smaller, int) and isinstance(larger, int)
    if larger - smaller <= (0 if is_exact else CLEAR_DIFFERENCE * abs(larger)):
        return 1
    return Fraction(larger) / Fraction(smaller) if smaller > 0 else math.inf


def _why_not_compared(answer: Answer) -> str:
    ending = "a solution" if answer.objective is None else "a proof"
    return f"{answer.solver}: {answer.message or f'ended {answer.status} without {ending}'}"
