"""``lyra-opt simulate`` on unlike GPUs: its options, and what it simulates."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from lyra_opt.commands.arguments import (
    integer_from,
    number,
    plain_text,
    seconds,
    seconds_or_none,
)
from lyra_opt.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from experiments.simulation.setup import Setup
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.scheme import Options, Scheme
    from lyra_opt.simulation.tenure import Rounds
    from lyra_opt.simulation.workload import Job, Workload

LYRA_LIKE, GAVEL_LIKE = "lyra-like", "gavel-like"
"""Workloads that have options of their own."""

DEFAULT_ROUND_SCHEME = "hadar"
MOST_JOBS = 1_000_000
MOST_GPUS = 1_000_000

POOL_OPTIONS = (
    *("scenario", "servers", "servers_per_rack", "inference_servers", "inference_gpu_speed"),
    *("inference_usage", "forecaster", "headroom"),
)
"""Of training and inference servers whose GPUs are alike."""

TENURE_OPTIONS = {
    "leases": ("lease_s", "hand_over_s"),
    "rounds": ("round_s", "restart_s", "merge_s", "copy_efficiency"),
}
"""Options that say something where a scheme has such a tenure."""

TENURES_IN_WORDS = {"leases": "with leases", "rounds": "that decides in rounds"}


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
        "Rates on other types than these three, such as a100 or h100, are assumed, and said to be",
    )
    where.add_argument(
        "--cluster",
        type=plain_text,
        metavar="NAME",
        help="a cluster of a paper or of yours, see below (default: that of the workload)",
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


def require_none_of(options: Sequence[str], arguments: argparse.Namespace, remark: str) -> None:
    """Raise `UserError` with the first of the options that is given, and the remark."""
    for option in options:
        if getattr(arguments, option) is not None:
            raise UserError(f"--{option.replace('_', '-')} {remark}")


def require_tenures(arguments: argparse.Namespace, schemes: Sequence[Scheme]) -> None:
    """Raise `UserError` if an option is given of a tenure that no scheme has."""
    tenures = {scheme.tenure for scheme in schemes}
    for tenure, options in TENURE_OPTIONS.items():
        if tenure not in tenures:
            remark = f"says nothing without a scheme {TENURES_IN_WORDS[tenure]}"
            require_none_of(options, arguments, remark)


def given_rounds(arguments: argparse.Namespace, **defaults: float) -> Rounds:
    """Return how rounds behave, with defaults of one's own."""
    from lyra_opt.simulation.tenure import Rounds

    given = {name: getattr(arguments, name) for name in TENURE_OPTIONS["rounds"]}
    return Rounds(**defaults | {name: value for name, value in given.items() if value is not None})


def has_unlike_gpus(arguments: argparse.Namespace) -> bool:
    """Whether jobs or cluster know several types of GPUs."""
    if arguments.gpus is not None or arguments.cluster is not None:
        return True
    return arguments.workload is not None and _workload_cluster(arguments) is not None


def _workload_cluster(arguments: argparse.Namespace) -> str | None:
    """Return the name of the cluster that a generated workload is for; None if it is for any."""
    from instances.workloads.named import find_workload

    return find_workload(arguments.workload).cluster


def make_round_setup(
    arguments: argparse.Namespace, schemes: Sequence[Scheme], options: Options
) -> Setup:
    """Return what is simulated; `UserError` if options do not go together."""
    from experiments.simulation.setup import Setup
    from instances.traces import locate
    from instances.workloads.named import find_workload, gavel_like_for

    remark = "says nothing with GPUs of several types, for schemes that decide in rounds"
    require_none_of(POOL_OPTIONS, arguments, remark)
    is_trace = arguments.jobs is not None
    if not is_trace:
        if arguments.workload == LYRA_LIKE:
            raise UserError(
                f"--workload {LYRA_LIKE} is not for GPUs of several types, as {GAVEL_LIKE} is"
            )
        require_none_of(("vc", "days"), arguments, "is for --jobs alone")
    if arguments.workload != GAVEL_LIKE:
        require_none_of(
            ("job_count", "arrivals_per_hour"), arguments, f"is for --workload {GAVEL_LIKE} alone"
        )
    cluster = _cluster(arguments)
    if is_trace:
        workload = trace_with_models(
            locate(arguments.jobs),
            cluster=cluster,
            seed=arguments.seed,
            vc=arguments.vc,
            days=arguments.days,
        )
    elif arguments.workload == GAVEL_LIKE:
        workload = gavel_like_for(
            cluster,
            arguments.seed,
            jobs=arguments.job_count,
            arrivals_per_hour=arguments.arrivals_per_hour,
        )
    else:
        workload = find_workload(arguments.workload).make(cluster, arguments.seed)
    workload, dropped = without_obstacles(
        workload, cluster, schemes, options, drop=arguments.drop_oversized
    )
    return Setup(workload=workload, cluster=cluster, options=options, dropped=dropped)


