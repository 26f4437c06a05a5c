"""Run what tables are made of, each case once and several at the same time."""

from __future__ import annotations

import statistics
from collections.abc import Hashable
from concurrent.futures import FIRST_COMPLETED, wait
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from experiments.pool import worker_pool
from experiments.progress import progress
from experiments.simulation.replay import replay
from experiments.simulation.setup import Setup
from lyra_opt.simulation.scheme import find_scheme

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from experiments.simulation.replay import Replay
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.scheme import Options
    from lyra_opt.simulation.workload import Workload

SettingT = TypeVar("SettingT")


class Case(Hashable, Protocol):
    """Something to run."""

    @property
    def cost(self) -> float:
        """How long it takes, roughly and relative to others, so that long ones start first."""

    @property
    def is_known(self) -> bool:
        """Whether what it asks for is there."""

    def run(self, setting: Any) -> Any:
        """Return what comes of it; the same case and setting give the same.

        Raises
        ------
        SimulationError
            If it comes to no result, or to one that cannot be right.
        """


def simulated(scheme: str, workload: Workload, cluster: Cluster, options: Options) -> Replay:
    """Return a finished and checked run of a scheme by name; `SimulationError` as of `Case.run`."""
    setup = Setup(workload=workload, cluster=cluster, options=options)
    return replay(setup, find_scheme(scheme))


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

    @classmethod
    def of_cases(cls, cases: Iterable[Any], setting: SettingT, *, processes: int) -> Self:
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
        return cls(setting, _run_all(runnable, setting, processes))

    def of(self, case: Any) -> Any:
        """Return what came of a case; None if it was not run."""
        return self._found.get(case)


def mean_of_ratios(
    values: Sequence[float],
) -> tuple[float | None, tuple[float, float] | None]:
    """Return the geometric mean and, of several, the least and the greatest."""
    if not values:
        return None, None
    spread = (min(values), max(values)) if len(values) > 1 else None
    return statistics.geometric_mean(values), spread


def _run_all(cases: Sequence[Case], setting: Any, processes: int) -> dict[Hashable, Any]:
    """Return what comes of each case; they start in order."""
    if not cases:
        return {}
    found: dict[Hashable, Any] = {}
    with progress("runs", len(cases)) as advance:
        if processes == 1:
            for case in cases:
                found[case] = case.run(setting)
                advance()
            return found
        with worker_pool(min(processes, len(cases))) as pool:
            running = {pool.submit(_run, case, setting): case for case in cases}
            waiting = set(running)
            while waiting:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    found[running[future]] = future.result()
                    advance()
    return found


def _run(case: Case, setting: Any) -> Any:
    return case.run(setting)
