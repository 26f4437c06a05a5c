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
    given_leases,
    given_workload,
)
from experiments.simulation.rounds_command import OTHER_OPTIONS, require_none_of
from lyra_opt.commands.arguments import integer_from, number
from lyra_opt.simulation.scheme import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.simulation.network_replay import NetworkReplay
    from experiments.simulation.network_setup import NetworkSetup
    from lyra_opt.simulation.leases.network_schemes import NetworkScheme

DEFAULT_NETWORK_SCHEME = "dally"
DEFAULT_NETWORK_WORKLOAD = NETWORK_WORKLOADS[0]
MOST_WINDOW_LEASES = 1_000_000
TIMERS_SUFFIX = ".toml"

NETWORK_OPTIONS = (
    *("network", "slowdowns", "overlap", "lease_s", "hand_over_s", "timers", "window_leases"),
    "jobs_per_day",
)
NOT_ON_A_NETWORK = (
    *OTHER_OPTIONS,
    *("gpus_per_server", "gpus", "cluster", "merge_s", "copy_efficiency", "arrivals_per_hour"),
)
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


def _has_leases(name: str) -> bool:
    from lyra_opt.simulation.leases.network_schemes import LEASES, NETWORK_SCHEMES

    return name in NETWORK_SCHEMES and NETWORK_SCHEMES[name].engine == LEASES


def require_no_network(arguments: argparse.Namespace, names: Sequence[str]) -> None:
    """Raise `UserError` if anything is given that needs a topology, which is not."""
    from lyra_opt.errors import UserError

    require_none_of(NETWORK_OPTIONS, arguments, "says nothing without --topology")
    if arguments.workload in NETWORK_WORKLOADS:
        raise UserError(f"--workload {arguments.workload} needs --topology")
    for name in names:
        if name not in SCHEMES and _has_leases(name):
            raise UserError(
                f"--scheme {name} needs --topology: it places gangs in a network of tiers"
            )


def run_network(arguments: argparse.Namespace, names: Sequence[str]) -> int:
    """Simulate schemes on a network of tiers; return the exit code."""
    from experiments.simulation.carried_out import replay_each
    from experiments.simulation.network_replay import replay_network
    from experiments.simulation.page import output_folder, require_folder_path
    from experiments.simulation.printing import report_runs, say
    from lyra_opt.commands.output import stdout_kept_clean

    # All that can be wrong is found out before the first simulation.
    schemes = _schemes(arguments, names)
    out = None if arguments.out is None else Path(arguments.out)
    if out is not None:
        require_folder_path("--out", out)
    setup = _setup(arguments)
    for scheme in schemes:
        scheme.require_runs(setup.workload, setup.cluster)
    with output_folder("--out", out), stdout_kept_clean():
        say(setup.demand_in_words)
        replays = replay_each(
            schemes,
            setup.expected_makespan_s,
            lambda scheme, show: replay_network(setup, scheme, progress=show),
        )
        if replays and out is not None:
            from experiments.simulation.network_page import write_network_files

            write_network_files(replays, out)
    return report_runs(
        arguments,
        [replay.as_json_object() for replay in replays],
        schemes=len(schemes),
        print_tables=lambda: _print(replays),
    )


def _schemes(arguments: argparse.Namespace, names: Sequence[str]) -> list[NetworkScheme]:
    """Return the schemes, with the timers that are asked for."""
    from lyra_opt.network.class_timers import read_timers
    from lyra_opt.network.dally import dally, manual
    from lyra_opt.simulation.leases.network_schemes import LEASES, ROUNDS, find_network_scheme

    schemes = {name: find_network_scheme(name) for name in names}
    for option, scheme in (("timers", "manual"), ("window_leases", "dally")):
        if scheme not in schemes:
            require_none_of((option,), arguments, f"says nothing without --scheme {scheme}")
    if arguments.timers is not None:
        make_manual = (
            read_timers(arguments.timers).policy
            if isinstance(arguments.timers, Path)
            else partial(manual, *arguments.timers)
        )
        schemes["manual"] = replace(schemes["manual"], policy=make_manual)
    if arguments.window_leases is not None:
        make_dally = partial(dally, window_leases=arguments.window_leases)
        schemes["dally"] = replace(schemes["dally"], policy=make_dally)
    engines = {scheme.engine for scheme in schemes.values()}
    for engine, options, remark in (
        (LEASES, ("lease_s", "hand_over_s"), "says nothing without a scheme with leases"),
        (ROUNDS, ("round_s", "restart_s"), "says nothing without a scheme that decides in rounds"),
    ):
        if engine not in engines:
            require_none_of(options, arguments, remark)
    return list(schemes.values())


def _setup(arguments: argparse.Namespace) -> NetworkSetup:
    from experiments.simulation.network_setup import NetworkSetup
    from lyra_opt.simulation.leases.network_schemes import NetworkOptions
    from lyra_opt.simulation.rounds.setup import RESTART_S, ROUND_S, RoundOptions

    require_none_of(NOT_ON_A_NETWORK, arguments, "says nothing with --topology")
    options = NetworkOptions(
        leases=given_leases(arguments),
        rounds=RoundOptions(
            round_s=_given(arguments.round_s, ROUND_S),
            restart_s=_given(arguments.restart_s, RESTART_S),
            merge_s=0.0,  # of copies, which no scheme here runs
        ),
    )
    cluster = given_cluster(arguments)
    workload, dropped = given_workload(arguments, cluster, seed=arguments.seed)
    return NetworkSetup(workload=workload, cluster=cluster, options=options, dropped=dropped)


def _given(value: float | None, default: float) -> float:
    return default if value is None else value


def _print(replays: Sequence[NetworkReplay]) -> None:
    from experiments.simulation.network_measures import NETWORK_MEASURES
    from experiments.simulation.printing import print_tables

    setup = replays[0].setup
    print_tables(
        f"{setup.workload.name}, cluster {setup.cluster.topology.name}, network "
        f"{setup.cluster.network}",
        [replay.scheme.name for replay in replays],
        [replay.as_json_object() for replay in replays],
        NETWORK_MEASURES,
    )
