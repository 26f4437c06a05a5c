"""Schemes of Lyra's shape: those of its paper, those that it compares with, and ours."""

from __future__ import annotations

from lyra_opt.simulation.scheme import ComposedScheme

FIFO = ComposedScheme(
    name="fifo", paper="Lyra", summary="first come, first served; no loans, no scaling (Baseline)"
)

SJF = ComposedScheme(
    name="sjf",
    paper="Lyra",
    summary="shortest job that fits first, by true duration",
    queue="shortest",
)

OPPORTUNISTIC = ComposedScheme(
    name="opportunistic",
    paper="Lyra",
    summary="fifo; fungible jobs may run on idle inference servers, taken back at random",
    reclaimer="random",
)

OPPORTUNISTIC_CONFINED = ComposedScheme(
    name="opportunistic-confined",
    paper="Lyra",
    summary="opportunistic, with fungible jobs on inference servers alone",
    reclaimer="random",
    confines_fungible=True,
)

RANDOM = ComposedScheme(
    name="random",
    paper="Lyra",
    summary="Lyra's loaning without scaling; servers to give back are drawn",
    queue="shortest-base",
    reclaimer="random",
)

SCF = ComposedScheme(
    name="scf",
    paper="Lyra",
    summary="Lyra's loaning without scaling; servers with fewest jobs are given back",
    queue="shortest-base",
    reclaimer="scf",
)

GANDIVA = ComposedScheme(
    name="gandiva",
    paper="Lyra",
    summary="fifo; jobs grow while GPUs are free and none waits",
    scaling="policy:gandiva",
    grows_only_without_queue=True,
)

AFS = ComposedScheme(
    name="afs",
    paper="Lyra",
    summary="base demands first, then workers to the largest gain of throughput per GPU",
    queue="shortest-base",
    scaling="policy:afs",
)

POLLUX = ComposedScheme(
    name="pollux",
    paper="Lyra",
    summary="first come, first served; the fitness of tuned jobs is maximised",
    scaling="goodput:pollux",
)

LYRA = ComposedScheme(
    name="lyra",
    paper="Lyra",
    summary="shortest base demands, knapsack, loans, server preemption cost",
    queue="shortest-base",
    reclaimer="lyra-greedy",
    scaling="knapsack:mckp-core",
)

LYRA_LOANING = ComposedScheme(
    name="lyra-loaning",
    paper="Lyra",
    summary="lyra without scaling",
    queue="shortest-base",
    reclaimer="lyra-greedy",
)

LYRA_SCALING = ComposedScheme(
    name="lyra-scaling",
    paper="Lyra",
    summary="lyra without loans",
    queue="shortest-base",
    scaling="knapsack:mckp-core",
)

LYRA_TUNED = ComposedScheme(
    name="lyra-tuned",
    paper="Lyra",
    summary="lyra-scaling with tuned batch sizes (Lyra+TunedJobs)",
    queue="shortest-base",
    scaling="goodput:knapsack",
)

LYRA_EXACT = ComposedScheme(
    name="lyra-exact",
    paper="Lyra",
    summary="lyra, with the proved optimum of every reclaiming",
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
