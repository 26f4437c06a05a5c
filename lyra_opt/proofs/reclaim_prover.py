"""Find the tree on jobs that proves the optimum of a rigid instance of reclaim.

This module need not be trusted. `lyra_opt.proofs.reclaim_stand_alone` checks each proof; the search
closes the parts of the tree with the code of the checker, which computes bounds without a solver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.stopwatch import require_time
from lyra_opt.proofs.prover import NotProved, proof_head
from lyra_opt.proofs.reclaim_stand_alone import KIND, UNIT, Fleet, Part, require_closed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lyra_opt.core.documents import JsonObject

NEAR = UNIT // 64
"""A server counts as cheap if its price exceeds that of the dearest one chosen by at most this."""


def proof_by_jobs(
    instance: str, document: JsonObject, bound: int, servers: Iterable[str]
) -> JsonObject:
    """Return the proof that no choice of servers preempts less than `bound`.

    Parameters
    ----------
    instance, document
        The name of a rigid instance, and the instance as read from its file.
    bound, servers
        The value of a choice, and the ids of its servers.

    Raises
    ------
    NotProved
        If a better choice exists.
    OutOfTimeError
        If the time limit in force is reached.

    Notes
    -----
    A part branches on the job with the most weight on cheap servers, as `TreeSearch` does.
    Complexity: exponential in the worst case; about 1 ms per node for 500 pairs of job and server.
    """
    fleet, nodes = Fleet(document), list[int]()
    place = {job: place for place, job in fleet.number.items()}

    def heaviest(part: Part) -> int:
        require_time()
        prices = sorted(each for each in part.price if each is not None)
        near = prices[fleet.picks - 1] + NEAR if fleet.picks else -1
        is_cheap = [each is not None and each <= near for each in part.price]
        cheap = {
            job: fleet.weight[job] * sum(is_cheap[server] for server in part.live[job])
            for job, is_open in enumerate(part.is_open)
            if is_open
        }
        job = max(cheap, key=cheap.__getitem__, default=-1)
        if not cheap.get(job):
            raise NotProved("a better choice exists: the cheapest servers")
        nodes.append(place[job])
        return job

    require_closed(fleet, bound - 1, heaviest)
    claim = {"kind": KIND, "bound": str(bound), "solution": list(servers), "nodes": nodes}
    return {**proof_head(instance, document), **claim}
