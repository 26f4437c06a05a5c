"""Jobs, clusters, tenures and the like are what they say, or are refused: field, value and rule.

``refused.toml`` lists what is refused, by the object that refuses it; ``refused_files.toml`` lists
what is refused in files.
"""

from functools import partial

import numpy as np
import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.network.links import Link, LinkSet
from lyra_opt.simulation.clairvoyant.gangs import Capacity, Gangs
from lyra_opt.simulation.class_timers import read_timers
from lyra_opt.simulation.cluster import Cluster, GpuType, LoanPlan, Server
from lyra_opt.simulation.communication import ClosedForm, TrainedModel, read_slowdowns
from lyra_opt.simulation.forecast import Autoregressive, Oracle
from lyra_opt.simulation.loaning import Orchestrator, clairvoyant_loans
from lyra_opt.simulation.scheme import Options, find_scheme
from lyra_opt.simulation.tenure import Epochs, Forever, Leases, Rounds
from lyra_opt.simulation.topology import Topology, read_topology
from lyra_opt.simulation.workload import InferenceDemand, Job
from tests.conftest import assert_refused
from tests.tables import tables

TABLES, FILES = tables(__file__), tables(__file__, "refused_files")
VALID = FILES.pop("valid")
READERS = {
    "topology": read_topology,
    "racks": read_topology,
    "timers": read_timers,
    "slowdowns": read_slowdowns,
}
SERVERS = (
    {"id": "s0", "gpus": {"a": 4, "b": 2}},
    {"id": "s1", "gpus": {"b": 3, "a": 0}},
    {"id": "s2", "gpus": {"a": 1}},
)


def job(measured=None, **fields):
    plain = {"id": "a", "submit_s": 0, "work_worker_s": 60, "min_workers": 2, "max_workers": 4}
    if measured is not None:
        gang = {"id": "g", "gang": 2, "steps": 90, "throughput": {"fast": 2}, **measured}
        fields["measured"] = GangJob(**gang)
    return Job(**{**plain, **fields})


def cluster(*, gpu_types=("a", "b"), servers=SERVERS, topology=None, name="unlike"):
    racks = None
    if topology is not None:
        count, machines, gpus = topology
        racks = Topology.uniform(racks=count, machines_per_rack=machines, gpus_per_machine=gpus)
    return Cluster(
        name=name,
        gpu_types=tuple(GpuType(name=each) for each in gpu_types),
        servers=tuple(Server(**each) for each in servers),
        topology=racks,
    )


def capacity(since_s=(0.0,), gpus=(1,)):
    return Capacity(since_s=np.array(since_s), gpus=np.array(gpus, dtype=np.int64))


LINK = Link(bandwidth_gb_per_s=1, latency_s=0)
MAKERS = {
    "Job": job,
    "InferenceDemand": partial(InferenceDemand, name="demand", step_s=300, busy_share=(0.5, 1)),
    "GpuType": partial(GpuType, name="T4"),
    "LoanPlan": partial(LoanPlan, interval_s=300, on_loan=(1,), busy_share=(0.5,)),
    "Cluster.of_servers": partial(Cluster.of_servers, servers=1),
    "Cluster": cluster,
    "Server": partial(Server, id="s"),
    "Forever": Forever,
    "Options": Options,
    "Leases": Leases,
    "Epochs": Epochs,
    "Rounds": Rounds,
    "TrainedModel": partial(TrainedModel, name="x", layers=1, compute_s=1, all_reduce_bytes=0),
    "ClosedForm": ClosedForm,
    "Link": partial(Link, bandwidth_gb_per_s=1, latency_s=0),
    "LinkSet": partial(LinkSet, name="x", machine=LINK, rack=LINK, network=LINK),
    "Topology": partial(Topology, name="x"),
    "Orchestrator": partial(Orchestrator, servers=100, forecaster=Oracle()),
    "clairvoyant_loans": partial(clairvoyant_loans, lendable=(1,), interval_s=300, return_cost_s=0),
    "Autoregressive": Autoregressive,
    "Gangs.of": partial(Gangs.of, release_s=[0.0], run_s=[1.0], gpus=[1]),
    "Capacity": capacity,
    "lyra-reserve": lambda **parts: find_scheme("lyra-reserve").with_parameters(parts),
}


def cases(tables):
    return [(what, why) for what, table in tables.items() for why in table]


@pytest.mark.parametrize(("what", "why"), cases(TABLES))
def test_refused(what, why):
    """The error names the field, the value and the rule."""
    fields, message = TABLES[what][why]
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()}
    with pytest.raises(FieldError) as caught:
        MAKERS[what](**given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("kind", "why"), cases(FILES))
def test_a_file_is_refused(kind, why, write):
    """On one line with file, field, value and rule; what is valid is read."""
    old, new, message = FILES[kind][why]
    valid = VALID[kind]
    READERS[kind](write(valid))
    text = new if old == "all" else valid + new if old == "end" else valid.replace(old, new)
    assert text != valid
    assert_refused(READERS[kind], write(text), message)
