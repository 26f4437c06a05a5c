"""The parameters of the network families."""

from __future__ import annotations

from dataclasses import dataclass

from instances.parameters import ChoiceParameter, IntegerParameter, declared

LARGEST_GPUS = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkParameters:
    """What a network family is asked for."""

    jobs: int = declared(IntegerParameter(meaning="waiting gangs", least=1, largest=10_000))
    objective: str = declared(
        ChoiceParameter(
            meaning="what is maximised",
            choices=("epoch", "work_rate", "fewest_tiers", "least_fragmentation"),
            default="epoch",
        )
    )
    racks: int = declared(IntegerParameter(meaning="racks", least=1, largest=1_000, default=4))
    machines_per_rack: int = declared(
        IntegerParameter(meaning="machines of a rack", least=1, largest=1_000, default=4)
    )
    gpus_per_machine: int = declared(
        IntegerParameter(meaning="GPUs of a machine", least=1, largest=64, default=8)
    )
    busy_percent: int = declared(
        IntegerParameter(
            meaning="share of the GPUs that running gangs hold, at most",
            least=0,
            largest=100,
            default=60,
            metavar="P",
        )
    )
    network: str = declared(
        ChoiceParameter(
            meaning="links",
            choices=("shipped", "congested-1", "congested-2", "congested-3"),
            default="congested-2",
        )
    )
    timers: str = declared(
        ChoiceParameter(
            meaning="how long gangs wait for GPUs close together: 6 hours for a rack and 12 for "
            "the network, as Dally's tuner at the least; or not at all",
            choices=("least", "none"),
            default="least",
        )
    )
