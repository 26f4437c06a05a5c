"""Snapshots of Slurm: its notations, its JSON of all versions, its text, and damaged files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import InputError
from lyra_opt.experiments.planning.planning import plan
from lyra_opt.experiments.planning.questions import Drain, Fit
from lyra_opt.instances.snapshots.anonymise import anonymised
from lyra_opt.instances.snapshots.reading import read_file, read_snapshot
from lyra_opt.instances.snapshots.slurm import SHARE, SLURM, WHOLE
from lyra_opt.instances.snapshots.slurm_names import (
    generic_resources,
    hosts,
    trackable_resources,
)

REAL = Path(__file__).parent / "slurm_22_05"
PARTITIONS = """PartitionName=low
   Nodes=n[1-3] OverSubscribe=NO PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high
   Nodes=n[1-3] OverSubscribe=NO PriorityTier=5 PreemptMode=OFF
"""


def number(value):
    return {"set": value is not None, "infinite": False, "number": value or 0}


def job(name, state="RUNNING", nodes="", gpus=0, version="v0.0.43", **fields) -> Any:
    """Return a job as the data parsers print it; it has 2 CPUs and 1 GiB on each node."""
    names = hosts(nodes)
    held = {"cpus": {"count": 2}, "memory": {"allocated": 1024}}
    allocation = {"list": nodes, "allocation": [{"name": each, **held} for each in names]}
    tres = f"cpu={2 * len(names)},mem={len(names)}G,node={len(names)}"
    return {
        "job_id": name,
        "job_state": state if version == "v0.0.39" else state.split(","),
        "partition": "low",
        "user_name": "alice",
        "nodes": nodes,
        "array_job_id": number(0),
        "array_task_id": number(None),
        "het_job_id": number(0),
        "node_count": number(len(names) or 1),
        "tasks": number(1),
        "start_time": number(1000),
        "gres_detail": [f"gpu:h100:{gpus}(IDX:0-{gpus - 1})" if gpus else ""] * len(names),
        "tres_alloc_str": tres if names else "",
        "tres_req_str": "cpu=2,mem=1G,node=1" if not names else tres,
        "tres_per_node": f"gres/gpu:{gpus}" if gpus else "",
        "job_resources": {"nodes": nodes if version < "v0.0.41" else allocation},
        **fields,
    }


def node(name, state=("IDLE",), used=0, **fields):
    """Return a node with 8 GPUs as the data parsers print it."""
    return {
        "name": name,
        "state": state,
        "cpus": 64,
        "effective_cpus": 62,
        "real_memory": 2048,
        "specialized_memory": 1024,
        "gres": "gpu:h100:8(S:0-1)",
        "gres_used": f"gpu:h100:{used}(IDX:N/A)",
        "partitions": ["low", "high"],
        "features": ["ib", "nvme"],
        **fields,
    }


def read(folder, jobs=(), nodes=None, *texts, version="v0.0.43"):
    """Return the snapshot of jobs, nodes (n1, n2 and n3 by default) and texts."""
    meta = {"plugin": {"data_parser": f"data_parser/{version}"}, "slurm": {"release": "x"}}
    nodes = [node(f"n{place}") for place in (1, 2, 3)] if nodes is None else nodes
    contents = [json.dumps({"jobs": list(jobs), "meta": meta, "errors": []})]
    contents += [json.dumps({"nodes": nodes, "meta": meta}), *(texts or [PARTITIONS])]
    paths = [folder / f"{place}.txt" for place in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content)
    return read_snapshot(paths)


PIECES = st.tuples(
    st.sampled_from(["n", "gpu-", "r1c"]),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), max_size=3),
    st.integers(1, 4),
    st.sampled_from(["", "-ib"]),
)


@given(st.lists(PIECES, max_size=4))
def test_a_host_list_names_what_a_naive_expansion_names(pieces):
    parts, expected = [], []
    for prefix, ranges, width, suffix in pieces:
        ends = [(f"{low:0{width}}", f"{low + size:0{width}}") for low, size in ranges]
        inside = ",".join(low if low == high else f"{low}-{high}" for low, high in ends)
        parts.append(f"{prefix}[{inside}]{suffix}" if ranges else prefix + suffix)
        each = [f"{low + step:0{width}}" for low, size in ranges for step in range(size + 1)]
        expected += [prefix + digits + suffix for digits in each or [""]]
    assert hosts(",".join(parts)) == expected


@pytest.mark.parametrize(
    "text", ["n[1-3", "n1]", "n[3-1]", "n[a-b]", "n[]", "n[1-2000000]", "a],b["]
)
def test_a_damaged_host_list_is_refused(text):
    with pytest.raises(ValueError, match="bracket|hosts"):
        hosts(text)


@pytest.mark.parametrize(
    ("text", "amounts", "types"),
    [
        ("gpu:8", {"gpu": 8}, set()),
        ("gres:gpu:h100:4", {"gpu": 4}, {"h100"}),
        ("gres/gpu=2", {"gpu": 2}, set()),
        ("gpu", {"gpu": 1}, set()),
        ("gpu:a100:2(IDX:0,3),gpu:v100:1(IDX:5)", {"gpu": 3}, {"a100", "v100"}),
        ("gpu:nvidia_a100_1g.10gb:7", {"gres/gpu:nvidia_a100_1g.10gb": 7}, set()),
        ("gpu:8,lustre:no_consume:4K", {"gpu": 8, "gres/lustre": 4096}, set()),
        ("shard:h100:5(1/8,4/8)", {"gres/shard": 5}, set()),
        ("cpu:4,gres/gpu:1", {"gpu": 1}, set()),
        ("(null)", {}, set()),
    ],
)  # fmt: skip
def test_generic_resources_have_amounts_and_types(text, amounts, types):
    assert generic_resources(text) == (amounts, types)


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("cpu=16,mem=32G,node=2,billing=16", {"cpu": 16000, "memory": 32 << 30}),
        ("mem=1500M,gres/gpu=8,gres/gpu:h100=8", {"memory": 1500 << 20, "gpu": 8}),
        ("mem=1.50T", {"memory": 3 << 39}),
        ("", {}),
    ],
)  # fmt: skip
def test_trackable_resources_count_a_typed_gpu_once(text, amounts):
    assert trackable_resources(text) == amounts


@pytest.mark.parametrize("version", [f"v0.0.{minor}" for minor in range(39, 47)])
def test_all_data_parsers_give_the_same_snapshot(tmp_path, version):
    jobs = [
        job(1, nodes="n[1-2]", gpus=4, version=version),
        job(2, "PENDING", gpus=8, version=version, partition="high"),
    ]
    snapshot = read(tmp_path, jobs, version=version)
    held = {"cpu": 2000, "memory": 1 << 30, "gpu": 4}
    (gang,), (waiting,) = snapshot.gangs, snapshot.pending
    assert [(pod.node, pod.request) for pod in gang.pods] == [("n1", held), ("n2", held)]
    assert (gang.priority, gang.start_s, gang.min_pods) == (1, 1000, 2)
    assert (waiting.priority, waiting.shapes[0].request["gpu"]) == (5, 8)
    assert snapshot.nodes[0].capacity == {"cpu": 62000, "memory": 1 << 30, "gpu": 8}
    assert version in snapshot.version


def real(*names):
    return read_snapshot([REAL / f"{name}.gz" for name in (*names, "partitions.txt")])


def content(snapshot):
    """Return the content of a snapshot without the order of its jobs."""
    gangs = {each.id: each for each in (*snapshot.gangs, *snapshot.pending)}
    return snapshot.nodes, gangs, snapshot.priorities, snapshot.assumptions, snapshot.newest_s


def test_json_and_text_of_a_real_cluster_give_the_same_plans():
    snapshot, text = real("squeue.json", "sinfo.json"), real("jobs.txt", "nodes.txt")
    assert content(snapshot) == content(text)
    assert {gang.id: (len(gang.pods), gang.can_be_requeued) for gang in snapshot.gangs} == {
        **dict.fromkeys(["3_0", "3_1", "3_2", "3_3", "8"], (1, False)),
        **dict.fromkeys(["2", "4", "5"], (1, True)),
        **dict.fromkeys(["1", "6"], (2, True)),
    }
    assert [gang.id for gang in snapshot.gangs if gang.not_preempted_because] == ["5"]
    closed = {node.name: node.closed_because for node in snapshot.nodes if node.closed_because}
    assert closed == {"n0006": "drained", "n0007": "reserved"}
    waiting = {gang.id: gang for gang in snapshot.pending}
    sizes = {name: gang.min_pods for name, gang in waiting.items()}
    assert sizes == {"3_4": 1, "13": 3, "14": 2, "15": 16}
    for question in (Drain(count=2), Fit(gang=replace(waiting["13"], priority=2))):
        plans = [plan(each, question) for each in (snapshot, text)]
        assert plans[0].nodes == plans[1].nodes
        assert len({tuple(sorted(each.gang.id for each in p.disruptions)) for p in plans}) == 1


def test_a_real_snapshot_with_pseudonyms_gives_as_good_a_plan(tmp_path):
    names = [f"{name}.gz" for name in ("squeue.json", "sinfo.json", "partitions.txt")]
    document, table = anonymised([read_file(REAL / name) for name in names], SLURM)
    (tmp_path / "a.json").write_text(text := json.dumps(document))
    hidden, shown = read_snapshot([tmp_path / "a.json"]), real("squeue.json", "sinfo.json")
    assert not any(name in text for name in ("alice", "tier1", "n0001"))
    plans = [plan(each, Drain(count=3)) for each in (hidden, shown)]
    assert plans[0].nodes == tuple(table[name] for name in plans[1].nodes)
    numbers, again = (
        [(each.id, each.pods[0].request) for each in snapshot.gangs] for snapshot in (hidden, shown)
    )
    assert numbers == again
    assert [gang.id for gang in hidden.pending] == [gang.id for gang in shown.pending]


def test_a_closed_node_has_its_reason(tmp_path):
    states = {"IDLE": "", "PLANNED": "", "DRAIN": "drained", "DOWN": "down", "RESERVED": "reserved"}
    states |= {"POWERED_DOWN": "powered down", "NOT_RESPONDING": "not responding"}
    nodes = [node(state, ["MIXED", state]) for state in states]
    nodes += [node("text", "IDLE+MAINTENANCE"), node("old", "idle*"), node("22.05", "idle")]
    nodes[-1]["state_flags"] = ["DRAIN"]
    states |= {"text": "in maintenance", "old": "not responding", "22.05": "drained"}
    snapshot = read(tmp_path, nodes=nodes)
    assert {each.name: each.closed_because for each in snapshot.nodes} == states


def test_the_state_of_a_job_decides_whether_it_runs_or_waits(tmp_path):
    runs = ["RUNNING", "RUNNING,CONFIGURING", "SUSPENDED"]
    waits = ["PENDING", "PENDING,REQUEUED"]
    gone = ["CANCELLED,COMPLETING", "COMPLETED"]
    jobs = [job(place, state, "n1") for place, state in enumerate(runs + gone, 1)]
    jobs += [job(place, state) for place, state in enumerate(waits, 11)]
    snapshot = read(tmp_path, jobs, [node("n1", used=8)])
    assert list(snapshot.gang) == ["1", "2", "3"]  # the GPUs are those of the completing job
    assert [gang.id for gang in snapshot.pending] == ["11", "12"]
    assert "1 job in state COMPLETING: their room counts as free." in snapshot.assumptions


def test_gpus_of_jobs_that_are_not_shown_are_not_drained(tmp_path):
    nodes = [node("n1", used=8), node("n2", used=8)]
    snapshot = read(tmp_path, [job(1, nodes="n[1-2]", gpus=4), job(2, nodes="n2", gpus=4)], nodes)
    assert plan(snapshot, Drain(count=1)).nodes == ("n2",)
    assert not plan(snapshot, Drain(nodes=("n1",))).exists
    assert "4 GPUs in use by jobs that are not shown stay in use." in snapshot.assumptions


def test_who_is_a_gang_and_who_starts_again(tmp_path):
    jobs = [
        job(7, nodes="n1", array_job_id=number(5), array_task_id=number(2)),
        job(8, nodes="n1", het_job_id=number(8)),
        job(9, nodes="n2", het_job_id=number(8), batch_flag=False),
        job(10, nodes="n3", requeue=False),
        job(5, "PENDING", array_job_id=number(5), array_task_string="4,6-9%2"),
        job(11, "PENDING", gpus=1, het_job_id=number(11)),
        job(12, "PENDING", gpus=2, het_job_id=number(11)),
    ]
    snapshot = read(tmp_path, jobs)
    again = {gang.id: gang.can_be_requeued for gang in snapshot.gangs}
    assert again == {"5_2": True, "8": False, "10": False}
    assert [pod.node for pod in snapshot.gang["8"].pods] == ["n1", "n2"]
    assert {gang.id: len(gang.shapes) for gang in snapshot.pending} == {"5_4": 1, "11": 2}


@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ({}, {"n1", "n2"}),
        ({"partition": "low,big"}, {"n1", "n2", "n3"}),
        ({"features": "ib&nvme"}, {"n1"}),
        ({"features": "nvme|old"}, {"n1", "n2"}),
        ({"features": "[nvme*1&old*1]"}, {"n1", "n2"}),
        ({"excluded_nodes": "n[1,7]"}, {"n2"}),
        ({"required_nodes": "n2"}, {"n2"}),
        ({"tres_per_node": "gres/gpu:a100:1"}, {"n2"}),
    ],
)
def test_where_a_waiting_job_may_run(tmp_path, fields, allowed):
    nodes = [
        node("n1"),
        node("n2", features=["old"], gres="gpu:a100:8"),
        node("n3", partitions=["big"]),
    ]
    snapshot = read(tmp_path, [job(1, "PENDING", **fields)], nodes)
    placement = snapshot.pending[0].shapes[0].placement
    assert {each.name for each in snapshot.nodes if placement.allows(each)} == allowed
    assert len(snapshot.not_read) == ("*" in fields.get("features", ""))


@pytest.mark.parametrize(
    ("fields", "pods", "gpus", "most"),
    [
        ({"node_count": number(3), "tres_per_node": "gres/gpu:8"}, 3, 8, 1),
        ({"tres_per_job": "gres/gpu:6", "tasks": number(6)}, 6, 1, None),
        ({"tres_per_job": "gres/gpu:6"}, 1, 6, 1),
        ({"tres_per_job": "gres/gpu:6", "tasks": number(6), "max_nodes": number(1)}, 1, 6, 1),
        ({"tres_per_task": "cpu:2,gres/gpu:1", "tasks": number(5)}, 5, 1, None),
    ],
)
def test_the_pods_of_a_waiting_job(tmp_path, fields, pods, gpus, most):
    (gang,) = read(tmp_path, [job(1, "PENDING", **fields)]).pending
    (shape,) = gang.shapes
    assert (len(shape.names), shape.request["gpu"], shape.max_per_node) == (pods, gpus, most)


@pytest.mark.parametrize("fields", [{"shared": ["none"]}, {"exclusive": "true"}])
def test_a_job_that_shares_no_nodes_needs_empty_ones(tmp_path, fields):
    jobs = [job(place, nodes=f"n{place}") for place in (1, 2)]
    whole = job(3, "PENDING", node_count=number(2), partition="high", **fields)
    snapshot = read(tmp_path, [*jobs, whole])
    found = plan(snapshot, Fit(gang=snapshot.pending[0]))
    assert snapshot.pending[0].shapes[0].request[SHARE] == WHOLE
    assert len(found.disruptions) == 1
    assert "n3" in found.nodes


QOS = "Name|Priority|Preempt\nlow|0|\nmid|0|low\nhigh|0|low,mid\nodd|0|low\n"
SWITCHES = """SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n3
SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-3] Switches=s[0-1]
"""


def test_qos_decide_before_partitions(tmp_path):
    jobs = [job(1, nodes="n1", qos="low", partition="high"), job(2, nodes="n1", qos="mid")]
    snapshot = read(tmp_path, jobs, None, PARTITIONS, QOS)
    assert snapshot.priorities == {"low": 0, "mid": 1, "high": 2, "odd": 1}
    found = [(gang.priority, gang.not_preempted_because) for gang in snapshot.gangs]
    assert found == [(0, ""), (1, "")]
    assert [each for each in snapshot.assumptions if "high" in each] == [
        "QOS high counts as if it may preempt odd, which it does not list."
    ]


def test_without_preemption_every_lower_job_may_be_stopped(tmp_path):
    off = PARTITIONS.replace("REQUEUE", "OFF")
    jobs = [job(1, nodes="n1"), job(2, nodes="n2", partition="high")]
    assert [bool(each.not_preempted_because) for each in read(tmp_path, jobs).gangs] == [
        False,
        True,
    ]
    assert not any(each.not_preempted_because for each in read(tmp_path, jobs, None, off).gangs)


def test_partitions_and_qos_as_json(tmp_path):
    partitions = json.dumps({"partitions": [{"name": "low", "priority": {"tier": 3}}]})
    jobs = [job(1, nodes="n1", qos="mid")]
    snapshot = read(tmp_path, jobs, None, partitions)
    assert snapshot.gangs[0].priority == 3
    assert any("PreemptMode is not shown" in each for each in snapshot.assumptions)
    qos = [{"name": "mid", "preempt": {"list": ["low"]}}, {"name": "low", "preempt": {"list": []}}]
    assert read(tmp_path, jobs, None, json.dumps({"qos": qos})).gangs[0].priority == 1


def test_switches_are_levels(tmp_path):
    snapshot = read(tmp_path, [], None, PARTITIONS, SWITCHES)
    assert [node.labels["switch"] for node in snapshot.nodes] == ["s0", "s0", "s1"]
    assert {node.labels["switch-level-1"] for node in snapshot.nodes} == {"top"}


TEXT_JOB = """JobId=4 JobName=x JobState=PENDING Nodes=n9
   JobState=RUNNING Partition=low
   NodeList=n1
