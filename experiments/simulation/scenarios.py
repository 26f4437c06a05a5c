"""What is assumed of jobs beyond what traces say; Lyra (EuroSys 2023), section 7.1.

A scenario is an entry point of the group ``lyra_opt.scenarios``, in the tree or outside of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.plugins import Plugins

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A set of assumptions.

    Parameters
    ----------
    name
        The name the command line knows it by.
    summary
        What it assumes, on one line.
    shares
        Arguments of `instances.workloads.scenario.Scenario`.
    mixed_efficiency
        Throughput of a job on both kinds of GPUs, as a share of the ideal; None for the
        default.
    """

    name: str
    summary: str
    shares: Mapping[str, Any]
    mixed_efficiency: float | None = None


PLAIN = Scenario(
    name="plain",
    summary="no job is elastic, fungible or heterogeneous",
    shares={"elastic_percent": 0, "fungible_percent": 0},
)
BASIC = Scenario(name="basic", summary="5 % of the jobs elastic, 21 % fungible", shares={})
ADVANCED = Scenario(
    name="advanced",
    summary="basic, and 10 % heterogeneous",
    shares={"heterogeneous_percent": 10},
)
HETEROGENEOUS = Scenario(
    name="heterogeneous",
    summary="5 % elastic, 10 % heterogeneous, none fungible",
    shares={"heterogeneous_percent": 10, "fungible_percent": 0},
)
IDEAL = Scenario(
    name="ideal",
    summary="21 % fungible, all elastic and heterogeneous without loss",
    shares={"all_elastic": True},
    mixed_efficiency=1.0,
)

SCENARIOS = Plugins("lyra_opt.scenarios", "scenario", Scenario)
"""All scenarios by name."""


def find_scenario(name: str) -> Scenario:
    """Return the scenario called `name`; `UserError` that names all if there is none."""
    scenario: Scenario = SCENARIOS.find(name)
    return scenario
