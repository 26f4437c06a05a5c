"""The solver that both discretised models of mean JCT become: start from a schedule, then run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from formulations.exact_solver import LARGEST_SEED, Countdown, load_modules, missing_module
from lyra_opt.allocation.exact.mean_jct.solver import schedule_value
from lyra_opt.allocation.exact.mean_jct.starts import best_priority_schedule
from lyra_opt.allocation.instance import Objective, Schedule
from lyra_opt.core.solver import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from lyra_opt.allocation.instance import AllocationInstance
    from lyra_opt.core.result import Limits, SolveResult

    Observer = Callable[[str, int | float], None]


@dataclass(frozen=True, slots=True)
class Incumbent:
    """A schedule and its mean JCT in seconds."""

    schedule: Schedule
    objective: float


class MeanJctModel(ABC):
    """A model of `mean_jct` on a grid of time; implements `lyra_opt.core.solver.Solver`.

    It starts from the warm start or, without one, from the best priority list, and never returns
    worse. One thread; the seed of the backend comes from the generator. Of the limits only the
    time is kept.

    Parameters
    ----------
    step_s
        Length of a slot in seconds; None for one that depends on the instance.
    """

    name: str
    problem = "allocation"
    variants: ClassVar[Sequence[str]] = (str(Objective.MEAN_JCT),)
    proves_optimality = False
    gives_bound: bool
    modules: ClassVar[tuple[str, ...]]
    """The Python modules that the backend needs."""

    def __init__(self, step_s: float | None = None) -> None:
        self.step_s = step_s

    @abstractmethod
    def run(
        self,
        instance: AllocationInstance,
        incumbent: Incumbent,
        countdown: Countdown,
        seed: int,
        observer: Observer | None,
    ) -> SolveResult[Schedule]:
        """Build the model and run the backend; `incumbent` is the schedule to start from."""

    def availability(self) -> Unsupported | None:
        """Return which package is missing, None if none is; imports none of them."""
        return missing_module(self.modules)

    def supports(self, instance: AllocationInstance) -> Unsupported | None:
        """Return a reason for the one-shot objectives."""
        if instance.objective is not Objective.MEAN_JCT:
            return Unsupported("the model is of the objective mean_jct")
        return None

    def solve(
        self,
        instance: AllocationInstance,
        *,
        limits: Limits,
        rng: np.random.Generator,
        warm_start: Schedule | None = None,
        observer: Observer | None = None,
    ) -> SolveResult[Schedule]:
        """Run the model; see `lyra_opt.core.solver.Solver.solve`.

        Raises
        ------
        RuntimeError
            If the backend fails.
        """
        load_modules(self.modules)
        countdown = Countdown(limits.time_s)
        seed = int(rng.integers(LARGEST_SEED))
        schedule = warm_start or best_priority_schedule(instance)
        incumbent = Incumbent(schedule, schedule_value(instance, schedule))
        if observer is not None:
            observer("objective", incumbent.objective)
        return self.run(instance, incumbent, countdown, seed, observer)
