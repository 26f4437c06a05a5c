"""Placement rules that choose free GPUs of a fleet for the workers of a job.

The synthetic families of this module and the replay of a trace
(`lyra_opt.instances.reclaim.snapshot`) use the same rules. All three rules place a job whenever
the fleet has enough free GPUs, so the rules differ in fragmentation but not in waiting times.
Placing a job takes O(span) steps. A step of the random rules takes constant time; a step of best
fit copies an integer with one bit per server.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from lyra_opt.instances.randomness import DrawableSet, IntegerStream
from lyra_opt.instances.reclaim.family import GPUS_PER_SERVER, Allocation, FleetFamily


class Placement(ABC):
    """The free GPUs of a fleet of 8-GPU servers, and the rule that places jobs on them.

    Parameters
    ----------
    servers
        The number of servers, which are all free.
    stream
        The source of random numbers for the rule.

    Attributes
    ----------
    free_gpus : int
        The number of free GPUs of the whole fleet.
    """

    def __init__(self, servers: int, stream: IntegerStream) -> None:
        self.free_gpus = servers * GPUS_PER_SERVER
        self._free = [GPUS_PER_SERVER] * servers
        self._stream = stream

    def place(self, gpus: int) -> Allocation | None:
        """Return the allocation of a new job of `gpus` workers; None if the job does not fit."""
        if gpus > self.free_gpus:
            return None
        allocation: Allocation = {}
        self._spread(gpus, allocation)
        self.free_gpus -= gpus
        return allocation

    def release(self, allocation: Allocation) -> None:
        """Free the GPUs of a job, given the allocation that `place` returned."""
        for server, gpus in allocation.items():
            self._set_free(server, self._free[server] + gpus)
            self.free_gpus += gpus

    @abstractmethod
    def _spread(self, gpus: int, allocation: Allocation) -> None:
        """Place `gpus` workers on free GPUs, which must exist, and add them to `allocation`."""

    def _take(self, server: int, gpus: int, allocation: Allocation) -> None:
        self._set_free(server, self._free[server] - gpus)
        allocation[server] = allocation.get(server, 0) + gpus

    def _set_free(self, server: int, gpus: int) -> None:
        self._free[server] = gpus


class BestFit(Placement):
    """Best fit: whole servers first, then the fullest server that can hold the remaining workers.

    The job is split into pieces of 8 workers and one smaller piece. Each piece goes to the server
    with the fewest free GPUs that can hold the piece. If no server can, the server with the most
    free GPUs is filled, and the remaining workers are placed by the same rule. Ties are broken by
    file order, without randomness.
    """

    def __init__(self, servers: int, stream: IntegerStream) -> None:
        super().__init__(servers, stream)
        # Bit s of `_with_free[f]` is set if server s has f free GPUs.
        # Integers serve as bit sets, because searching them is as fast as copying memory.
        self._with_free = [0] * (GPUS_PER_SERVER + 1)
        self._with_free[GPUS_PER_SERVER] = (1 << servers) - 1

    def _spread(self, gpus: int, allocation: Allocation) -> None:
        while gpus:
            piece = min(gpus, GPUS_PER_SERVER)
            tightest_first = range(piece, GPUS_PER_SERVER + 1)
            most_free_first = range(piece - 1, 0, -1)
            free = next(
                free for free in (*tightest_first, *most_free_first) if self._with_free[free]
            )
            servers = self._with_free[free]
            first = (servers & -servers).bit_length() - 1
            taken = min(piece, free)
            self._take(first, taken, allocation)
            gpus -= taken

    def _set_free(self, server: int, gpus: int) -> None:
        bit = 1 << server
        self._with_free[self._free[server]] ^= bit
        self._with_free[gpus] ^= bit
        super()._set_free(server, gpus)


class _DrawnPlacement(Placement):
    """Base class of the rules that draw random servers with at least one or two free GPUs."""

    _WORKER_GPUS = (1, 2)

    def __init__(self, servers: int, stream: IntegerStream) -> None:
        super().__init__(servers, stream)
        self._with_room = {gpus: DrawableSet(range(servers)) for gpus in self._WORKER_GPUS}

    def _draw_server(self, worker_gpus: int) -> int:
        return self._with_room[worker_gpus].draw(self._stream)

    def _set_free(self, server: int, gpus: int) -> None:
        before = self._free[server]
        super()._set_free(server, gpus)
        for worker_gpus, servers in self._with_room.items():
            if before < worker_gpus <= gpus:
                servers.add(server)
            elif gpus < worker_gpus <= before:
                servers.remove(server)


class RandomOrder(_DrawnPlacement):
    """Random order: the job takes all free GPUs of one random server after another."""

    def _spread(self, gpus: int, allocation: Allocation) -> None:
        while gpus:
            server = self._draw_server(1)  # full servers are not drawn
            taken = min(gpus, self._free[server])
            self._take(server, taken, allocation)
            gpus -= taken


class Messy(_DrawnPlacement):
    """Scattered placement: each worker of one or two GPUs goes to a random server with room.

    A job with more GPUs than a server has workers of two GPUs. For any other job the size of its
    workers is drawn, one or two GPUs. If no server has two free GPUs, a worker takes one.
    """

    def _spread(self, gpus: int, allocation: Allocation) -> None:
        worker_gpus = 2 if gpus > GPUS_PER_SERVER else self._stream.between(1, 2)
        while gpus:
            wanted = min(worker_gpus, gpus)
            taken = wanted if self._with_room[wanted] else 1
            self._take(self._draw_server(taken), taken, allocation)
            gpus -= taken


PLACEMENT_RULES: Mapping[str, Callable[[int, IntegerStream], Placement]] = {
    "bf": BestFit,
    "rnd": RandomOrder,
    "messy": Messy,
}


JOB_GPUS = (1, 2, 4, 8, 16, 32, 64)
TRACE_PER_MILLE = (650, 110, 110, 90, 22, 10, 8)
DIST_PER_MILLE = (200, 200, 200, 200, 120, 60, 20)

TARGET_LOAD_PERCENT = 95
CHURN_ROUNDS = 3
MOST_FAILED_DRAWS = 1000
"""Filling stops below the target load after so many drawn jobs that do not fit."""


def _fill_and_churn(
    servers: int, stream: IntegerStream, *, rule: str, per_mille: Sequence[int]
) -> list[Allocation]:
    """Return the jobs that run on a fleet after random arrivals and departures, in start order.

    Random jobs fill 95 % of the GPUs of a fleet of 8-GPU servers. Then, three times, a random half
    of the jobs ends, and new jobs fill the fleet again. The free GPUs are then fragmented as in a
    cluster that has been in use for some time.

    The sizes of the jobs are drawn from

    ========  =====================================================================================
    trace     65 % of 1 GPU, 11 % of 2, 11 % of 4, 9 % of 8, 2.2 % of 16, 1 % of 32, 0.8 % of 64
    dist      20 % each of 1, 2, 4 and 8 GPUs, 12 % of 16, 6 % of 32, 2 % of 64: the jobs on loaned
              servers if the scheduler does not send small jobs to them
    ========  =====================================================================================

    ``messy`` is calibrated on the results of an earlier generator (5 seeds), which no longer
    exists. Means over seeds 0 to 9 at 520 servers, for N_R = 52, 156 and 260, beside those earlier
    results:

    ===========  ====================  =====================  =================  ==================
    family       LP bound              earlier                Lyra's greedy      earlier
    ===========  ====================  =====================  =================  ==================
    messy-dist   42, 126, 211          46, 136, 227           69, 163, 232       74, 164, 248
    messy-trace  91, 274, 471          -, 277, -              116, 288, 478      -
    ===========  ====================  =====================  =================  ==================
    """
    placement = PLACEMENT_RULES[rule](servers, stream)
    most_free_gpus = servers * GPUS_PER_SERVER * (100 - TARGET_LOAD_PERCENT) // 100
    running: list[Allocation] = []

    def fill() -> None:
        failed_draws = 0
        while placement.free_gpus > most_free_gpus and failed_draws < MOST_FAILED_DRAWS:
            allocation = placement.place(JOB_GPUS[stream.weighted(per_mille)])
            if allocation is None:
                failed_draws += 1
            else:
                running.append(allocation)

    fill()
    for _ in range(CHURN_ROUNDS):
        ending = set(stream.sample(range(len(running)), len(running) // 2))
        for position in sorted(ending):
            placement.release(running[position])
        running = [job for position, job in enumerate(running) if position not in ending]
        fill()
    return running


def _placed(rule: str, rule_summary: str, mix: str, per_mille: Sequence[int]) -> FleetFamily:
    mixes = {"trace": "65 % 1-GPU jobs", "dist": "many wide jobs"}
    return FleetFamily(
        f"{rule}-{mix}",
        version=1,
        summary=f"{rule_summary}; {mixes[mix]}; 95 % load after churn",
        place=partial(_fill_and_churn, rule=rule, per_mille=per_mille),
    )


BF_TRACE = _placed("bf", "best fit", "trace", TRACE_PER_MILLE)
BF_DIST = _placed("bf", "best fit", "dist", DIST_PER_MILLE)
RND_TRACE = _placed("rnd", "servers filled in random order", "trace", TRACE_PER_MILLE)
RND_DIST = _placed("rnd", "servers filled in random order", "dist", DIST_PER_MILLE)
MESSY_TRACE = _placed("messy", "1-2-GPU workers anywhere", "trace", TRACE_PER_MILLE)
MESSY_DIST = _placed("messy", "1-2-GPU workers anywhere", "dist", DIST_PER_MILLE)
