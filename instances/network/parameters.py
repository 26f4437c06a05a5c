"""The parameters of the network families."""

from __future__ import annotations

from dataclasses import dataclass

from lyra_opt.instances.parameters import choice, integer

LARGEST_GPUS = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkParameters:
    """What a network family is asked for."""

    jobs: int = integer("waiting gangs", 1, 10_000)
    objective: str = choice(
        "what is maximised",
        ("epoch", "work_rate", "fewest_tiers", "least_fragmentation"),
        default="epoch",
    )
    racks: int = integer("racks", 1, 1_000, default=4)
    machines_per_rack: int = integer("machines of a rack", 1, 1_000, default=4)
    gpus_per_machine: int = integer("GPUs of a machine", 1, 64, default=8)
    busy_percent: int = integer(
        "share of the GPUs that running gangs hold, at most", 0, 100, default=60, metavar="P"
    )
    network: str = choice(
        "links", ("shipped", "congested-1", "congested-2", "congested-3"), default="congested-2"
    )
    timers: str = choice(
        "how long gangs wait for GPUs close together: 6 hours for a rack and 12 for "
        "the network, as Dally's tuner at the least; or not at all",
        ("least", "none"),
        default="least",
    )
