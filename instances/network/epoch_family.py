"""Family ``epoch``: gangs that wait for GPUs close together beside a partly busy cluster.

See `instances.network.epoch.epoch_instance` for what is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instances.network.epoch import LEAST_TIMERS_S, VERSION, epoch_instance
from instances.network.parameters import LARGEST_GPUS, PARAMETERS, NetworkParameters
from instances.parameters import given_parameters
from lyra_opt.core.errors import UserError
from lyra_opt.network.instance import Objective
from lyra_opt.network.links import LINK_SETS
from lyra_opt.simulation.network.communication import ClosedForm
from lyra_opt.simulation.network.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.network.instance import NetworkInstance, NetworkSolution


class EpochFamily:
    """See the module; implements `instances.family.Family`."""

    name = "epoch"
    problem = "network"
    version = VERSION
    summary = "gangs of Dally's batch that wait beside a partly busy cluster of racks"

    def check(self, parameters: Mapping[str, Any]) -> NetworkParameters:
        """Return the parameters, checked; raise `UserError` naming option, value and rule."""
        checked = NetworkParameters(
            **given_parameters(
                parameters,
                PARAMETERS,
                family=self.name,
                required=("jobs",),
                optional=tuple(name for name in PARAMETERS if name != "jobs"),
                refusals={},
            )
        )
        gpus = checked.racks * checked.machines_per_rack * checked.gpus_per_machine
        if gpus > LARGEST_GPUS:
            raise UserError(
                f"--racks is {checked.racks}: must come to at most {LARGEST_GPUS:,} GPUs, with "
                f"{checked.machines_per_rack} machines a rack and {checked.gpus_per_machine} GPUs "
                f"a machine it is {gpus:,}"
            )
        return checked

    def is_seeded(self, parameters: Mapping[str, Any]) -> bool:
        """Return that seeds matter."""
        self.check(parameters)
        return True

    def generate(self, parameters: Mapping[str, Any], seed: int) -> NetworkInstance:
        """Return the instance."""
        checked = self.check(parameters)
        topology = Topology.uniform(
            racks=checked.racks,
            machines_per_rack=checked.machines_per_rack,
            gpus_per_machine=checked.gpus_per_machine,
        )
        waits = checked.timers != "none"
        name = (
            f"{self.name}-v{self.version}-n{checked.jobs}-{topology.name}"
            f"-busy{checked.busy_percent}-{checked.network}"
        )
        name += f"-{checked.objective}" if checked.objective != Objective.EPOCH else ""
        name += "" if waits else "-no-timers"
        return epoch_instance(
            topology,
            jobs=checked.jobs,
            seed=seed,
            communication=ClosedForm(links=LINK_SETS[checked.network]),
            busy_percent=checked.busy_percent,
            objective=Objective(checked.objective),
            timers_s=LEAST_TIMERS_S if waits else None,
            name=f"{name}-seed{seed}",
        )

    def known_optimum(
        self,
        parameters: Mapping[str, Any],  # noqa: ARG002
    ) -> tuple[NetworkSolution, float] | None:
        """Return None: no optimum is known by construction."""
        return None

    def remarks(
        self,
        parameters: Mapping[str, Any],  # noqa: ARG002
    ) -> Sequence[str]:
        """Return nothing: there is nothing to warn of."""
        return ()


EPOCH = EpochFamily()
