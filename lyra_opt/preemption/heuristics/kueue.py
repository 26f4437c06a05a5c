"""An imitation of Kueue's classical preemption: evict whole gangs, then let some return."""

import numpy as np

from lyra_opt.core.stopwatch import require_time
from lyra_opt.preemption.heuristics.base import PreemptionHeuristic, State

PODS = "pods"
"""The resource that counts the pods of a node; queues usually do not limit it."""


class Kueue(PreemptionHeuristic):
    """Evict whole gangs in a fixed order until the pending gang fits, then return unneeded gangs.

    This is an imitation of the classical preemption of Kueue with topology-aware scheduling down to
    the nodes. It is written from the code and is unchecked against the real program. It leaves out
    the quotas, the hierarchy of cohorts, fair sharing, and gangs that are being evicted already.

    Candidates are the gangs that may lose pods and hold at least one requested resource; a resource
    named ``pods`` does not count. Their order: gangs of other queues than the demand's, then lower
    priority, then later start, then file order. Gangs are evicted in this order until the pending
    pods fit. Then all evicted gangs but the last are examined in reverse order, and each gang
    returns if the pending pods still fit.

    Notes
    -----
    Commit ff69552 (22 August 2026), ``preemption.go``, ``common/ordering.go`` and
    ``classical/candidate_generator.go`` in ``pkg/scheduler/preemption``.
    Complexity O(candidates * (pod groups of a gang + areas)) for one shape. Guarantee: for one
    shape without hard budgets it finds victims whenever evicting all candidates makes room, and no
    victim can return. They can cost arbitrarily more than the optimum. A gang that
    blocks a node without holding a requested resource is never evicted (issue 10497).
    """

    name = "kueue"
    takes_several_shapes = True
    takes_required_level = True

    def choose(self, state: State, rng: np.random.Generator) -> bool:  # noqa: ARG002
        """Evict candidates until the pending pods fit, then let gangs return."""
        taken = []
        for gang in _candidates(state):
            require_time()
            state.evict_gang(gang)
            taken.append(gang)
            if state.fits():
                break
        else:
            return False
        state.put_back_gangs(taken[-2::-1])
        return True


def _candidates(state: State) -> list[int]:
    """Return the gangs that the rule may evict, in its order."""
    instance, index = state.instance, state.index
    assert instance.demand is not None
    queue = instance.demand.queue
    is_requested = np.array([name != PODS for name in instance.resources], dtype=bool)
    is_requested &= (index.shape_request[state.wanted > 0] > 0).any(axis=0)
    holds = np.unique(index.group_gang[index.group_request[:, is_requested].any(axis=1)])

    gangs = holds[index.may_lose[holds]]
    is_own = np.array([instance.gangs[gang].queue == queue for gang in gangs], dtype=bool)
    order = np.lexsort((-index.start_s[gangs], index.priority[gangs], is_own))
    return [int(gang) for gang in gangs[order]]
