"""Schemes of all papers on one cluster with a network of tiers, by name.

Each runs in the engine that it was made for; all leave the same record.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lyra_opt.errors import UserError
from lyra_opt.heterogeneous.policies import ROUND_POLICIES
from lyra_opt.heterogeneous.policies import SUMMARIES as ROUND_SUMMARIES
from lyra_opt.network.policies import PLACEMENT_POLICIES
from lyra_opt.network.policies import SUMMARIES as PLACEMENT_SUMMARIES
from lyra_opt.simulation.leases.elastic_schemes import equal_machine_gpus, run_elastic_scheme
from lyra_opt.simulation.leases.engine import LeaseSimulation
from lyra_opt.simulation.leases.round_schemes import run_round_policy
from lyra_opt.simulation.leases.setup import LeaseOptions
from lyra_opt.simulation.rounds.setup import RoundOptions
from lyra_opt.simulation.scheme import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.network.policy import PlacementPolicy
    from lyra_opt.simulation.leases.record import NetworkRecord
    from lyra_opt.simulation.leases.setup import NetworkCluster, NetworkWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """How each engine behaves whatever the scheme.

    Parameters
    ----------
    leases
        Of schemes with leases; its seed is that of all engines.
    rounds
        Of schemes that decide in rounds; their own seed is not asked.
    """

    leases: LeaseOptions = field(default_factory=LeaseOptions)
    rounds: RoundOptions = field(default_factory=RoundOptions)


LEASES, ELASTIC, ROUNDS = "leases", "elastic", "rounds"
"""The engines: gangs give their GPUs back after a lease, never, or as each round begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkScheme:
    """A rule that runs gangs on a network of tiers.

    Parameters
    ----------
    name
        The name the command line knows it by.
    paper
        Whose rule it is.
    engine
        ``leases``, ``elastic`` or ``rounds``.
    summary
        What it does, on one line.
    policy
        Makes its rule for a run with leases; None takes the one of that name.
    """

    name: str
    paper: str
    engine: str
    summary: str
    policy: Callable[[], PlacementPolicy] | None = None

    def require_runs(self, workload: NetworkWorkload, cluster: NetworkCluster) -> None:
        """Raise `UserError` if it can never run a job, or not on such a cluster."""
        cluster.require_runs(workload)
        if self.engine == ELASTIC:
            equal_machine_gpus(self.name, cluster.topology)

    def run(
        self,
        workload: NetworkWorkload,
        cluster: NetworkCluster,
        *,
        options: NetworkOptions | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> NetworkRecord:
        """Replay a workload on a cluster.

        Raises
        ------
        UserError
            If the scheme can never run a job, or not on such a cluster.
        """
        options = options or NetworkOptions()
        if self.engine == LEASES:
            policy = (self.policy or PLACEMENT_POLICIES[self.name])()
            return (
                LeaseSimulation(
                    workload, cluster, policy, options=options.leases, progress=progress
                )
                .run()
                .record
            )
        if self.engine == ELASTIC:
            seed = options.leases.seed
            return run_elastic_scheme(self.name, workload, cluster, seed=seed, progress=progress)
        rounds = replace(options.rounds, seed=options.leases.seed)
        rule = ROUND_POLICIES[self.name]()
        return run_round_policy(rule, workload, cluster, options=rounds, progress=progress)


_PAPERS = {
    "dally": "Dally",
    "manual": "Dally",
    "no-wait": "Dally",
    "consolidated": "Dally",
    "tiresias-skew": "Tiresias",
    "gandiva-affinity": "Gandiva",
    "priced-placement": "ours",
    "fifo": "Lyra",
    "lyra": "Lyra",
    "least-loss": "ours",
    "hadar": "Hadar",
    "tiresias": "Tiresias",
    "yarn-cs": "Hadar",
    "priced-progress": "ours",
    "gavel-las": "Gavel",
    "gavel-ftf": "Gavel",
    "gavel-throughput": "Gavel",
    "gavel-makespan": "Gavel",
}
"""Whose rules they are, or who compares with them where nobody calls them his own."""

_FIFO_ALIKE = "gangs are not elastic and there are no inference servers, so it is fifo"
_LYRA_ALIKE = "gangs are not elastic and there are no inference servers, so it is lyra"
_OWN_SPEED = "the speed of its jobs follows from a goodput model of its own"

LEFT_OUT: Mapping[str, str] = {
    "opportunistic": _FIFO_ALIKE,
    "opportunistic-confined": _FIFO_ALIKE,
    "gandiva": _FIFO_ALIKE,
    "sjf": "all durations are known, so it is lyra",
    "random": _LYRA_ALIKE,
    "scf": _LYRA_ALIKE,
    "afs": _LYRA_ALIKE,
    "lyra-loaning": _LYRA_ALIKE,
    "lyra-scaling": _LYRA_ALIKE,
    "lyra-exact": _LYRA_ALIKE,
    "pollux": _OWN_SPEED,
    "lyra-tuned": _OWN_SPEED,
    "allox": "it runs jobs of one GPU alone",
    "hadare": "it forks jobs, each copy on one machine",
    "gavel-cost": "its prices are by type of GPU, and there is one type",
}
"""Schemes that say nothing of their own on a network of tiers, and why."""


def _schemes() -> dict[str, NetworkScheme]:
    summaries = (
        (LEASES, {name: PLACEMENT_SUMMARIES[name] for name in PLACEMENT_POLICIES}),
        (ELASTIC, {name: scheme.summary for name, scheme in SCHEMES.items()}),
        (ROUNDS, {name: ROUND_SUMMARIES[name] for name in ROUND_POLICIES}),
    )
    return {
        name: NetworkScheme(
            name=name, paper=_PAPERS.get(name, "other"), engine=engine, summary=summary
        )
        for engine, entries in summaries
        for name, summary in entries.items()
        if name not in LEFT_OUT
    }


NETWORK_SCHEMES: Mapping[str, NetworkScheme] = _schemes()
"""Every scheme that runs gangs on a network of tiers, those with leases first."""


def find_network_scheme(name: str) -> NetworkScheme:
    """Return the scheme called `name`; `UserError` that says why there is none."""
    if name in LEFT_OUT:
        raise UserError(
            f"--scheme is {name!r}, which does not run with --topology: {LEFT_OUT[name]}"
        )
    if name not in NETWORK_SCHEMES:
        raise UserError(f"--scheme is {name!r}: must be one of: {', '.join(NETWORK_SCHEMES)}")
    return NETWORK_SCHEMES[name]
