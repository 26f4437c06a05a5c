"""What decides: a policy is told of jobs that wait and leave, and says who runs where.

A policy acts through a `lyra_opt.simulation.view.View`: it reserves GPUs with `fit` or `reserve`,
and then starts, stops, moves and resizes jobs. It is held to the rules.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING

from lyra_opt.core.seeding import derive_seed
from lyra_opt.simulation.decisions import ReclaimRule
from lyra_opt.simulation.view import Listener

if TYPE_CHECKING:
    from lyra_opt.core.solver import SolverLike
    from lyra_opt.simulation.goodput.tuning import JobTuning
    from lyra_opt.simulation.job_run import JobRun, Part
    from lyra_opt.simulation.view import View

DEFAULT_RECLAIMER = "lyra-greedy"
"""Of schemes whose papers know no loans."""


class Policy(Listener):
    """Decides who runs where; an object is for one run.

    Parameters
    ----------
    name
        What it is called in results and errors.
    reclaimer
        Reclaim solver that chooses which borrowed servers to give back, by name,
        ``my_file.py:NAME``, object or class; None for a policy that borrows none.
    weighs_lost_work
        Whether that solver counts a preemption by the GPU-seconds that it loses, rather than 1.

    Attributes
    ----------
    asks_at_events
        Whether it is asked whenever jobs come, GPUs become free or servers move; else only at
        `wake_s`.
    wake_s
        When it wants to be asked next, whatever happens; it says so anew at each decision.
    tuned
        How fast jobs run that it tunes while they run; None if it tunes none.
    repeats_itself
        Whether it gives a job that is alone in the cluster the same GPUs whenever it has waited
        for the same time, however much it has done; then leases that are all alike are skipped.
    """

    asks_at_events = True
    repeats_itself = False
    tuned: JobTuning | None = None

    def __init__(
        self, name: str, *, reclaimer: SolverLike | None = None, weighs_lost_work: bool = False
    ) -> None:
        self.name = name
        self.wake_s = math.inf
        self.reclaimer = reclaimer
        self._weighs_lost_work = weighs_lost_work
        self._reclaiming: ReclaimRule | None = None

    def begin(self, view: View) -> None:
        """Look at the cluster before the first event."""

    def servers_moved(self, view: View) -> None:
        """Take note of servers that have been lent or called back."""

    @abstractmethod
    def decide(self, view: View) -> None:
        """Start, stop, move and resize jobs."""

    def reclaim(self, view: View, count: int) -> list[int]:
        """Vacate borrowed servers that are called back, and return their hosts.

        By default the reclaim solver chooses them, all their jobs are stopped, and wait.

        Parameters
        ----------
        count
            How many, at most those that are there.
        """
        chosen = self.choose_reclaimed(view, count)
        vacated = set(chosen)
        for run in view.hosted():
            if not vacated.isdisjoint(run.gpus):
                view.stop(run)
        return chosen

    def choose_reclaimed(self, view: View, count: int) -> list[int]:
        """Return the hosts that the reclaim solver chooses to vacate."""
        if self._reclaiming is None:
            assert self.reclaimer is not None, "only policies that borrow give back"
            self._reclaiming = ReclaimRule(
                self.reclaimer,
                weighs_lost_work=self._weighs_lost_work,
                seed=derive_seed(simulation=view.workload.name, seed=view.seed),
            )
        return self._reclaiming.choose(view, count)


class QueuePolicy(Policy):
    """Keeps who waits, for policies of one's own; borrows servers, where there are any.

    Parameters
    ----------
    name, reclaimer, weighs_lost_work
        See `Policy`; by default the name of the class.

    Attributes
    ----------
    waiting
        Who waits, by their place in `View.runs`; the last to wait is the last.
    """

    def __init__(
        self,
        name: str = "",
        *,
        reclaimer: SolverLike | None = DEFAULT_RECLAIMER,
        weighs_lost_work: bool = False,
    ) -> None:
        name = name or type(self).__name__
        super().__init__(name, reclaimer=reclaimer, weighs_lost_work=weighs_lost_work)
        self.waiting: dict[int, JobRun] = {}

    def waits(self, view: View, run: JobRun) -> None:  # noqa: ARG002
        """See `Policy`."""
        self.waiting[run.order] = run

    def start(self, view: View, run: JobRun, parts: list[Part]) -> None:
        """Start a job on GPUs reserved for it."""
        view.start(run, parts)
        del self.waiting[run.order]
