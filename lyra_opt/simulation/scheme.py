"""Schemes: which queue, which scaling, which reclaiming, put together from existing solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.errors import UserError
from lyra_opt.simulation.queues import FirstComeQueue, SmallestFirstQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.simulation.decisions import ScalingRule
    from lyra_opt.simulation.goodput.tuning import TunedSpeed
    from lyra_opt.simulation.queues import JobQueue
    from lyra_opt.simulation.run import JobRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """How a cluster is run.

    Parameters
    ----------
    name
        The name the command line knows it by.
    summary
        What it does, on one line.
    queue
        ``first-come`` (nobody overtakes the head), ``shortest`` (by true duration),
        ``shortest-base`` (Lyra's phase 1: by the believed running time with all workers) or
        ``smallest-work`` (by believed remaining work).
    reclaimer
        Solver that chooses which servers on loan to give back; None for a scheme that borrows
        none.
    weighs_lost_work
        Whether a preemption counts by the work that it loses.
    scaling
        How elastic jobs grow: None (not at all), ``knapsack:SOLVER``, ``policy:POLICY``,
        ``goodput:pollux`` or ``goodput:knapsack``.
    grows_only_without_queue
        Whether jobs grow only while none waits.
    confines_fungible
        Whether fungible jobs run on inference servers, and nowhere else, and nobody else does;
        they do not wait for others, nor others for them.
    keeps_groups_apart
        Whether flexible workers on loan have servers of their own.
    tuning
        How elastic jobs are tuned (see `lyra_opt.simulation.goodput.tuning.TunedSpeed`): None
        (not at all), ``linear`` or ``goodput``.
    """

    name: str
    summary: str
    queue: str = "first-come"
    reclaimer: str | None = None
    weighs_lost_work: bool = False
    scaling: str | None = None
    grows_only_without_queue: bool = False
    confines_fungible: bool = False
    keeps_groups_apart: bool = True
    tuning: str | None = None

    @property
    def borrows(self) -> bool:
        """Whether it runs jobs on inference servers."""
        return self.reclaimer is not None

    def make_queue(self, stands_apart: Callable[[JobRun], bool] | None = None) -> JobQueue:
        """Return an empty queue; `stands_apart` as for `FirstComeQueue`."""
        if self.queue == "first-come":
            return FirstComeQueue(stands_apart)
        return SmallestFirstQueue(_KEYS[self.queue])

    def make_speed(self, *, seed: int, gpus_per_server: int) -> TunedSpeed | None:
        """Return how fast tuned jobs run; None without tuning."""
        if self.tuning is None:
            return None
        from lyra_opt.simulation.goodput.tuning import TunedSpeed

        return TunedSpeed(self.tuning, seed=seed, gpus_per_server=gpus_per_server)

    def make_scaling(self, speed: TunedSpeed | None = None) -> ScalingRule | None:
        """Return the rule by which elastic jobs grow; `speed` is what `make_speed` returned."""
        from lyra_opt.simulation.decisions import KnapsackScaling, PolicyScaling

        if self.scaling is None:
            return None
        kind, _, name = self.scaling.partition(":")
        if kind == "goodput":
            from lyra_opt.simulation.goodput.rules import PolluxScaling, TunedKnapsackScaling

            assert speed is not None, "rules on goodput need tuned jobs"
            return PolluxScaling(speed) if name == "pollux" else TunedKnapsackScaling(speed)
        return KnapsackScaling(name) if kind == "knapsack" else PolicyScaling(name)


def _by_true_duration(run: JobRun) -> tuple[float, ...]:
    return (run.job.duration_s,)


def _by_shortest_running_time(run: JobRun) -> tuple[float, ...]:
    # Jobs on both kinds of GPUs get what all others leave (Lyra, section 6).
    return (float(run.job.heterogeneous), run.job.believed_work_worker_s / run.job.max_workers)


def _by_remaining_work(run: JobRun) -> tuple[float, ...]:
    work = run.believed_remaining_worker_s * run.job.gpus_per_worker
    return (float(run.job.heterogeneous), work)


_KEYS = {
    "shortest": _by_true_duration,
    "shortest-base": _by_shortest_running_time,
    "smallest-work": _by_remaining_work,
}

SCHEMES: Mapping[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme(name="fifo", summary="first come, first served; no loans, no scaling (Baseline)"),
        Scheme(
            name="sjf", summary="shortest job that fits first, by true duration", queue="shortest"
        ),
        Scheme(
            name="opportunistic",
            summary="fifo; fungible jobs may run on idle inference servers, taken back at random",
            reclaimer="random",
        ),
        Scheme(
            name="opportunistic-confined",
            summary="opportunistic, with fungible jobs on inference servers alone",
            reclaimer="random",
            confines_fungible=True,
        ),
        Scheme(
            name="random",
            summary="Lyra's loaning without scaling; servers to give back are drawn",
            queue="shortest-base",
            reclaimer="random",
        ),
        Scheme(
            name="scf",
            summary="Lyra's loaning without scaling; servers with fewest jobs are given back",
            queue="shortest-base",
            reclaimer="scf",
        ),
        Scheme(
            name="gandiva",
            summary="fifo; jobs grow while GPUs are free and none waits",
            scaling="policy:gandiva",
            grows_only_without_queue=True,
        ),
        Scheme(
            name="afs",
            summary="base demands first, then workers to the largest gain of throughput per GPU",
            queue="shortest-base",
            scaling="policy:afs",
        ),
        Scheme(
            name="pollux",
            summary="first come, first served; the fitness of tuned jobs is maximised",
            scaling="goodput:pollux",
            tuning="linear",
        ),
        Scheme(
            name="lyra",
            summary="shortest base demands, knapsack, loans, server preemption cost",
            queue="shortest-base",
            reclaimer="lyra-greedy",
            scaling="knapsack:mckp-core",
        ),
        Scheme(
            name="lyra-loaning",
            summary="lyra without scaling",
            queue="shortest-base",
            reclaimer="lyra-greedy",
        ),
        Scheme(
            name="lyra-scaling",
            summary="lyra without loans",
            queue="shortest-base",
            scaling="knapsack:mckp-core",
        ),
        Scheme(
            name="lyra-tuned",
            summary="lyra-scaling with tuned batch sizes (Lyra+TunedJobs)",
            queue="shortest-base",
            scaling="goodput:knapsack",
            tuning="linear",
        ),
        Scheme(
            name="lyra-exact",
            summary="lyra, with the proved optimum of every reclaiming",
            queue="shortest-base",
            reclaimer="exact",
            scaling="knapsack:mckp-core",
        ),
        Scheme(
            name="least-loss",
            summary="ours: smallest remaining work, also for scaling; least lost work reclaimed",
            queue="smallest-work",
            reclaimer="exact",
            weighs_lost_work=True,
            scaling="policy:srw",
        ),
    )
}


def find_scheme(name: str) -> Scheme:
    """Return the scheme called `name`; `UserError` that names all if there is none."""
    if name not in SCHEMES:
        raise UserError(f"--scheme is {name!r}: must be one of: {', '.join(SCHEMES)}")
    return SCHEMES[name]
