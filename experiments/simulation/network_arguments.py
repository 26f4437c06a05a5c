"""What the commands that simulate a network of tiers ask of cluster and jobs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from experiments.simulation.rounds_command import require_none_of
from lyra_opt.commands.arguments import number, plain_text, share

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.simulation.leases.setup import LeaseOptions, NetworkCluster, NetworkWorkload

NETWORK_WORKLOADS = ("dally-batch", "dally-poisson", "dally-distributed")


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


def given_cluster(arguments: argparse.Namespace) -> NetworkCluster:
    """Return the cluster; `UserError` if a file is wrong, or options do not go together."""
    from experiments.simulation.network_setup import make_cluster

    return make_cluster(
        arguments.topology,
        network=arguments.network,
        slowdowns=arguments.slowdowns,
        overlap=arguments.overlap,
    )


def given_leases(arguments: argparse.Namespace) -> LeaseOptions:
    """Return how leases behave, with the seed."""
    from lyra_opt.simulation.leases.setup import LeaseOptions

    given = {"lease_s": arguments.lease_s, "hand_over_s_per_gpu": arguments.hand_over_s}
    return LeaseOptions(
        seed=arguments.seed, **{name: value for name, value in given.items() if value is not None}
    )


def given_workload(
    arguments: argparse.Namespace, cluster: NetworkCluster, *, seed: int
) -> tuple[NetworkWorkload, int]:
    """Return the jobs that a cluster can hold, and how many were left out.

    Raises
    ------
    UserError
        If there are no such jobs, or options do not go together.
    """
    from experiments.simulation import network_setup as making
    from experiments.trace import locate
    from lyra_opt.errors import UserError

    if arguments.jobs is None:
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
    if arguments.jobs is None:
        workload = making.generated_workload(
            arguments.workload,
            seed=seed,
            jobs=arguments.job_count,
            jobs_per_day=arguments.jobs_per_day,
        )
    else:
        workload = making.trace_workload(
            locate(arguments.jobs),
            models=cluster.communication.models(),
            seed=seed,
            vc=arguments.vc,
            days=arguments.days,
        )
    gpus = cluster.topology.gpus
    return making.without_oversized(workload, gpus, drop=arguments.drop_oversized)