def _cluster(arguments: argparse.Namespace) -> Cluster:
    from instances.heterogeneous.clusters import GPUS_PER_SERVER, cluster_of, find_cluster
    from instances.heterogeneous.gpu_types import gpu_types

    if arguments.gpus is None:
        if arguments.gpus_per_server is not None:
            raise UserError("--gpus-per-server says nothing without --gpus")
        name = arguments.cluster or _workload_cluster(arguments)
        assert name is not None, "the workload is for a cluster"
        return find_cluster(name)
    for name in arguments.gpus:
        if name not in gpu_types():
            raise UserError(f"--gpus has {name!r}: must be one of: {', '.join(gpu_types())}")
    return cluster_of(arguments.gpus, gpus_per_server=arguments.gpus_per_server or GPUS_PER_SERVER)


def trace_with_models(
    path: str | Path,
    *,
    cluster: Cluster,
    seed: int,
    vc: str | None = None,
    days: int | None = None,
) -> Workload:
    """Read a job trace, with what its jobs train: as it says, or else drawn.

    Raises
    ------
    InputError
        If the file is no job trace.
    """
    from experiments.simulation.setup import trace_workload
    from instances.heterogeneous.throughput_files import gavel_throughputs
    from instances.heterogeneous.workload_throughputs import with_throughputs

    trace = trace_workload(path, vc=vc, days=days)
    return with_throughputs(trace, gavel_throughputs(), cluster.gpu_types, seed=seed)


def without_obstacles(
    workload: Workload,
    cluster: Cluster,
    schemes: Sequence[Scheme],
    options: Options,
    *,
    drop: bool,
) -> tuple[Workload, int]:
    """Return the jobs that a cluster can run under each scheme, and how many were left out.

    Raises
    ------
    UserError
        If there are others that are not to be left out, or none is left.
    """
    from lyra_opt.simulation.speed import Speed

    speed = Speed(cluster)
    if all(speed.rates_of(job) for job in workload.jobs) and all(
        scheme.obstacle(workload, cluster, options.tenure(scheme.tenure)) is None
        for scheme in schemes
    ):
        return workload, 0

    def obstacle(job: Job) -> str | None:
        alone = replace(workload, jobs=(job,))
        if not speed.rates_of(job):
            gang = f"job {job.id} has a gang of {job.min_gpus}"
            return f"{gang}, which no type of GPUs of cluster {cluster.name} can run"
        for scheme in schemes:
            reason = scheme.obstacle(alone, cluster, options.tenure(scheme.tenure))
            if reason is not None:
                return f"scheme {scheme.name}: {reason}"
        return None

    kept = []
    remark = ""
    for job in workload.jobs:
        reason = obstacle(job)
        if reason is None:
            kept.append(job)
        remark = remark or reason or ""
    dropped = len(workload.jobs) - len(kept)
    if not dropped:
        return workload, 0
    if not kept:
        raise UserError(f"{workload.name}: no job can run: {remark}")
    if not drop:
        others = f" ({dropped:,} jobs are too large)" if dropped > 1 else ""
        raise UserError(f"{workload.name}: {remark}{others}; --drop-oversized leaves out such jobs")
    sentence = f"{dropped:,} job{'s' * (dropped != 1)} left out that would wait for ever: {remark}."
    return (
        replace(workload, jobs=tuple(kept), assumptions=(*workload.assumptions, sentence)),
        dropped,
    )
