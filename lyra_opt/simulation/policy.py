"""The base classes of policies, which decide on which GPUs each job runs.

The simulation tells a policy which jobs wait and leave. The policy acts through a
`lyra_opt.simulation.view.View`: it reserves GPUs with `fit` or `reserve`, and then starts, stops,
moves and resizes jobs. A decision that breaks a rule ends the run with an error.
"""

import math
from abc import abstractmethod

from lyra_opt.core.seeding import derive_seed
from lyra_opt.core.solver import SolverLike
from lyra_opt.simulation.decisions import ReclaimRule
from lyra_opt.simulation.goodput.tuning import JobTuning
from lyra_opt.simulation.job_run import JobRun, Part
from lyra_opt.simulation.view import Listener, View

DEFAULT_RECLAIMER = "lyra-greedy"
"""The reclaim solver of policies whose papers do not cover loans."""


class Policy(Listener):
    """Decides on which GPUs each job runs; one object serves one simulation run.

    Parameters
    ----------
    name
        The name in results and error messages.
    reclaimer
        Reclaim solver that chooses which borrowed servers to give back: a name,
        ``my_file.py:NAME``, an object or a class; None for a policy that borrows no servers.
    weighs_lost_work
        Whether the reclaim solver weighs a preemption by the GPU-seconds of work that it loses,
        rather than by 1.

    Attributes
    ----------
    asks_at_events
        Whether `decide` is called whenever jobs arrive, GPUs become free or servers move; otherwise
        it is called only at `wake_s`.
    wake_s
        The next time at which `decide` is called whatever happens. The policy sets it again at each
        decision.
    tuned
        The speed model of jobs that the policy tunes while they run; None if it tunes no jobs.
    repeats_itself
        Whether a job that is alone in the cluster gets the same GPUs after each wait of equal
        length, however much work it has done. The simulation then skips identical leases.
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
        """Prepare for a run: called once, before the first event."""

    def servers_moved(self, view: View) -> None:
        """Note that servers have just been lent or reclaimed."""

    @abstractmethod
    def decide(self, view: View) -> None:
        """Start, stop, move and resize jobs."""

    def reclaim(self, view: View, count: int) -> list[int]:
        """Vacate `count` borrowed servers and return their hosts.

        By default the reclaim solver chooses the servers; all jobs on them are stopped and wait
        again.

        Parameters
        ----------
        count
            Number of servers to vacate, at most the number on loan.
        """
        chosen = self.choose_reclaimed(view, count)
        vacated = set(chosen)
        for run in view.hosted():
            if not vacated.isdisjoint(run.gpus):
                view.stop(run)
        return chosen

    def choose_reclaimed(self, view: View, count: int) -> list[int]:
        """Return the borrowed hosts that the reclaim solver chooses to vacate."""
        if self._reclaiming is None:
            assert self.reclaimer is not None, "only policies that borrow servers give any back"
            self._reclaiming = ReclaimRule(
                self.reclaimer,
                weighs_lost_work=self._weighs_lost_work,
                seed=derive_seed(simulation=view.workload.name, seed=view.seed),
            )
        return self._reclaiming.choose(view, count, view.hosts.lent(), view.hosted())


class QueuePolicy(Policy):
    """A base class for your own policies that keeps the waiting jobs and can borrow servers.

    Parameters
    ----------
    name, reclaimer, weighs_lost_work
        See `Policy`; the default name is that of the class.

    Attributes
    ----------
    waiting
        Waiting jobs by their index in `View.runs`, in the order in which they began to wait.
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
        """Add a job to `waiting`."""
        self.waiting[run.order] = run

    def start(self, view: View, run: JobRun, parts: list[Part]) -> None:
        """Start a waiting job on the GPUs reserved for it."""
        view.start(run, parts)
        del self.waiting[run.order]
