"""The inner loop that draws conclusions from the decisions of the threshold search.

A server is free (0), chosen (1) or spared (2). A job is open (0), kept (1), which no choice below
may preempt, paid for (2), whose weight is counted whatever is chosen, or safe (3), which nothing
can preempt any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lyra_opt.core.kernels import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

FREE, CHOSEN, SPARED = range(3)
OPEN, KEPT, PAID, SAFE = range(4)


class Dominance(NamedTuple):
    """Pairs of servers of `dominance_pairs`: the one dominates the other; shape (pairs,) each."""

    dominating: Any
    dominated: Any

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]]) -> Dominance:
        """Return pairs as arrays."""
        table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return cls(table[:, 0].copy(), table[:, 1].copy())


@kernel
def propagate(
    reclaim_servers: int,
    slack: Any,
    losses: Any,
    dominance: Any,
    server_state: Any,
    job_state: Any,
    residual: Any,
) -> Any:
    """Draw every conclusion from the decisions made, until none is new.

    The rules: N_R servers are chosen, neither more nor less; a job that lost more than its slack
    is paid for; a job that cannot lose more any more is safe; a job that is kept spares every
    server with more of its workers than it can still lose; a server that dominates one that is
    chosen is chosen as well, and a server dominated by one that is spared is spared.

    Parameters
    ----------
    losses, dominance
        An `Incidence` and a `Dominance`.
    server_state, job_state
        Shape (servers,) and (jobs,): what is decided, changed in place.
    residual
        Shape (jobs,): result for jobs open or kept, how many more workers the job can lose.

    Returns
    -------
    tuple
        ``(whether there may be a choice, servers still to choose, server_state, job_state,
        residual)``.

    Notes
    -----
    Time O(entries + pairs) for each round, at most one round for each decision and in practice
    two or three.
    """
    job_start = losses.job_start
    job_servers = losses.job_servers
    job_losses = losses.job_counts
    servers = len(server_state)
    changed = True
    wanted = 0
    while changed:
        changed = False
        wanted = reclaim_servers
        free = 0
        for s in range(servers):
            if server_state[s] == FREE:
                free += 1
            elif server_state[s] == CHOSEN:
                wanted -= 1
        if wanted < 0 or wanted > free:
            return False, wanted, server_state, job_state, residual
        if free > 0 and (wanted == 0 or wanted == free):
            for s in range(servers):
                if server_state[s] == FREE:
                    server_state[s] = SPARED if wanted == 0 else CHOSEN
            changed = True
            continue
        for j in range(len(slack)):
            if job_state[j] >= PAID:
                continue
            left = slack[j]
            at_risk = 0
            for entry in range(job_start[j], job_start[j + 1]):
                state = server_state[job_servers[entry]]
                if state == FREE:
                    at_risk += job_losses[entry]
                elif state == CHOSEN:
                    left -= job_losses[entry]
            if left < 0:
                if job_state[j] == KEPT:
                    return False, wanted, server_state, job_state, residual
                job_state[j] = PAID
                continue
            if at_risk <= left:
                job_state[j] = SAFE
                continue
            if job_state[j] == KEPT:
                for entry in range(job_start[j], job_start[j + 1]):
                    s = job_servers[entry]
                    if server_state[s] == FREE and job_losses[entry] > left:
                        server_state[s] = SPARED
                        changed = True
            residual[j] = left
        for pair in range(len(dominance.dominating)):
            s = dominance.dominating[pair]
            t = dominance.dominated[pair]
            if server_state[s] == SPARED and server_state[t] != SPARED:
                if server_state[t] == CHOSEN:
                    return False, wanted, server_state, job_state, residual
                server_state[t] = SPARED
                changed = True
            elif server_state[t] == CHOSEN and server_state[s] == FREE:
                server_state[s] = CHOSEN
                changed = True
    return True, wanted, server_state, job_state, residual