"""
OUTPUT = {"meta": {"plugin": {"data_parser": "data_parser/v0.0.43"}}}


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        ('{"jobs": [', "is not output of Slurm: Input data was truncated"),
        ({"jobs": [job("x")]}, r"Expected `int`, got `str` - at `\$.jobs\[0\].job_id`"),
        ({"jobs": [job(1, cpus="many")]}, r"at `\$.jobs\[0\].cpus`"),
        ({"nodes": [{"name": "n1"}]}, "missing required field `state`"),
        ({"jobs": [job(4, nodes="n9")]}, "job 4: its node n9 is not among the nodes"),
        ({"jobs": [job(4) | {"nodes": "n[1"}]}, 'job 4: "n\\[1": brackets do not match'),
        ({"jobs": [job(4, nodes="n1", gres_detail=[], tres_per_job="gpu:3")]}, "job 4: its gen"),
        ({"nodes": [node("n1", gres="gpu:h:8:x")]}, 'node n1: "gpu:h:8:x" is not a generic'),
        ({"errors": [{"error": "down"}]}, "reports that the command failed"),
        ({"sinfo": [{}]}, "collect scontrol show nodes --json"),
        (TEXT_JOB, "job 4 does not say what it holds on each node; collect scontrol --details"),
        ("JobId=4 JobName=x JobState=RUNNING", "job 4 has no JobState: is the text cut off"),
        ("NodeName=n1 CPUTot=many State=IDLE", 'CPUTot is "many": must be a number'),
        ("NodeName=n1 CPUTot=4", "node n1 has no State"),
        (f"{PARTITIONS}slurm_load_nodes: error", '"slurm_load_nodes: error" does not begin'),
        ("Name|Preempt\na|b\nb|a\n", "QOS a may preempt itself"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused_in_one_line(tmp_path, damaged, message):
    text = damaged if isinstance(damaged, str) else json.dumps(damaged | OUTPUT)
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, [], None, PARTITIONS, text)
    assert "\n" not in str(caught.value)


def test_jobs_without_nodes_are_refused(tmp_path):
    with pytest.raises(
        InputError, match="no nodes are given; collect squeue --all --json, scontrol"
    ):
        read(tmp_path, [job(1, nodes="n1")], [])
