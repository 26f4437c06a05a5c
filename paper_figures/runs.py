"""Run what tables are made of, each case once and several at the same time."""

from __future__ import annotations

import statistics
from concurrent.futures import FIRST_COMPLETED, wait
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from experiments.pool import worker_pool
from experiments.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence
    from concurrent.futures import Future

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")
SettingT = TypeVar("SettingT")


class Case(Protocol):
    """Something to run; hashable."""

    @property
    def cost(self) -> float:
        """How long it takes, roughly and relative to others, so that long ones start first."""

    @property
    def is_known(self) -> bool:
        """Whether what it asks for is there."""

    def run(self, setting: Any) -> Any:
        """Return what comes of it; the same case and setting give the same."""


class CaseResults(Generic[SettingT]):
    """What came of the cases of a setting.

    Parameters
    ----------
    setting
        How much was simulated.
    found
        The results.
    """

    def __init__(self, setting: SettingT, found: dict[Hashable, Any] | None = None) -> None:
        self.setting = setting
        self._found = found or {}

    def of(self, case: Any) -> Any:
        """Return what came of a case; None if it was not run."""
        return self._found.get(case)


def found_of_cases(cases: Iterable[Any], setting: Any, *, processes: int) -> dict[Hashable, Any]:
    """Run every case once, those that ask for what is not there left out.

    Parameters
    ----------
    cases
        Each a `Case`.
    setting
        How much is simulated.
    processes
        Cases at the same time; 1 runs them in this process.

    Raises
    ------
    SimulationError
        If a case comes to no result, or to one that cannot be right.
    """
    runnable = sorted(
        {case for case in cases if case.is_known}, key=lambda case: (-case.cost, str(case))
    )
    return run_all(runnable, partial(_run, setting=setting), processes=processes, label="runs")


def _run(case: Case, setting: Any) -> Any:
    return case.run(setting)


def mean_of_ratios(
    values: Sequence[float],
) -> tuple[float | None, tuple[float, float] | None]:
    """Return the geometric mean and, of several, the least and the greatest."""
    if not values:
        return None, None
    spread = (min(values), max(values)) if len(values) > 1 else None
    return statistics.geometric_mean(values), spread


def run_all(
    tasks: Sequence[Task],
    work: Callable[[Task], Outcome],
    *,
    processes: int,
    label: str = "simulations",
) -> dict[Task, Outcome]:
    """Return what comes of each task; they start in order.

    Parameters
    ----------
    tasks
        Each once.
    work
        What is done with one; can be sent to another process, as can what it returns.
    processes
        Tasks at the same time; 1 runs them in this process.
    label
        What they are, for the progress bar.
    """
    if not tasks:
        return {}
    found: dict[Task, Outcome] = {}
    with progress(label, len(tasks)) as advance:
        if processes == 1:
            for task in tasks:
                found[task] = work(task)
                advance()
            return found
        with worker_pool(min(processes, len(tasks))) as pool:
            running: dict[Future[Outcome], Task] = {pool.submit(work, task): task for task in tasks}
            waiting = set(running)
            while waiting:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    found[running[future]] = future.result()
                    advance()
    return found
