"""What is assumed of jobs beyond what traces say; Lyra (EuroSys 2023), section 7.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN = "plain"
BASIC = "basic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A set of assumptions.

    Parameters
    ----------
    summary
        What it assumes, on one line.
    shares
        Arguments of `instances.workloads.scenario.Scenario`.
    mixed_efficiency
        Throughput of a job on both kinds of GPUs, as a share of the ideal; None for the engine's
        default.
    """

    summary: str
    shares: Mapping[str, Any]
    mixed_efficiency: float | None = None


SCENARIOS: Mapping[str, Scenario] = {
    PLAIN: Scenario(
        summary="no job is elastic, fungible or heterogeneous",
        shares={"elastic_percent": 0, "fungible_percent": 0},
    ),
    BASIC: Scenario(summary="5 % of the jobs elastic, 21 % fungible", shares={}),
    "advanced": Scenario(
        summary="basic, and 10 % heterogeneous", shares={"heterogeneous_percent": 10}
    ),
    "heterogeneous": Scenario(
        summary="5 % elastic, 10 % heterogeneous, none fungible",
        shares={"heterogeneous_percent": 10, "fungible_percent": 0},
    ),
    "ideal": Scenario(
        summary="21 % fungible, all elastic and heterogeneous without loss",
        shares={"all_elastic": True},
        mixed_efficiency=1.0,
    ),
}


def find_scenario(name: str) -> Scenario:
    """Return the scenario called `name`; `UserError` that names all if there is none."""
    if name not in SCENARIOS:
        raise UserError(f"--scenario is {name!r}: must be one of: {', '.join(SCENARIOS)}")
    return SCENARIOS[name]
