"""The schemes that come with the project; `lyra_opt.registry` lists them.

Schemes of Lyra's shape are those of its paper, those that it compares with, and ours. Rules of the
heterogeneous problem decide round by round, rules of the network problem place gangs near or far,
and Pollux decides in epochs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.heterogeneous.heuristics.policy_solver import SUMMARIES as ROUND_SUMMARIES
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES
from lyra_opt.network.heuristics.policy_solver import SUMMARIES as PLACEMENT_SUMMARIES
from lyra_opt.simulation.class_timers import manual
from lyra_opt.simulation.policies.composition import LoanRule
from lyra_opt.simulation.policies.run_time_caps import RunTimeCaps
from lyra_opt.simulation.policies.voluntary_preemption import VoluntaryPreemption
from lyra_opt.simulation.scheme import ComposedScheme, PlacementScheme, PolluxScheme, RoundScheme

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.network.heuristics.policy import PlacementPolicy


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


def _rounds(name: str, paper: str, *, needs_types: bool = False) -> RoundScheme:
    return RoundScheme(
        name=name,
        paper=paper,
        summary=ROUND_SUMMARIES[name],
        make=ROUND_POLICIES[name],
        needs_types=needs_types,
    )


ALLOX = _rounds("allox", "AlloX")
GAVEL_LAS = _rounds("gavel-las", "Gavel")
GAVEL_FIFO = _rounds("gavel-fifo", "Gavel")
GAVEL_FTF = _rounds("gavel-ftf", "Gavel")
GAVEL_THROUGHPUT = _rounds("gavel-throughput", "Gavel")
GAVEL_COST = _rounds("gavel-cost", "Gavel", needs_types=True)
GAVEL_MAKESPAN = _rounds("gavel-makespan", "Gavel")
GAVEL_WATER_FILLING = _rounds("gavel-water-filling", "Gavel")
GAVEL_HIERARCHICAL = _rounds("gavel-hierarchical", "Gavel")
GAVEL_GANDIVA = _rounds("gavel-gandiva", "Gavel")
GAVEL_LAS_AGNOSTIC = _rounds("gavel-las-agnostic", "Gavel")
GAVEL_FTF_AGNOSTIC = _rounds("gavel-ftf-agnostic", "Gavel")
GAVEL_MAKESPAN_AGNOSTIC = _rounds("gavel-makespan-agnostic", "Gavel")
GAVEL_WATER_FILLING_AGNOSTIC = _rounds("gavel-water-filling-agnostic", "Gavel")
GAVEL_ISOLATED = _rounds("gavel-isolated", "Gavel")
HADAR = _rounds("hadar", "Hadar")
HADARE = _rounds("hadare", "HadarE")
PRICED_PROGRESS = _rounds("priced-progress", "ours")
TIRESIAS = _rounds("tiresias", "Tiresias")
YARN_CS = _rounds("yarn-cs", "Hadar")


def _placement(
    name: str, paper: str, make: Callable[..., PlacementPolicy] | None = None
) -> PlacementScheme:
    return PlacementScheme(
        name=name,
        paper=paper,
        summary=PLACEMENT_SUMMARIES[name],
        make=make or PLACEMENT_POLICIES[name],
    )


BEST_FIT = _placement("best-fit", "other")
CONSOLIDATED = _placement("consolidated", "Dally")
DALLY = _placement("dally", "Dally")
GANDIVA_AFFINITY = _placement("gandiva-affinity", "Gandiva")
GANDIVA_SHUFFLED = _placement("gandiva-shuffled", "Gandiva")
MANUAL = _placement("manual", "Dally", manual)
NO_WAIT = _placement("no-wait", "Dally")
PRICED_PLACEMENT = _placement("priced-placement", "ours")
SRTF_NETWORK = _placement("srtf-network", "other")
TIRESIAS_SKEW = _placement("tiresias-skew", "Tiresias")


POLLUX = PolluxScheme(
    name="pollux",
    paper="Pollux",
    summary="every minute the allocation of greatest fitness, by the goodput of tuned jobs",
)
