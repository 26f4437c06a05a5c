"""Family ``offline``: gangs of Gavel's kinds, or one's own, that compete for unlike GPUs.

See `lyra_opt.instances.heterogeneous.offline.offline_instance` for what is drawn. Instances that
differ in objective, GPUs of a server or forking alone are otherwise the same jobs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES, Objective
from lyra_opt.instances.family import ParameterisedFamily
from lyra_opt.instances.heterogeneous.clusters import cluster_of
from lyra_opt.instances.heterogeneous.generated_jobs import GANGS
from lyra_opt.instances.heterogeneous.gpu_types import gpu_types, read_gpu_types
from lyra_opt.instances.heterogeneous.offline import VERSION, offline_instance
from lyra_opt.instances.heterogeneous.packing import NO, with_packing
from lyra_opt.instances.heterogeneous.parameters import (
    DEFAULT_GPU_TYPES,
    DEFAULT_THROUGHPUTS,
    HeterogeneousParameters,
)
from lyra_opt.instances.heterogeneous.throughput_files import load_throughputs
from lyra_opt.instances.parameters import parameters_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.heterogeneous.instance import Instance


class OfflineFamily(ParameterisedFamily):
    """See the module."""

    problem = "heterogeneous"
    parameters = HeterogeneousParameters
    optional = tuple(name for name in parameters_of(HeterogeneousParameters) if name != "jobs")

    def _require(self, parameters: HeterogeneousParameters) -> None:
        if parameters.forking == "yes" and parameters.objective in SHARE_OBJECTIVES:
            raise UserError(
                f'--forking is "yes": must be no for the objective {parameters.objective}'
            )

        if parameters.packing != NO and parameters.objective not in SHARE_OBJECTIVES:
            raise UserError(
                f"--packing is {parameters.packing!r}: must be no for the objective "
                f"{parameters.objective}"
            )

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance."""
        checked: HeterogeneousParameters = self.check(parameters)
        name = (
            f"{self.name}-v{self.version}-n{checked.jobs}-rounds{checked.rounds}"
            f"-gpus{checked.gpus_of_type}of{checked.gpus_of_server}"
            f"-release{checked.release_percent}"
        )
        own_types = checked.type_definitions
        known = gpu_types() if own_types is None else read_gpu_types(own_types)
        table = load_throughputs(checked.throughputs, gpu_types=known)
        if checked.gpu_types != DEFAULT_GPU_TYPES:
            name += f"-{_in_a_file_name(checked.gpu_types)}"
        name += f"-{_in_a_file_name(table.name)}" if table.name != DEFAULT_THROUGHPUTS else ""
        name += f"-{_in_a_file_name(Path(own_types).stem)}" if own_types is not None else ""
        name += f"-{checked.objective}" if checked.objective != Objective.UTILITY else ""
        name += f"-gangs{checked.largest_gang}" if checked.largest_gang < GANGS[-1] else ""
        name += f"-packed-{checked.packing}" if checked.packing != NO else ""
        name += "-forking" if checked.forking == "yes" else ""
        cluster = cluster_of(
            dict.fromkeys(checked.gpu_types.split(","), checked.gpus_of_type),
            gpus_per_server=checked.gpus_of_server,
            gpu_types=known,
            table=table,
        )
        instance = offline_instance(
            cluster,
            jobs=checked.jobs,
            rounds=checked.rounds,
            seed=seed,
            objective=Objective(checked.objective),
            forking=checked.forking == "yes",
            latest_release_percent=checked.release_percent,
            largest_gang=checked.largest_gang,
            name=f"{name}-seed{seed}",
            table=table,
        )
        return with_packing(instance, checked.packing, table, cluster.gpu_types, seed=seed)

    def remarks(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return where an instance may have no solution."""
        objective = self.check(parameters).objective
        if objective == Objective.COST:
            return ("where deadlines cannot be kept together, there is no solution",)
        if objective not in (Objective.MAKESPAN, Objective.MEAN_JCT):
            return ()
        return ("all jobs must complete: where the horizon is too short, there is no solution",)


def _in_a_file_name(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text)


OFFLINE = OfflineFamily(
    "offline",
    version=VERSION,
    summary="gangs that compete for GPUs of a few types within a few rounds",
)
