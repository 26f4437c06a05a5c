"""Family ``offline``: gangs of Gavel's kinds that compete for unlike GPUs within a few rounds.

See `instances.heterogeneous.offline.offline_instance` for what is drawn. Instances that differ in
objective, GPUs of a server or forking alone are otherwise the same jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instances.heterogeneous.clusters import cluster_of
from instances.heterogeneous.offline import VERSION, offline_instance
from instances.heterogeneous.parameters import PARAMETERS, HeterogeneousParameters
from instances.heterogeneous.throughput_files import gavel_throughputs
from instances.parameters import given_parameters
from lyra_opt.heterogeneous.instance import Objective

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.heterogeneous.instance import HeterogeneousInstance, RoundSchedule


class OfflineFamily:
    """See the module; implements `instances.family.Family`."""

    name = "offline"
    problem = "heterogeneous"
    version = VERSION
    summary = "gangs of Gavel's kinds that compete for V100, P100 and K80 within a few rounds"

    def check(self, parameters: Mapping[str, Any]) -> HeterogeneousParameters:
        """Return the parameters, checked; raise `UserError` naming option, value and rule."""
        return HeterogeneousParameters(
            **given_parameters(
                parameters,
                PARAMETERS,
                family=self.name,
                required=("jobs",),
                optional=tuple(name for name in PARAMETERS if name != "jobs"),
                refusals={},
            )
        )

    def is_seeded(self, parameters: Mapping[str, Any]) -> bool:
        """Return that seeds matter."""
        self.check(parameters)
        return True

    def generate(self, parameters: Mapping[str, Any], seed: int) -> HeterogeneousInstance:
        """Return the instance."""
        checked = self.check(parameters)
        name = (
            f"{self.name}-v{self.version}-n{checked.jobs}-rounds{checked.rounds}"
            f"-gpus{checked.gpus_of_type}of{checked.gpus_of_server}"
            f"-release{checked.release_percent}"
        )
        name += f"-{checked.objective}" if checked.objective != Objective.UTILITY else ""
        name += "-forking" if checked.forking == "yes" else ""
        return offline_instance(
            cluster_of(
                dict.fromkeys(gavel_throughputs().gpu_types, checked.gpus_of_type),
                gpus_per_server=checked.gpus_of_server,
            ),
            jobs=checked.jobs,
            rounds=checked.rounds,
            seed=seed,
            objective=Objective(checked.objective),
            forking=checked.forking == "yes",
            latest_release_percent=checked.release_percent,
            name=f"{name}-seed{seed}",
        )

    def known_optimum(
        self,
        parameters: Mapping[str, Any],  # noqa: ARG002
    ) -> tuple[RoundSchedule, float] | None:
        """Return None: no optimum is known by construction."""
        return None

    def remarks(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return that of makespan and mean JCT an instance may have no solution."""
        if self.check(parameters).objective == Objective.UTILITY:
            return ()
        return ("all jobs must complete: where the horizon is too short, there is no solution",)


OFFLINE = OfflineFamily()
