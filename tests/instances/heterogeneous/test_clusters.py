"""Clusters of papers and of one's own."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.instances.heterogeneous.clusters import (
    CLUSTERS,
    cluster_of,
    find_cluster,
    known_gpu_types,
    read_gpu_types,
    speeds_in_words,
    types_of,
)
from lyra_opt.instances.heterogeneous.throughput_files import parse_throughputs
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Job, Workload
from tests.conftest import assert_refused
from tests.tables import tables

TABLES = tables(__file__)


def test_those_of_the_toolkit():
    """Each says where its speed is from; the figures of papers are those of the papers."""
    known = known_gpu_types()
    assert all(gpu_type.source for gpu_type in known.values())
    assert all(name == gpu_type.name for name, gpu_type in known.items())
    assert {name: known[name].price_per_hour for name in ("v100", "p100", "k80", "t4")} == {
        "v100": 0.74,
        "p100": 0.43,
        "k80": 0.135,
        "t4": 1.0,
    }
    assert known["v100"].relative_speed == 1
    assert known["t4"].relative_speed == 1 / 3
    assert known["rtx-3090"].relative_speed == 936 / 900
    assert known["h100"].relative_speed > known["a100"].relative_speed > 1


def test_ones_own_replace_and_add():
    """Of a known type what is given alone; another one needs a speed."""
    own = known_gpu_types({"h100": {"price_per_hour": 3}, "mine": {"relative_speed": "5/4"}})
    assert own["h100"].price_per_hour == 3
    assert own["h100"].relative_speed == known_gpu_types()["h100"].relative_speed
    assert own["mine"].relative_speed == 1.25
    assert "mine" not in known_gpu_types()
    measured = known_gpu_types({"h100": {"relative_speed": 2}})["h100"]
    assert (measured.relative_speed, measured.source) == (2.0, "")


def test_types_by_name():
    """In the order asked for; another name is told with those that are known."""
    assert [found.name for found in types_of(["k80", "v100"])] == ["k80", "v100"]
    with pytest.raises(
        FieldError, match='gpu_types is "abacus": unknown GPU type; known: v100, p100'
    ):
        types_of(["abacus"])


def test_speeds_of_jobs_without_rates_are_told():
    """Where they say anything: own types unlike the reference, and jobs that nobody measured."""
    job = Job.rigid(id="j", submit_s=0, gpus=1, work_gpu_s=1)
    plain = Workload(name="plain", jobs=(job,))
    cluster = cluster_of({"v100": 1, "h100": 1})
    (sentence,) = speeds_in_words(plain, cluster)
    assert "h100 3.72 (memory bandwidth" in sentence
    assert "v100" not in sentence
    measured = Job.of_gang(GangJob(id="j", gang=1, steps=1, throughput={"h100": 1.0}))
    assert speeds_in_words(replace(plain, jobs=(measured,)), cluster) == ()
    assert speeds_in_words(plain, cluster_of({"v100": 1})) == ()
    assert speeds_in_words(plain, Cluster.of_servers(1, inference_servers=2)) == ()


@pytest.mark.parametrize(("text", "message"), TABLES["damaged_types"])
def test_damage_is_named(write, text, message):
    """One line with the file, the field, its value and the rule."""
    path = write(text, "types.toml")
    assert_refused(read_gpu_types, path, message)


@pytest.mark.parametrize(("name", "gpus", "servers"), TABLES["clusters_of_papers"])
def test_clusters_of_papers(name, gpus, servers):
    """Numbers are those of the papers, and what is not is said."""
    cluster = find_cluster(name)
    assert cluster.gpus_of_type == gpus
    assert len(cluster.servers) == servers
    assert cluster.name == name
    assert cluster.assumptions
    assert CLUSTERS.find(name).name == name


def test_the_last_server_has_what_remains():
    """Seven GPUs are four and three."""
    cluster = cluster_of({"v100": 7, "k80": 1})
    assert [dict(server.gpus) for server in cluster.servers] == [
        {"v100": 4},
        {"v100": 3},
        {"k80": 1},
    ]
    assert cluster.name == "v100=7,k80=1"
    assert [gpu_type.price_per_hour for gpu_type in cluster.gpu_types] == [0.74, 0.135]


@pytest.mark.parametrize(("fields", "rates"), TABLES["fitting"])
def test_which_gangs_fit(fields, rates):
    """On one server, on several at the rate of several, or not at all."""
    alone = {"v100": 4.0, "k80": 1.0}
    measured = GangJob(id="x", steps=1, throughput=alone, **fields)
    speed = Speed(cluster_of({"v100": 6, "k80": 2}, gpus_per_server=4))
    job = Job.of_gang(measured)
    assert speed.rates_of(job) == rates
    with nullcontext() if rates else pytest.raises(UserError, match="job x"):
        speed.require_runs(Workload(name="one", jobs=(job,)))


def test_types_of_a_table():
    """They need no definition: their speed is their mean, and one that is defined keeps its own."""
    text = "model,batch_size,gpus,t4,chip,p100\nGPT,4,1,1,2,5\nGPT,8,1,1,8,5\nA,,1,1,,5\n"
    table = parse_throughputs(text, "mine.csv", name="mine")
    cluster = cluster_of({"chip": 1, "p100": 1}, table=table)
    chip, p100 = cluster.gpu_types
    assert chip.relative_speed == pytest.approx(4 / 3)
    assert "table mine" in chip.source
    assert p100 == known_gpu_types()["p100"]
    assert "chip" not in known_gpu_types()


def test_missing_prices_are_told():
    """Where others have one."""
    (sentence,) = cluster_of({"v100": 1, "t4": 1, "a100": 1}).assumptions
    assert sentence.endswith(": t4, a100.")
    assert cluster_of({"v100": 1, "k80": 1}).assumptions == ()
    assert cluster_of({"t4": 1, "a100": 1}).assumptions == ()


def test_bad_clusters():
    """Types without rates, no GPUs, unknown names."""
    with pytest.raises(FieldError, match=r'gpus is "abacus": unknown GPU type; known: v100'):
        cluster_of({"abacus": 8})
    with pytest.raises(FieldError, match=r"gpus.v100 is 0"):
        cluster_of({"v100": 0})
    with pytest.raises(FieldError, match="at least one type"):
        cluster_of({})
    with pytest.raises(UserError, match="cluster 'other': unknown cluster; known: .*hadar-60"):
        find_cluster("other")
