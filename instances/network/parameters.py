"""The parameters of the network families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from instances.parameters import ChoiceParameter, IntegerParameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from instances.parameters import Parameter

LARGEST_JOBS = 10_000
LARGEST_RACKS = 1_000
LARGEST_MACHINES_PER_RACK = 1_000
LARGEST_GPUS_PER_MACHINE = 64
LARGEST_GPUS = 32_768

DEFAULT_RACKS = 4
DEFAULT_MACHINES_PER_RACK = 4
DEFAULT_GPUS_PER_MACHINE = 8
DEFAULT_BUSY_PERCENT = 60
DEFAULT_NETWORK = "congested-2"

PARAMETERS: Mapping[str, Parameter] = {
    "jobs": IntegerParameter(help="waiting gangs", least=1, largest=LARGEST_JOBS),
    "objective": ChoiceParameter(
        help="what is maximised (default epoch)",
        choices=("epoch", "work_rate", "fewest_tiers", "least_fragmentation"),
        default="epoch",
    ),
    "racks": IntegerParameter(
        help=f"racks (default {DEFAULT_RACKS})",
        least=1,
        largest=LARGEST_RACKS,
        default=DEFAULT_RACKS,
    ),
    "machines_per_rack": IntegerParameter(
        help=f"machines of a rack (default {DEFAULT_MACHINES_PER_RACK})",
        least=1,
        largest=LARGEST_MACHINES_PER_RACK,
        default=DEFAULT_MACHINES_PER_RACK,
    ),
    "gpus_per_machine": IntegerParameter(
        help=f"GPUs of a machine (default {DEFAULT_GPUS_PER_MACHINE})",
        least=1,
        largest=LARGEST_GPUS_PER_MACHINE,
        default=DEFAULT_GPUS_PER_MACHINE,
    ),
    "busy_percent": IntegerParameter(
        help=f"share of the GPUs that running gangs hold, at most (default {DEFAULT_BUSY_PERCENT})",
        least=0,
        largest=100,
        default=DEFAULT_BUSY_PERCENT,
        metavar="P",
    ),
    "network": ChoiceParameter(
        help=f"links (default {DEFAULT_NETWORK})",
        choices=("shipped", "congested-1", "congested-2", "congested-3"),
        default=DEFAULT_NETWORK,
    ),
    "timers": ChoiceParameter(
        help="how long gangs wait for GPUs close together: 6 hours for a rack and 12 for the "
        "network, as Dally's tuner at the least; or not at all (default least)",
        choices=("least", "none"),
        default="least",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkParameters:
    """Checked parameters of a network family; see `PARAMETERS`."""

    jobs: int
    objective: str = "epoch"
    racks: int = DEFAULT_RACKS
    machines_per_rack: int = DEFAULT_MACHINES_PER_RACK
    gpus_per_machine: int = DEFAULT_GPUS_PER_MACHINE
    busy_percent: int = DEFAULT_BUSY_PERCENT
    network: str = DEFAULT_NETWORK
    timers: str = "least"
