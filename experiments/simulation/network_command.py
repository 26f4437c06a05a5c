"""``lyra-opt simulate --topology``: schemes on a network of tiers."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.simulation.rounds_command import OTHER_OPTIONS, require_none_of
from lyra_opt.commands.arguments import (
    integer_from,
    number,
    plain_text,
    seconds,
    seconds_or_none,
    share,
)
from lyra_opt.simulation.scheme import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.simulation.network_replay import NetworkReplay
    from experiments.simulation.network_setup import NetworkSetup
    from lyra_opt.simulation.leases.network_schemes import NetworkScheme

NETWORK_WORKLOADS = ("dally-batch", "dally-poisson", "dally-distributed")
DEFAULT_NETWORK_SCHEME = "dally"
MOST_WINDOW_LEASES = 1_000_000

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
    group.add_argument(
        "--topology",
        type=plain_text,
        metavar="FILE",
        help="TOML file with racks, machines and GPUs, and the links between them; an example is "
        "instances/network/four-racks.toml. With it, schemes of all kinds run side by side on one "
        "cluster, gangs with the speed that their placement allows",
    )
    group.add_argument(
        "--network",
        type=plain_text,
        metavar="NAME",
        help="links in place of the file's: shipped, congested-1, congested-2 or congested-3",
    )
    group.add_argument(
        "--slowdowns",
        type=plain_text,
        metavar="FILE",
        help="measured slowdowns in place of links (CSV: model, gpus, tier, slowdown)",
    )
    group.add_argument(
        "--overlap",
        type=share,
        metavar="SHARE",
        help="share of an iteration's computing behind which communication can hide, 0 to 1 "
        "(default: 0)",
    )
    group.add_argument(
        "--lease-s",
        type=seconds,
        metavar="S",
        help="for how long a gang holds its GPUs before it gives all of them back (default: 3600)",
    )
    group.add_argument(
        "--hand-over-s",
        type=seconds_or_none,
        metavar="S",
        help="for how long released GPUs stay idle, for each GPU of their gang (default: 1)",
    )
    group.add_argument(
        "--timers",
        type=_timers,
        metavar="RACK,NETWORK",
        help="leases that gangs wait before they accept a rack, and several, for scheme manual; "
        "inf for ever (default: 6,12)",
    )
    group.add_argument(
        "--window-leases",
        type=integer_from(1, MOST_WINDOW_LEASES),
        metavar="H",
        help="leases that Dally's tuner looks back, for scheme dally (default: 24; assumed)",
    )
    group.add_argument(
        "--jobs-per-day",
        type=_rate,
        metavar="RATE",
        help="jobs of dally-poisson and dally-distributed submitted a day on average (default: "
        "100, and 59.6; published are 10, 14.3, 25, 50, 75 and 100)",
    )


def _timers(text: str) -> tuple[float, float]:
    """Argument type: two numbers of leases."""
    values = tuple(number(entry) for entry in text.split(","))
    if len(values) != 2 or not all(value >= 0 for value in values):
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be two numbers of leases of at least 0, such as 6,12 or 0,inf"
        )
    return values[0], values[1]


def _rate(text: str) -> float:
    """Argument type: a rate that is not so small that time overflows."""
    value = number(text)
    if not 1e-6 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r}: must be from 1e-6 to 1e6")
    return value


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
    from experiments.simulation.page import require_folder_path
    from experiments.simulation.printing import report_runs, say
    from lyra_opt.commands.output import stdout_kept_clean

    # All that can be wrong is found out before the first simulation.
    schemes = _schemes(arguments, names)
    if arguments.out is not None:
        require_folder_path("--out", Path(arguments.out))
    setup = _setup(arguments)
    for scheme in schemes:
        scheme.require_runs(setup.workload, setup.cluster)
    say(setup.demand_in_words)
    with stdout_kept_clean():
        replays = replay_each(
            schemes,
            setup.expected_makespan_s,
            lambda scheme, show: replay_network(setup, scheme, progress=show),
        )
        if replays and arguments.out is not None:
            from experiments.simulation.network_page import write_network_files

            write_network_files(replays, Path(arguments.out))
    return report_runs(
        arguments,
        [replay.as_json_object() for replay in replays],
        schemes=len(schemes),
        print_tables=lambda: _print(replays),
    )


def _schemes(arguments: argparse.Namespace, names: Sequence[str]) -> list[NetworkScheme]:
    """Return the schemes, with the timers that are asked for."""
    from lyra_opt.network.dally import dally, manual
    from lyra_opt.simulation.leases.network_schemes import LEASES, ROUNDS, find_network_scheme

    schemes = {name: find_network_scheme(name) for name in names}
    for option, scheme in (("timers", "manual"), ("window_leases", "dally")):
        if scheme not in schemes:
            require_none_of((option,), arguments, f"says nothing without --scheme {scheme}")
    if arguments.timers is not None:
        make_manual = partial(manual, *arguments.timers)
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
    from experiments.simulation import network_setup as making
    from experiments.trace import locate
    from lyra_opt.errors import UserError
    from lyra_opt.simulation.leases.network_schemes import NetworkOptions
    from lyra_opt.simulation.leases.setup import HAND_OVER_S_PER_GPU, LEASE_S, LeaseOptions
    from lyra_opt.simulation.rounds.setup import RESTART_S, ROUND_S, RoundOptions

    require_none_of(NOT_ON_A_NETWORK, arguments, "says nothing with --topology")
    is_trace = arguments.jobs is not None
    if not is_trace:
        if arguments.workload not in NETWORK_WORKLOADS:
            raise UserError(
                f"--workload {arguments.workload} is not for --topology: must be one of: "
                f"{', '.join(NETWORK_WORKLOADS)}"
            )
        require_none_of(("vc", "days"), arguments, "is for --jobs alone")
    else:
        require_none_of(("job_count",), arguments, "is for --workload alone")
    if arguments.workload not in (making.POISSON, making.DISTRIBUTED):
        remark = f"is for --workload {making.POISSON} and {making.DISTRIBUTED} alone"
        require_none_of(("jobs_per_day",), arguments, remark)
    options = NetworkOptions(
        leases=LeaseOptions(
            lease_s=_given(arguments.lease_s, LEASE_S),
            hand_over_s_per_gpu=_given(arguments.hand_over_s, HAND_OVER_S_PER_GPU),
            seed=arguments.seed,
        ),
        rounds=RoundOptions(
            round_s=_given(arguments.round_s, ROUND_S),
            restart_s=_given(arguments.restart_s, RESTART_S),
            merge_s=0.0,  # of copies, which no scheme here runs
        ),
    )
    cluster = making.make_cluster(
        arguments.topology,
        network=arguments.network,
        slowdowns=arguments.slowdowns,
        overlap=arguments.overlap,
    )
    if is_trace:
        workload = making.trace_workload(
            locate(arguments.jobs), seed=arguments.seed, vc=arguments.vc, days=arguments.days
        )
    else:
        workload = making.generated_workload(
            arguments.workload,
            seed=arguments.seed,
            jobs=arguments.job_count,
            jobs_per_day=arguments.jobs_per_day,
        )
    workload, dropped = making.without_oversized(
        workload, cluster.topology.gpus, drop=arguments.drop_oversized
    )
    return making.NetworkSetup(workload=workload, cluster=cluster, options=options, dropped=dropped)


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
