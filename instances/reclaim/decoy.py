r"""Family ``decoy``: Lyra's greedy pays 8k where one preemption is enough.

For ``--reclaim k``, servers of 8 GPUs in this file order:

* the *block*, k servers that one job fills: Lyra's cost of each is 1/k;
* k *decoys*, each with one worker of 8 jobs that span D = 8k + 1 servers: cost 8/D < 1/k;
* ceil(64 k^2 / 7) *fillers*, each with at most 7 of the decoys' other 8k * 8k workers, dealt in
  turn, and one private job: cost at least 1, before and after any decoy is chosen.

So n = 2k + ceil(64 k^2 / 7). Choosing a decoy leaves the other costs of block and decoys as
they are: the greedy takes the k decoys and preempts 8k jobs, for any tie rule. The block costs
1, and every server hosts a job, so that the optimum is 1. The ratio 8k is 2.65 sqrt(n).

Source: this project. What the greedy can pay at most, and how
close this family comes to it: ``formulations/reclaim/README.md``, section 6.
"""

from __future__ import annotations

from lyra_opt.core.errors import UserError
from lyra_opt.instances.reclaim.family import (
    GPUS_PER_SERVER,
    Allocation,
    Layout,
    SolvedFamily,
    SolvedLayout,
    numbered_ids,
)

DECOY_WORKERS_PER_FILLER = 7
LARGEST_RECLAIM = 104
"""The next would have more servers than any family makes, `parameters.LARGEST_FLEET`."""


def _require_reclaim(reclaim: int) -> None:
    if not 1 <= reclaim <= LARGEST_RECLAIM:
        raise UserError(
            f"--reclaim is {reclaim}: must be an integer from 1 to {LARGEST_RECLAIM} "
            "for family decoy"
        )


def _construct(reclaim: int) -> SolvedLayout:
    """Return the instance for k = `reclaim`, with the block as its optimum."""
    jobs_per_decoy = GPUS_PER_SERVER
    decoy_jobs = jobs_per_decoy * reclaim
    filler_span = 8 * reclaim
    fillers = -(-decoy_jobs * filler_span // DECOY_WORKERS_PER_FILLER)
    first_decoy, first_filler = reclaim, 2 * reclaim
    block_job = dict.fromkeys(range(reclaim), GPUS_PER_SERVER)
    jobs: list[tuple[str, Allocation]] = [("block", block_job)]
    for job in range(decoy_jobs):
        allocation = {first_decoy + job // jobs_per_decoy: 1}
        for worker in range(filler_span):
            # Dealt in turn: the workers of a job are on distinct fillers, for there are at
            # least 8k of these, and none gets more than 7.
            allocation[first_filler + (job * filler_span + worker) % fillers] = 1
        jobs.append((f"decoy-{job + 1}", allocation))
    jobs += [(f"private-{filler + 1}", {first_filler + filler: 1}) for filler in range(fillers)]
    layout = Layout(
        server_ids=numbered_ids("block-", reclaim)
        + numbered_ids("decoy-", reclaim)
        + numbered_ids("filler-", fillers),
        jobs=jobs,
    )
    return SolvedLayout(layout, optimal_servers=range(reclaim), optimum=1)


DECOY = SolvedFamily(
    "decoy",
    version=1,
    summary="Lyra's greedy pays 8K, the optimum is 1; K sets the size",
    construct=_construct,
    require_reclaim=_require_reclaim,
)
