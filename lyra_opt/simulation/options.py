"""How a cluster behaves, whatever the scheme."""

from __future__ import annotations

from dataclasses import dataclass, field

from lyra_opt.errors import FieldError
from lyra_opt.simulation.policies.composed import SCALING_INTERVAL_S
from lyra_opt.simulation.speed import MIXED_EFFICIENCY
from lyra_opt.simulation.tenure import Forever, Leases, Rounds, Tenure
from lyra_opt.validation import require_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a cluster behaves, whatever the scheme.

    Parameters
    ----------
    seed
        For schemes that draw.
    mixed_efficiency
        Throughput of a job on own and borrowed GPUs at once, as a share of the ideal.
    scaling_interval_s
        Least time between two resizings of elastic jobs; 0 resizes at every event.
    forever, leases, rounds
        What tenures cost, for schemes that have them.
    """

    seed: int = 0
    mixed_efficiency: float = MIXED_EFFICIENCY
    scaling_interval_s: float = SCALING_INTERVAL_S
    forever: Forever = field(default_factory=Forever)
    leases: Leases = field(default_factory=Leases)
    rounds: Rounds = field(default_factory=Rounds)

    def __post_init__(self) -> None:
        if require_number("mixed_efficiency", self.mixed_efficiency, minimum=0, above=True) > 1:
            raise FieldError("mixed_efficiency", self.mixed_efficiency, "must be at most 1")
        require_number("scaling_interval_s", self.scaling_interval_s, minimum=0)

    def tenure(self, name: str) -> Tenure:
        """Return the tenure called ``forever``, ``leases`` or ``rounds``."""
        return {"forever": self.forever, "leases": self.leases, "rounds": self.rounds}[name]
