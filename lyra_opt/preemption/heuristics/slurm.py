"""An imitation of the preemption of Slurm: whole jobs, with repeated reordering of the candidates.

File names are relative to ``src`` in the repository of Slurm, release 22.05.8.
"""

import numpy as np

from lyra_opt.core.stopwatch import within_time
from lyra_opt.preemption.heuristics.base import PreemptionHeuristic, State, first_fit, pods_in
from lyra_opt.preemption.index import Integers

REORDER_COUNT = 1
"""The default of ``preempt_reorder_count``. The code of Slurm reorders once more than it says."""


class Slurm(PreemptionHeuristic):
    """Preempt as Slurm does: whole jobs in order of tier and size, reordered by chosen nodes.

    Candidates are the gangs that may lose pods, in order of priority (the tier of a partition),
    then of the number of their nodes, then of file order. They leave one by one until the pending
    job fits, and nodes are selected for it. Then the candidates are reordered: the candidate that
    left last comes first, then the others that left, in decreasing order of the number of their
    nodes that were selected, then the rest. All candidates return, and the search begins again with
    the new order, twice. Victims are the gangs that left in the last search and hold a selected
    node.

    Nodes are selected in file order from the smallest group of usable nodes with room for the job.
    If no group has enough room, the largest group is taken, then another group for the rest. Groups
    are runs of consecutive usable nodes. If the demand has a level, groups are the domains, as for
    the leaf switches of topology/tree; a required level is like ``--switches=1`` without a time
    limit.

    A shape with ``max_per_node`` 1 is like ``--nodes=N --ntasks-per-node=1``, the form that was
    compared with the real program. Any other shape is like a number of tasks of which a node can
    run several, with GPUs per task: if one node of the group can run all missing tasks, the node
    that can run the fewest of them is used. The minimum of a gang does not matter, because Slurm
    shrinks no job.

    It leaves out weights and features of nodes, sockets and cores, reservations, suspended jobs,
    nodes whose jobs are just ending, ranges of node counts and of tasks per node, and the backfill
    scheduler, which limits the nodes of a job before it preempts. In all 95 recorded decisions its
    victims are those of the real program (``instances/preemption/recorded``).

    Source: Slurm 22.05.8 with select/cons_tres, preempt/partition_prio, preempt_reorder_count=1 and
    PreemptMode=CANCEL or REQUEUE; ``slurmctld/preempt.c``,
    ``plugins/preempt/partition_prio/preempt_partition_prio.c``,
    ``plugins/select/cons_common/job_test.c`` (``_run_now``),
    ``plugins/select/cons_tres/job_test.c`` (``_eval_nodes``, ``_eval_nodes_topo``). Complexity
    O(pods * (resources + areas) + nodes). Guarantee: none. The last candidate that leaves is always
    needed in its search, but earlier ones may be needless.
    """

    name = "slurm"
    takes_required_level = True

    def choose(self, state: State, rng: np.random.Generator) -> bool:  # noqa: ARG002
        """Search three times with reordered candidates, then evict the victims."""
        index = state.index
        nodes = {
            gang: np.unique(index.group_node[state.groups_of(gang)])
            for gang in np.flatnonzero(index.may_lose).tolist()
        }
        is_reachable = index.shape_allowed[0]
        queue = [gang for gang in nodes if is_reachable[nodes[gang]].any()]
        queue.sort(key=lambda gang: (index.priority[gang], len(nodes[gang])))
        searches = 0
        while True:
            trial = state.copy()
            for position, gang in enumerate(within_time(queue, every=100)):  # noqa: B007
                trial.evict_gang(gang)
                if trial.fits():
                    break
            else:
                return False
            tasks = _select(trial)
            searches += 1
            if searches > REORDER_COUNT + 1 or searches >= len(queue):
                break
            overlap = dict.fromkeys(queue, 0)
            for gang in queue[:position]:
                overlap[gang] = int(np.count_nonzero(tasks[nodes[gang]]))
            overlap[queue[position]] = len(tasks) + 1
            queue.sort(key=lambda gang: -overlap[gang])
        for gang in queue[: position + 1]:
            if tasks[nodes[gang]].any():
                state.evict_gang(gang)
        for node in np.flatnonzero(tasks):
            state.place(0, int(node), int(tasks[node]))
        return True


def _select(state: State) -> Integers:
    """Return the number of tasks of the pending job on each node, (N,); the job must fit."""
    demand = state.instance.demand
    assert demand is not None
    index, room, missing = state.index, state.room[0], int(state.missing()[0])
    if demand.shapes[0].max_per_node is None:  # a node counts with more tasks than are missing
        room = np.where(room > 0, pods_in(state.free, index.shape_request[0]), 0)
    tasks: Integers = np.zeros_like(room)
    has_level = demand.level is not None
    if has_level:
        groups = [np.flatnonzero(index.domain == domain) for domain in range(index.domains)]
    else:  # runs of consecutive nodes with room
        usable = np.flatnonzero(room)
        groups = np.split(usable, np.flatnonzero(np.diff(usable) > 1) + 1)
    while missing:
        sizes = [int(room[group].sum()) for group in groups]
        enough = [size for size in sizes if size >= missing]
        position = sizes.index(min(enough) if enough else max(sizes))
        group = groups.pop(position)
        single = room[group] >= missing
        if not has_level and single.any():
            group = group[np.flatnonzero(single)[np.argmin(room[group][single])]][None]
        tasks[group] = first_fit(missing, room[group])
        missing -= int(tasks[group].sum())
    return tasks
