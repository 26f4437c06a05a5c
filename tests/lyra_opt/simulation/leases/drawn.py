"""Small clusters and workloads drawn at random, for properties of all schemes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import assume
from hypothesis import strategies as st

from lyra_opt.network.communication import ClosedForm
from lyra_opt.network.links import LINK_SETS
from lyra_opt.network.topology import Rack, Topology
from lyra_opt.simulation.leases.setup import (
    LeaseOptions,
    NetworkCluster,
    NetworkJob,
    NetworkWorkload,
)

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

MODELS = ("resnet50", "vgg11", "bert", "resnet18")

OPTIONS = st.builds(
    LeaseOptions,
    lease_s=st.sampled_from((60.0, 100.0)),
    hand_over_s_per_gpu=st.sampled_from((0.0, 1.0)),
)


@st.composite
def clusters(draw: DrawFn, *, are_uniform: bool = False) -> NetworkCluster:
    """Draw a few racks of a few machines; machines of equal size if asked for."""
    links = LINK_SETS[draw(st.sampled_from(("shipped", "congested-1", "congested-2")))]
    sizes = st.just(draw(st.integers(1, 4))) if are_uniform else st.integers(1, 4)
    racks = draw(
        st.lists(
            st.builds(Rack, machines=st.integers(1, 3), gpus_per_machine=sizes),
            min_size=1,
            max_size=3,
        )
    )
    return NetworkCluster(
        topology=Topology(name="drawn", racks=tuple(racks)),
        communication=ClosedForm(links=links),
        network=links.name,
    )


@st.composite
def workloads(draw: DrawFn, cluster: NetworkCluster, *, most_jobs: int = 6) -> NetworkWorkload:
    """Draw gangs that fit a cluster, some of them at once."""
    jobs = []
    submit_s = 0.0
    for number in range(draw(st.integers(1, most_jobs))):
        submit_s += draw(st.sampled_from((0.0, 0.0, 7.0, 50.0, 100.0, 1000.0)))
        gang = draw(st.integers(1, 8))
        assume(gang <= cluster.topology.gpus)
        jobs.append(
            NetworkJob(
                id=f"j{number}",
                submit_s=submit_s,
                gang=gang,
                work_gpu_s=gang * draw(st.sampled_from((1.0, 30.0, 60.0, 130.0))),
                model=draw(st.sampled_from(MODELS)),
            )
        )
    return NetworkWorkload(name="drawn", jobs=tuple(jobs))


@st.composite
def cases(
    draw: DrawFn, *, are_uniform: bool = False
) -> tuple[NetworkWorkload, NetworkCluster, LeaseOptions]:
    """Draw a cluster, gangs that fit it, and how it behaves."""
    cluster = draw(clusters(are_uniform=are_uniform))
    return draw(workloads(cluster)), cluster, draw(OPTIONS)
