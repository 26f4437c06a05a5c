"""``lyra-opt simulate`` for schemes that decide in rounds: its options, and what it does."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.commands.arguments import (
    integer_from,
    number,
    plain_text,
    seconds,
    seconds_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.simulation.rounds_replay import RoundReplay, RoundScheme
    from experiments.simulation.rounds_setup import RoundSetup
    from lyra_opt.simulation.rounds.setup import HeterogeneousCluster

MIX_SIZES = (1, 3, 4, 5, 8, 10, 12)
ROUND_WORKLOADS = ("gavel-like", "hadar-480", *(f"mix-{jobs}" for jobs in MIX_SIZES))

DEFAULT_SCHEME = "lyra"
DEFAULT_ROUND_SCHEME = "hadar"
MOST_JOBS = 1_000_000
MOST_GPUS = 1_000_000

ROUND_OPTIONS = (
    *("gpus", "cluster", "round_s", "restart_s", "merge_s", "copy_efficiency"),
    *("job_count", "arrivals_per_hour"),
)
OTHER_OPTIONS = (
    *("scenario", "servers", "servers_per_rack", "inference_servers", "inference_gpu_speed"),
    *("inference_usage", "forecaster", "headroom", "capture", "capture_limit"),
)
"""Of schemes that do not decide in rounds."""


def add_round_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of schemes that decide in rounds."""
    group = parser.add_argument_group("schemes that decide in rounds")
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "--gpus",
        type=_gpus,
        metavar="TYPE=N,...",
        help="GPUs by type, the fastest first (Gavel's rounds go by this order), such as "
        "v100=20,p100=20,k80=20, on servers of one type with "
        "--gpus-per-server of them (default: 4); required with --jobs unless --cluster is given. "
        "Rates on other types than these three are assumed, and said to be",
    )
    where.add_argument(
        "--cluster",
        type=plain_text,
        metavar="NAME",
        help="a cluster of a paper, see below (default: gavel-108 for gavel-like, hadar-60 for "
        "hadar-480, hadare-aws for mixes)",
    )
    group.add_argument(
        "--round-s",
        type=seconds,
        metavar="S",
        help="length of a round (default: 360, as Gavel and Hadar have it)",
    )
    group.add_argument(
        "--restart-s",
        type=seconds_or_none,
        metavar="S",
        help="what a gang loses that starts, or goes on elsewhere (default: 10, as in Hadar, from "
        "memory)",
    )
    group.add_argument(
        "--merge-s",
        type=seconds_or_none,
        metavar="S",
        help="what a job with several copies loses in a round to merging them (default: 10; "
        "assumed)",
    )
    group.add_argument(
        "--copy-efficiency",
        type=_shares,
        metavar="PHI,...",
        help="what a step of 1, 2, ... copies is worth, the last one for more copies too "
        "(default: 1)",
    )
    group.add_argument(
        "--job-count",
        type=integer_from(1, MOST_JOBS),
        metavar="N",
        help="jobs of gavel-like (default: 200), or of dally-batch, dally-poisson (default: 500) "
        "and dally-distributed (default: 411)",
    )
    group.add_argument(
        "--arrivals-per-hour",
        type=_rate,
        metavar="RATE",
        help="jobs of gavel-like submitted an hour on average, 0 for all at once (default: 2 for "
        "each 108 GPUs)",
    )


def _gpus(text: str) -> dict[str, int]:
    """Argument type: numbers of GPUs by type."""
    rule = "must be types with their numbers, such as v100=20,k80=20"
    found: dict[str, int] = {}
    for entry in text.split(","):
        name, sign, number = entry.partition("=")
        if not (name and sign and number.isascii() and number.isdigit() and len(number) <= 9):
            raise argparse.ArgumentTypeError(f"{text!r}: {rule}")
        if name in found:
            raise argparse.ArgumentTypeError(f"{text!r}: {name} stands twice")
        found[name] = int(number)
        if not 1 <= found[name] <= MOST_GPUS:
            raise argparse.ArgumentTypeError(
                f"{text!r}: the number of {name} must be from 1 to {MOST_GPUS}"
            )
    return found


def _rate(text: str) -> float:
    """Argument type: 0, or a number that is not so small that time overflows."""
    value = number(text)
    if value != 0 and not 1e-6 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r}: must be 0, or from 1e-6 to 1e6")
    return value


def _shares(text: str) -> tuple[float, ...]:
    """Argument type: shares above 0 and at most 1, the first one 1."""
    values = tuple(number(entry) for entry in text.split(","))
    if not all(0 < value <= 1 for value in values) or values[0] != 1:
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be numbers above 0 and at most 1, the first one 1"
        )
    return values


def default_scheme(arguments: argparse.Namespace) -> str:
    """Return the scheme that is simulated where none is named."""
    has_unlike_gpus = arguments.gpus is not None or arguments.cluster is not None
    if has_unlike_gpus or arguments.workload in ROUND_WORKLOADS:
        return DEFAULT_ROUND_SCHEME
    return DEFAULT_SCHEME


def require_other_options(arguments: argparse.Namespace, schemes: Sequence[str]) -> None:
    """Raise `UserError` if anything is given that only schemes that decide in rounds know."""
    from lyra_opt.errors import UserError

    if arguments.workload in ROUND_WORKLOADS:
        raise UserError(
            f"--workload {arguments.workload} is for schemes that decide in rounds, not for "
            f"{schemes[0]}"
        )
    remark = f"is for schemes that decide in rounds, not for {schemes[0]}"
    require_none_of(ROUND_OPTIONS, arguments, remark)


