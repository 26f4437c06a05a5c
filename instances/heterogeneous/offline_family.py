"""Family ``offline``: gangs of Gavel's kinds, or one's own, that compete for unlike GPUs.

See `instances.heterogeneous.offline.offline_instance` for what is drawn. Instances that differ in
objective, GPUs of a server or forking alone are otherwise the same jobs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instances.heterogeneous.clusters import cluster_of
from instances.heterogeneous.generated_jobs import GANGS
from instances.heterogeneous.gpu_types import gpu_types, read_gpu_types
from instances.heterogeneous.offline import VERSION, offline_instance
from instances.heterogeneous.parameters import (
    DEFAULT_GPU_TYPES,
    DEFAULT_THROUGHPUTS,
    PARAMETERS,
    HeterogeneousParameters,
)
from instances.heterogeneous.throughput_files import load_throughputs
from instances.parameters import given_parameters
from lyra_opt.core.errors import UserError
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES, Objective

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.heterogeneous.instance import HeterogeneousInstance, RoundSchedule


class OfflineFamily:
    """See the module; implements `instances.family.Family`."""

    name = "offline"
    problem = "heterogeneous"
    version = VERSION
    summary = "gangs that compete for GPUs of a few types within a few rounds"

    def check(self, parameters: Mapping[str, Any]) -> HeterogeneousParameters:
        """Return the parameters, checked; raise `UserError` naming option, value and rule."""
        checked = HeterogeneousParameters(
            **given_parameters(
                parameters,
                PARAMETERS,
                family=self.name,
                required=("jobs",),
                optional=tuple(name for name in PARAMETERS if name != "jobs"),
                refusals={},
            )
        )
        if checked.forking == "yes" and checked.objective in SHARE_OBJECTIVES:
            raise UserError(f'--forking is "yes": must be no for the objective {checked.objective}')
        return checked

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
        own_types = checked.type_definitions
        known = gpu_types() if own_types is None else read_gpu_types(own_types)
        table = load_throughputs(checked.throughputs, gpu_types=known)
        if checked.gpu_types != DEFAULT_GPU_TYPES:
            name += f"-{_in_a_file_name(checked.gpu_types)}"
        name += f"-{_in_a_file_name(table.name)}" if table.name != DEFAULT_THROUGHPUTS else ""
        name += f"-{_in_a_file_name(Path(own_types).stem)}" if own_types is not None else ""
        name += f"-{checked.objective}" if checked.objective != Objective.UTILITY else ""
        name += f"-gangs{checked.largest_gang}" if checked.largest_gang < GANGS[-1] else ""
        name += "-forking" if checked.forking == "yes" else ""
        return offline_instance(
            cluster_of(
                dict.fromkeys(checked.gpu_types.split(","), checked.gpus_of_type),
                gpus_per_server=checked.gpus_of_server,
                gpu_types=known,
                table=table,
            ),
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

    def known_optimum(
        self,
        parameters: Mapping[str, Any],  # noqa: ARG002
    ) -> tuple[RoundSchedule, float] | None:
        """Return None: no optimum is known by construction."""
        return None

    def remarks(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return that of makespan and mean JCT an instance may have no solution."""
        if self.check(parameters).objective not in (Objective.MAKESPAN, Objective.MEAN_JCT):
            return ()
        return ("all jobs must complete: where the horizon is too short, there is no solution",)


def _in_a_file_name(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text)


OFFLINE = OfflineFamily()
