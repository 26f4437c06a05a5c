"""What a placement rule decides on in a simulation, as a standalone instance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.network.instance import Instance, Machine, Objective, WaitingJob
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.network.heuristics.policy import PlacementState


def instance_of(
    state: PlacementState, *, name: str, timers_s: Sequence[tuple[float, float]] | None = None
) -> Instance:
    """Return a decision as an instance; O(machines + jobs).

    On GPUs faster than reference ones a gang computes more than all of the time, which an instance
    does not know: there its weight is larger and its time shorter instead, so that it is worth as
    much.

    Parameters
    ----------
    state
        With at least one waiting gang.
    name
        Of the instance.
    timers_s
        Of each waiting gang, for a rack and for the network, inf for ever; None takes those that
        were given with the jobs.
    """
    machines, waiting = state.machines, state.waiting
    if timers_s is None:
        timers_s = list(
            zip(waiting.rack_timer_s.tolist(), waiting.network_timer_s.tolist(), strict=True)
        )
    faster = np.maximum(1.0, waiting.efficiency.max(axis=1))
    efficiency = waiting.efficiency / faster[:, None]
    sizes = np.diff(machines.first_machine_of_rack)
    rack_of = np.repeat(np.arange(len(sizes)), sizes)
    return Instance(
        name=name,
        objective=Objective.EPOCH,
        waiting_weight_per_s=state.waiting_weight_per_s,
        machines=tuple(
            Machine(
                id=f"m{place}",
                rack=f"r{rack_of[place]}",
                gpus=int(gpus),
                free_gpus=int(machines.free_gpus[place]),
                affinity=int(machines.affinity[place]) or None,
            )
            for place, gpus in enumerate(machines.gpus)
        ),
        jobs=tuple(
            WaitingJob(
                id=str(job_id),
                gang=int(waiting.gang[place]),
                efficiency={
                    tier.label: float(efficiency[place, tier])
                    for tier in Tier
                    if efficiency[place, tier] > 0
                },
                score=float(waiting.score[place]),
                waiting_s=float(waiting.waiting_s[place]),
                weight=float(waiting.weight[place] * faster[place]),
                rack_timer_s=_seconds(rack_s),
                network_timer_s=_seconds(network_s),
                remaining_s=float(waiting.remaining_s[place] / faster[place]),
                attained_gpu_s=float(waiting.attained_gpu_s[place]),
                needs_consolidation=bool(waiting.needs_consolidation[place]),
            )
            for place, (job_id, (rack_s, network_s)) in enumerate(
                zip(waiting.ids, timers_s, strict=True)
            )
        ),
    )


def _seconds(timer_s: float) -> float | None:
    return None if math.isinf(timer_s) else timer_s