def require_none_of(options: Sequence[str], arguments: argparse.Namespace, remark: str) -> None:
    """Raise `UserError` with the first of the options that is given, and the remark."""
    from lyra_opt.errors import UserError

    for option in options:
        if getattr(arguments, option) is not None:
            raise UserError(f"--{option.replace('_', '-')} {remark}")


def run_rounds(arguments: argparse.Namespace, names: Sequence[str]) -> int:
    """Simulate schemes that decide in rounds; return the exit code."""
    from experiments.simulation.carried_out import replay_each
    from experiments.simulation.page import output_folder, require_folder_path
    from experiments.simulation.printing import report_runs, say
    from experiments.simulation.rounds_replay import find_round_scheme, replay_rounds
    from lyra_opt.commands.output import stdout_kept_clean

    # All that can be wrong is found out before the first simulation.
    schemes = [find_round_scheme(name) for name in names]
    out = None if arguments.out is None else Path(arguments.out)
    if out is not None:
        require_folder_path("--out", out)
    setup = _setup(arguments, schemes)
    with output_folder("--out", out), stdout_kept_clean():
        say(setup.demand_in_words)
        replays = replay_each(
            schemes,
            setup.expected_makespan_s,
            lambda scheme, show: replay_rounds(setup, scheme, progress=show),
        )
        if replays and out is not None:
            from experiments.simulation.rounds_page import write_round_files

            write_round_files(replays, out)
    return report_runs(
        arguments,
        [replay.as_json_object() for replay in replays],
        schemes=len(schemes),
        print_tables=lambda: _print(replays),
    )


def _setup(arguments: argparse.Namespace, schemes: Sequence[RoundScheme]) -> RoundSetup:
    from experiments.simulation import rounds_setup as making
    from experiments.trace import locate
    from lyra_opt.errors import UserError
    from lyra_opt.simulation.rounds.setup import RoundOptions

    require_none_of(
        OTHER_OPTIONS,
        arguments,
        f"is not for schemes that decide in rounds, such as {schemes[0].name}",
    )
    is_trace = arguments.jobs is not None
    if not is_trace:
        if arguments.workload not in ROUND_WORKLOADS:
            raise UserError(
                f"--workload {arguments.workload} is not for schemes that decide in rounds, such "
                f"as {schemes[0].name}: must be one of: {', '.join(ROUND_WORKLOADS)}"
            )
        require_none_of(("vc", "days"), arguments, "is for --jobs alone")
    if arguments.workload != making.GAVEL_LIKE:
        require_none_of(
            ("job_count", "arrivals_per_hour"),
            arguments,
            f"is for --workload {making.GAVEL_LIKE} alone",
        )
    names = ("round_s", "restart_s", "merge_s", "copy_efficiency")
    given = {name: getattr(arguments, name) for name in names}
    options = RoundOptions(
        seed=arguments.seed,
        **{name: value for name, value in given.items() if value is not None},
    )
    cluster = _cluster(arguments)
    if is_trace:
        workload = making.trace_workload(
            locate(arguments.jobs),
            cluster=cluster,
            seed=arguments.seed,
            vc=arguments.vc,
            days=arguments.days,
        )
    else:
        workload = making.generated_workload(
            arguments.workload,
            cluster=cluster,
            seed=arguments.seed,
            jobs=arguments.job_count,
            arrivals_per_hour=arguments.arrivals_per_hour,
        )
    workload, dropped = making.without_oversized(
        workload,
        cluster,
        [scheme.make() for scheme in schemes],
        drop=arguments.drop_oversized,
    )
    return making.RoundSetup(workload=workload, cluster=cluster, options=options, dropped=dropped)


def _cluster(arguments: argparse.Namespace) -> HeterogeneousCluster:
    from experiments.simulation.rounds_setup import default_cluster
    from instances.heterogeneous.clusters import (
        GPUS_PER_SERVER,
        cluster_of,
        find_cluster,
        known_types,
    )
    from lyra_opt.errors import UserError

    if arguments.gpus is None:
        if arguments.gpus_per_server is not None:
            raise UserError("--gpus-per-server says nothing without --gpus")
        if arguments.cluster is None and arguments.jobs is not None:
            raise UserError(
                "--jobs needs --gpus or --cluster: traces do not say how large their cluster was"
            )
        return find_cluster(arguments.cluster or default_cluster(arguments.workload))
    for name in arguments.gpus:
        if name not in known_types():
            raise UserError(f"--gpus has {name!r}: must be one of: {', '.join(known_types())}")
    return cluster_of(arguments.gpus, gpus_per_server=arguments.gpus_per_server or GPUS_PER_SERVER)


def _print(replays: Sequence[RoundReplay]) -> None:
    from experiments.simulation.printing import print_tables
    from experiments.simulation.rounds_measures import ROUND_MEASURES

    setup = replays[0].setup
    print_tables(
        f"{setup.workload.name}, cluster {setup.cluster.name}",
        [replay.scheme.name for replay in replays],
        [replay.as_json_object() for replay in replays],
        ROUND_MEASURES,
    )
