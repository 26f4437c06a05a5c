"""Family ``epoch``: gangs that wait for GPUs close together beside a partly busy cluster.

See `lyra_opt.instances.network.epoch.epoch_instance` for what is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.instances.family import ParameterisedFamily
from lyra_opt.instances.network.epoch import LEAST_TIMERS_S, VERSION, epoch_instance
from lyra_opt.instances.network.parameters import LARGEST_GPUS, NetworkParameters
from lyra_opt.instances.parameters import parameters_of
from lyra_opt.network.instance import Objective
from lyra_opt.network.links import LINK_SETS
from lyra_opt.simulation.network.communication import ClosedForm
from lyra_opt.simulation.network.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.network.instance import Instance


class EpochFamily(ParameterisedFamily):
    """See the module."""

    problem = "network"
    parameters = NetworkParameters
    optional = tuple(name for name in parameters_of(NetworkParameters) if name != "jobs")

    def _require(self, parameters: NetworkParameters) -> None:
        machines, gpus_each = parameters.machines_per_rack, parameters.gpus_per_machine
        gpus = parameters.racks * machines * gpus_each
        if gpus > LARGEST_GPUS:
            raise UserError(
                f"--racks is {parameters.racks}: must come to at most {LARGEST_GPUS:,} GPUs, with "
                f"{machines} machines a rack and {gpus_each} GPUs a machine it is {gpus:,}"
            )

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance."""
        checked: NetworkParameters = self.check(parameters)
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


EPOCH = EpochFamily(
    "epoch",
    version=VERSION,
    summary="gangs of Dally's batch that wait beside a partly busy cluster of racks",
)
