"""Families ``bf|rnd|messy`` x ``trace|dist``: a fleet filled and churned by one placement rule.

A fleet of 8-GPU servers is filled to 95 % of its GPUs; then, three times, half of the jobs,
drawn at random, end and the fleet is filled again. What remains is fragmented as a cluster is
after some time of service.

The rules are those of `lyra_opt.instances.reclaim.placement`. The sizes of the jobs are drawn from

========  =====================================================================================
trace     65 % of 1 GPU, 11 % of 2, 11 % of 4, 9 % of 8, 2.2 % of 16, 1 % of 32, 0.8 % of 64
dist      20 % each of 1, 2, 4 and 8 GPUs, 12 % of 16, 6 % of 32, 2 % of 64: what runs on
          loaned servers where small jobs are not sent to them
========  =====================================================================================

``messy`` is calibrated on earlier figures of this project (5 seeds; their generator was not kept).
Means over seeds 0 to 9 at 520 servers, for N_R = 52, 156 and 260, and those earlier figures:

===========  ====================  =====================  =================  ==================
family       LP bound              earlier                Lyra's greedy      earlier
===========  ====================  =====================  =================  ==================
messy-dist   42, 126, 211          46, 136, 227           69, 163, 232       74, 164, 248
messy-trace  91, 274, 471          -, 277, -              116, 288, 478      -
===========  ====================  =====================  =================  ==================
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lyra_opt.instances.reclaim.family import GPUS_PER_SERVER, FleetFamily
from lyra_opt.instances.reclaim.placement import PLACEMENT_RULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.instances.randomness import IntegerStream
    from lyra_opt.instances.reclaim.family import Allocation

JOB_GPUS = (1, 2, 4, 8, 16, 32, 64)
TRACE_PER_MILLE = (650, 110, 110, 90, 22, 10, 8)
DIST_PER_MILLE = (200, 200, 200, 200, 120, 60, 20)

TARGET_LOAD_PERCENT = 95
CHURN_ROUNDS = 3
MOST_FAILED_DRAWS = 1000
"""Draws of a job that does not fit after which a filling ends short of its target."""


def _fill_and_churn(
    servers: int, stream: IntegerStream, *, rule: str, per_mille: Sequence[int]
) -> list[Allocation]:
    """Return the jobs that run after the last filling, in order of their start."""
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
