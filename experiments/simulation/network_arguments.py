"""What the commands that simulate a network of tiers ask of cluster and jobs."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.simulation.measures import counted
from experiments.simulation.rounds_command import LYRA_LIKE, require_none_of
from lyra_opt.commands.arguments import number, plain_text, share
from lyra_opt.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.tenure import Leases
    from lyra_opt.simulation.workload import Workload

NETWORK_WORKLOADS = BATCH, POISSON, DISTRIBUTED = (
    "dally-batch",
    "dally-poisson",
    "dally-distributed",
)
"""Workloads that have options of their own, for a topology alone."""


def add_cluster_arguments(group: argparse._ActionsContainer, *, is_required: bool) -> None:
    """Add the options of cluster and links, ``--topology`` first.

    Parameters
    ----------
    is_required
        Whether there has to be a topology.
    """
    group.add_argument(
        "--topology",
        type=plain_text,
        required=is_required,
        metavar="FILE",
        help="TOML file with racks, machines and GPUs, and the links between them; an example is "
        "instances/network/four-racks.toml"
        + (
            ""
            if is_required
            else ". With it, schemes of all kinds run side by side on one cluster, gangs with the "
            "speed that their placement allows"
        ),
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
        help="measured slowdowns in place of links (CSV: model, gpus, tier, slowdown), for each "
        "model and gang of several GPUs at each tier that it can span. Generated workloads train "
        "resnet50, resnet18, vgg11, alexnet, mobilenetv3 and bert; a trace what its column model "
        "says, or else models drawn from the file",
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
        type=_number_from(1, 1e9),
        metavar="S",
        help="for how long a gang holds its GPUs before it gives all of them back, from 1 to 1e9 "
        "(default: 3600)",
    )
    group.add_argument(
        "--hand-over-s",
        type=_number_from(0, 1e9),
        metavar="S",
        help="for how long released GPUs stay idle, for each GPU of their gang, up to 1e9 "
        "(default: 1)",
    )
    group.add_argument(
        "--jobs-per-day",
        type=_number_from(1e-6, 1e6),
        metavar="RATE",
        help="jobs of dally-poisson and dally-distributed submitted a day on average (default: "
        "100, and 59.6; published are 10, 14.3, 25, 50, 75 and 100)",
    )


def _number_from(least: float, most: float) -> Callable[[str], float]:
    """Return an argument type: a number from `least` to `most`, so that no time overflows."""

    def parse(text: str) -> float:
        value = number(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: must be from {least:g} to {most:g}")
        return value

    return parse


def given_cluster(arguments: argparse.Namespace) -> Cluster:
    """Return the cluster; `UserError` if a file is wrong, or options do not go together."""
    return make_cluster(
        arguments.topology,
        network=arguments.network,
        slowdowns=arguments.slowdowns,
        overlap=arguments.overlap,
    )


def given_leases(arguments: argparse.Namespace) -> Leases:
    """Return how leases behave."""
    from lyra_opt.simulation.tenure import Leases

    given = {"lease_s": arguments.lease_s, "hand_over_s_per_gpu": arguments.hand_over_s}
    return Leases(**{name: value for name, value in given.items() if value is not None})


def given_workload(
    arguments: argparse.Namespace, cluster: Cluster, *, seed: int
) -> tuple[Workload, int]:
    """Return the jobs that a cluster can hold, and how many were left out.

    Raises
    ------
    UserError
        If there are no such jobs, or options do not go together.
    """
    from instances.traces import locate
    from instances.workloads.named import find_workload

    if arguments.jobs is None:
        of_types = find_workload(arguments.workload).cluster is not None
        if of_types or arguments.workload == LYRA_LIKE:
            raise UserError(
                f"--workload {arguments.workload} is not for --topology, as these are: "
                f"{', '.join(NETWORK_WORKLOADS)}"
            )
        require_none_of(("vc", "days"), arguments, "is for --jobs alone")
        if arguments.workload not in NETWORK_WORKLOADS:
            remark = f"is not for --workload {arguments.workload}"
            require_none_of(("job_count",), arguments, remark)
    else:
        require_none_of(("job_count",), arguments, "is for --workload alone")
    if arguments.workload not in (POISSON, DISTRIBUTED):
        remark = f"is for --workload {POISSON} and {DISTRIBUTED} alone"
        require_none_of(("jobs_per_day",), arguments, remark)
    if arguments.jobs is None:
        workload = generated_workload(
            arguments.workload,
            cluster=cluster,
            seed=seed,
            jobs=arguments.job_count,
            jobs_per_day=arguments.jobs_per_day,
        )
    else:
        assert cluster.communication is not None, "the cluster has a network"
        workload = trace_with_models(
            locate(arguments.jobs),
            models=cluster.communication.models(),
            seed=seed,
            vc=arguments.vc,
            days=arguments.days,
        )
    return without_oversized(workload, cluster.gpus, drop=arguments.drop_oversized)


def make_cluster(
    path: str | Path,
    *,
    network: str | None = None,
    slowdowns: str | Path | None = None,
    overlap: float | None = None,
) -> Cluster:
    """Return a cluster and how its links work out.

    Parameters
    ----------
    path
        TOML file with the racks.
    network
        Name of the links that take the place of the file's; None leaves those.
    slowdowns
        CSV file with measured slowdowns in place of the closed form over links.
    overlap
        Of the closed form; see `lyra_opt.network.communication.ClosedForm`.

    Raises
    ------
    UserError
        If a file is wrong, there are no such links, or links are given beside slowdowns.
    """
    from lyra_opt.network.communication import ClosedForm, read_slowdowns
    from lyra_opt.network.links import find_link_set
    from lyra_opt.network.topology import read_topology
    from lyra_opt.simulation.cluster import Cluster

    links = None if network is None else find_link_set(network)
    topology, links = read_topology(path, network=links)
    if slowdowns is None:
        communication = ClosedForm(links=links, overlap=overlap or 0.0)
        hidden = (
            f"; {100 * communication.overlap:g} % of an iteration's computing can hide it"
            if communication.overlap
            else ", none of which hides behind computing"
        )
        return Cluster.of_racks(
            topology,
            communication,
            network=links.name,
            assumptions=(
                "Assumed in place of ASTRA-sim: gradients are reduced in a ring over the slowest "
                f"tier that a gang spans, layer by layer{hidden}; compute times and bytes of the "
                "models are the sums of the profiles in Dally's public simulator, which look odd: "
                "orders of magnitude.",
            ),
        )
    for option, value in (("network", network), ("overlap", overlap)):
        if value is not None:
            raise UserError(f"--{option} says nothing with --slowdowns, which stand for the links")
    return Cluster.of_racks(
        topology,
        read_slowdowns(slowdowns),
        network="measured slowdowns",
        assumptions=("Slowdowns by model, gang and tier are those of a file.",),
    )


def generated_workload(
    name: str,
    *,
    cluster: Cluster,
    seed: int,
    jobs: int | None = None,
    jobs_per_day: float | None = None,
) -> Workload:
    """Return a workload by name.

    Parameters
    ----------
    name
        Of one of the `NETWORK_WORKLOADS`, or of somebody's own, which takes no options.
    cluster
        Where it runs.
    seed
        Of the draws.
    jobs
        How many; None for as many as were published.
    jobs_per_day
        Of ``dally-poisson`` and ``dally-distributed``; None for the busiest rate that was
        published, and for the published one.
    """
    from instances.network import job_sets
    from instances.network.generated_jobs import (
        DISTRIBUTED_JOBS_PER_DAY,
        dally_batch,
        dally_distributed,
        dally_poisson,
    )
    from instances.workloads.named import DALLY_JOBS_PER_DAY, find_workload

    if name == BATCH:
        return dally_batch(seed=seed, jobs=jobs or job_sets.BATCH.jobs)
    if name == POISSON:
        return dally_poisson(
            seed=seed,
            jobs=jobs or job_sets.BATCH.jobs,
            jobs_per_day=jobs_per_day or DALLY_JOBS_PER_DAY,
        )
    if name == DISTRIBUTED:
        return dally_distributed(
            seed=seed,
            jobs=jobs or job_sets.DISTRIBUTED.jobs,
            jobs_per_day=jobs_per_day or DISTRIBUTED_JOBS_PER_DAY,
        )
    return find_workload(name).make(cluster, seed)


def trace_with_models(
    path: str | Path,
    *,
    models: Collection[str],
    seed: int,
    vc: str | None = None,
    days: int | None = None,
) -> Workload:
    """Read a job trace, and draw what its jobs train where it does not say.

    Parameters
    ----------
    path
        Of the trace.
    models
        Those that can be drawn.
    seed
        Of the draws.
    vc, days
        The virtual cluster, and how many of the first days; None for all.

    Raises
    ------
    InputError
        If the file is no job trace.
    """
    from experiments.simulation.setup import trace_workload
    from instances.network.trace_jobs import assigned_models, shares_of

    trace = trace_workload(path, vc=vc, days=days)
    return assigned_models(trace, seed=seed, shares=shares_of(models))


def without_oversized(workload: Workload, gpus: int, *, drop: bool) -> tuple[Workload, int]:
    """Return the jobs that so many GPUs can hold, and how many were left out.

    Raises
    ------
    UserError
        If there are others that are not to be left out, or none is left.
    """
    kept = tuple(job for job in workload.jobs if job.min_gpus <= gpus)
    dropped = len(workload.jobs) - len(kept)
    if not dropped:
        return workload, 0
    largest = max(workload.jobs, key=lambda job: job.min_gpus)
    there_are = counted(gpus, "GPU")
    remark = f"job {largest.id} has a gang of {largest.min_gpus:,}, but the cluster {there_are}"
    if not kept:
        raise UserError(f"{workload.name}: no job fits the cluster: {remark}")
    if not drop:
        others = f" ({dropped:,} jobs are too large)" if dropped > 1 else ""
        raise UserError(f"{workload.name}: {remark}{others}; --drop-oversized leaves out such jobs")
    sentence = f"{counted(dropped, 'job')} larger than {there_are} left out."
    assumptions = (*workload.assumptions, sentence)
    return replace(workload, jobs=kept, assumptions=assumptions), dropped
