"""``lyra-opt simulate --topology``: schemes on a network of tiers."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.simulation.network_arguments import (
    NETWORK_WORKLOADS,
    add_cluster_arguments,
    given_cluster,
    given_workload,
)
from experiments.simulation.rounds_command import POOL_OPTIONS, require_none_of
from lyra_opt.commands.arguments import integer_from, number
from lyra_opt.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from experiments.simulation.setup import Setup
    from lyra_opt.network.policy import PlacementPolicy
    from lyra_opt.simulation.scheme import Options, Scheme

DEFAULT_NETWORK_SCHEME = "dally"
DEFAULT_NETWORK_WORKLOAD = NETWORK_WORKLOADS[0]
MOST_WINDOW_LEASES = 1_000_000
TIMERS_SUFFIX = ".toml"

NETWORK_OPTIONS = ("network", "slowdowns", "overlap", "jobs_per_day")
NOT_ON_A_NETWORK = (*POOL_OPTIONS, "gpus_per_server", "gpus", "cluster", "arrivals_per_hour")
"""Options that say nothing with ``--topology``."""


def add_network_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of simulations on a network of tiers."""
    group = parser.add_argument_group("schemes on a network of tiers")
    add_cluster_arguments(group, is_required=False)
    group.add_argument(
        "--timers",
        type=_timers,
        metavar="RACK,NETWORK",
        help="leases that gangs wait before they accept a rack, and several, for scheme manual; "
        "two numbers of at least 0, inf for ever (default: 6,12); or a file such as tune-timers "
        "writes, with timers by gang",
    )
    group.add_argument(
        "--window-leases",
        type=integer_from(1, MOST_WINDOW_LEASES),
        metavar="H",
        help="leases that Dally's tuner looks back, for scheme dally (default: 24; assumed)",
    )


def _timers(text: str) -> tuple[float, float] | Path:
    """Argument type: two numbers of leases, or a file."""
    if text.endswith(TIMERS_SUFFIX):
        return Path(text)
    values = tuple(number(entry) for entry in text.split(","))
    if len(values) != 2 or not all(value >= 0 for value in values):
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be two numbers of leases of at least 0, such as 6,12 or 0,inf, or a "
            f"{TIMERS_SUFFIX} file"
        )
    return values[0], values[1]


def require_no_network(arguments: argparse.Namespace) -> None:
    """Raise `UserError` if anything is given that needs a topology, which is not."""
    require_none_of(NETWORK_OPTIONS, arguments, "says nothing without --topology")
    if arguments.workload in NETWORK_WORKLOADS:
        raise UserError(f"--workload {arguments.workload} needs --topology")


def given_schemes(arguments: argparse.Namespace, names: Sequence[str]) -> list[Scheme]:
    """Return the schemes, with the timers that are asked for."""
    from lyra_opt.network.class_timers import read_timers
    from lyra_opt.network.dally import dally, manual
    from lyra_opt.simulation.scheme import PlacementScheme, find_scheme

    schemes = {name: find_scheme(name) for name in names}
    for option, scheme in (("timers", "manual"), ("window_leases", "dally")):
        if scheme not in schemes:
            require_none_of((option,), arguments, f"says nothing without --scheme {scheme}")

    def give_rule(name: str, make: Callable[[], PlacementPolicy]) -> None:
        scheme = schemes[name]
        assert isinstance(scheme, PlacementScheme), "timers are those of a placement rule"
        schemes[name] = replace(scheme, make=make)

    if arguments.timers is not None:
        give_rule(
            "manual",
            read_timers(arguments.timers).policy
            if isinstance(arguments.timers, Path)
            else partial(manual, *arguments.timers),
        )
    if arguments.window_leases is not None:
        give_rule("dally", partial(dally, window_leases=arguments.window_leases))
    return list(schemes.values())


def make_network_setup(arguments: argparse.Namespace, options: Options) -> Setup:
    """Return what is simulated; `UserError` if options do not go together."""
    from experiments.simulation.setup import Setup

    require_none_of(NOT_ON_A_NETWORK, arguments, "says nothing with --topology")
    cluster = given_cluster(arguments)
    workload, dropped = given_workload(arguments, cluster, seed=arguments.seed)
    return Setup(workload=workload, cluster=cluster, options=options, dropped=dropped)
