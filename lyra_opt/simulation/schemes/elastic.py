"""Schemes of Lyra's shape: those of its paper, those that it compares with, and ours."""

from __future__ import annotations

from typing import Any

from lyra_opt.simulation.policies.loan_rule import LoanRule
from lyra_opt.simulation.policies.run_time_caps import RunTimeCaps
from lyra_opt.simulation.policies.voluntary_preemption import VoluntaryPreemption
from lyra_opt.simulation.scheme import ComposedScheme


def _of_lyra(name: str, summary: str, **parts: Any) -> ComposedScheme:
    return ComposedScheme(name=name, paper="Lyra", summary=summary, **parts)


FIFO = _of_lyra("fifo", "first come, first served; no loans, no scaling (Baseline)")

SJF = _of_lyra("sjf", "shortest job that fits first, by true duration", queue="shortest")

OPPORTUNISTIC = _of_lyra(
    "opportunistic",
    "fifo; fungible jobs may run on idle inference servers, taken back at random",
    reclaimer="random",
)

OPPORTUNISTIC_CONFINED = _of_lyra(
    "opportunistic-confined",
    "opportunistic, with fungible jobs on inference servers alone",
    reclaimer="random",
    confines_fungible=True,
)

RANDOM = _of_lyra(
    "random",
    "Lyra's loaning without scaling; servers to give back are drawn",
    queue="shortest-base",
    reclaimer="random",
)

SCF = _of_lyra(
    "scf",
    "Lyra's loaning without scaling; servers with fewest jobs are given back",
    queue="shortest-base",
    reclaimer="scf",
)

GANDIVA = _of_lyra(
    "gandiva",
    "fifo; jobs grow while GPUs are free and none waits",
    scaling="policy:gandiva",
    grows_only_without_queue=True,
)

AFS = _of_lyra(
    "afs",
    "base demands first, then workers to the largest gain of throughput per GPU",
    queue="shortest-base",
    scaling="policy:afs",
)

LYRA = _of_lyra(
    "lyra",
    "shortest base demands, knapsack, loans, server preemption cost",
    queue="shortest-base",
    reclaimer="lyra-greedy",
    scaling="knapsack:mckp-core",
)

LYRA_LOANING = _of_lyra(
    "lyra-loaning", "lyra without scaling", queue="shortest-base", reclaimer="lyra-greedy"
)

LYRA_SCALING = _of_lyra(
    "lyra-scaling", "lyra without loans", queue="shortest-base", scaling="knapsack:mckp-core"
)

LYRA_TUNED = _of_lyra(
    "lyra-tuned",
    "lyra-scaling with tuned batch sizes (Lyra+TunedJobs)",
    queue="shortest-base",
    scaling="goodput:knapsack",
)

LYRA_EXACT = _of_lyra(
    "lyra-exact",
    "lyra, with the proved optimum of every reclaiming",
    queue="shortest-base",
    reclaimer="exact",
    scaling="knapsack:mckp-core",
)

LEAST_LOSS = ComposedScheme(
    name="least-loss",
    paper="ours",
    summary="ours: smallest remaining work, also for scaling; least lost work reclaimed",
    queue="smallest-work",
    reclaimer="exact",
    weighs_lost_work=True,
    scaling="policy:srw",
)

LYRA_RESERVE = ComposedScheme(
    name="lyra-reserve",
    paper="ours",
    summary="ours: lyra, but long jobs are capped and not put on loan; least lost work reclaimed",
    queue="shortest-base",
    reclaimer="exact",
    weighs_lost_work=True,
    scaling="knapsack:mckp-core",
    run_time_caps=RunTimeCaps(),
    loan_rule=LoanRule(),
    shrinks_longer_only=True,
    voluntary_preemption=VoluntaryPreemption(),
)
