"""Snapshots of Slurm: its notations, its JSON of all versions, its text, and damaged files."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import InputError
from lyra_opt.experiments.planning.asking import pending_gang
from lyra_opt.experiments.planning.planning import plan
from lyra_opt.experiments.planning.questions import Drain, Fit
from lyra_opt.instances.snapshots.anonymise import anonymised
from lyra_opt.instances.snapshots.reading import read_file, read_snapshot
from lyra_opt.instances.snapshots.slurm import SHARE, SLURM, WHOLE
from lyra_opt.instances.snapshots.slurm_names import (
    generic_resources,
    hosts,
    span,
    trackable_resources,
)
from tests.instances.snapshots.objects import job, shown, slurm_node
from tests.tables import tables

REAL = Path(__file__).parent / "slurm_22_05"
CASES, NOTATIONS = tables(__file__), tables(__file__, "slurm_notations")
NODES = [{"name": f"n{place}"} for place in (1, 2, 3)]


def output(document, version="v0.0.43"):
    """Return the text of a file; ``machines`` of a document become its nodes."""
    if isinstance(document, str):
        return document.replace("PARTITIONS", NOTATIONS["partitions"])
    document = {"meta": {"plugin": {"data_parser": f"data_parser/{version}"}}} | document
    if "jobs" in document:
        document["jobs"] = [job(**{"version": version, **each}) for each in document["jobs"]]
    if "machines" in document:
        document["nodes"] = [slurm_node(**each) for each in document.pop("machines")]
    return json.dumps(document)


def read(folder, jobs=(), machines=NODES, more=("PARTITIONS",), **options):
    """Return the snapshot of jobs, nodes, and further files."""
    paths = []
    for place, document in enumerate([{"jobs": jobs}, {"machines": machines}, *more]):
        paths.append(folder / f"{place}.txt")
        paths[-1].write_text(output(document, **options))
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


@pytest.mark.parametrize(("text", "amounts", "types"), NOTATIONS["generic"])
def test_generic_resources_have_amounts_and_types(text, amounts, types):
    assert generic_resources(text) == (amounts, set(types))


@pytest.mark.parametrize(("text", "amounts"), NOTATIONS["trackable"])
def test_trackable_resources_count_a_typed_gpu_once(text, amounts):
    assert trackable_resources(text) == amounts


@pytest.mark.parametrize("kind", ["generic", "trackable"])
def test_an_amount_that_cannot_be_read_is_refused(kind):
    parse = {"generic": generic_resources, "trackable": trackable_resources}[kind]
    for text in NOTATIONS[f"unreadable_{kind}"]:
        with pytest.raises(ValueError, match=re.escape(f'the_field "{text}" ')):
            parse(f"cpu=1,{text}", "the_field")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_records_give_a_snapshot(tmp_path, case):
    given = {key: case[key] for key in ("jobs", "machines", "more") if key in case}
    wanted = {key: case[key] for key in case if key not in given}
    assert shown(read(tmp_path, **given), wanted) == wanted


@pytest.mark.parametrize("version", [f"v0.0.{minor}" for minor in range(39, 47)])
def test_all_data_parsers_give_the_same_snapshot(tmp_path, version):
    waits = {"job_id": 2, "state": "PENDING", "gpus": 8, "partition": "high"}
    snapshot = read(tmp_path, [{"on": "n[1-2]", "gpus": 4}, waits], version=version)
    held = {"cpu": 2000, "memory": 1 << 30, "gpu": 4}
    pods = [{"node": name, "request": held} for name in ("n1", "n2")]
    shape = {"request": {**held, "gpu": 8}}
    wanted = {
        "gangs": [{"pods": pods, "priority": 1, "start_s": 1000, "min_pods": 2}],
        "pending": [{"priority": 5, "shapes": [shape]}],
        "nodes": [{"capacity": {"cpu": 62000, "memory": 1 << 30, "gpu": 8}}] * 3,
    }
    assert shown(snapshot, wanted) == wanted
    assert version in snapshot.version


def real(*names):
    return read_snapshot([REAL / f"{name}.gz" for name in (*names, "partitions.txt")])


def content(snapshot):
    """Return the content of a snapshot without the order of its jobs."""
    gangs = {each.id: each for each in (*snapshot.gangs, *snapshot.pending)}
    return snapshot.nodes, gangs, snapshot.priorities, snapshot.assumptions


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
    for each in (snapshot, text):
        assert all(pending_gang(each, gang.job_name) is gang for gang in each.pending)
    for question in (Drain(count=2), Fit(gang=replace(waiting["13"], priority=2))):
        plans = [plan(each, question) for each in (snapshot, text)]
        assert plans[0].nodes == plans[1].nodes
        assert len({tuple(sorted(each.gang.id for each in p.disruptions)) for p in plans}) == 1


def test_jobs_in_text_have_run_until_the_snapshot():
    """The text has no time of its own, but each running job states for how long it has run."""
    text = real("jobs.txt", "nodes.txt")
    assert text.newest_s == max(gang.start_s for gang in text.gangs) + 3
    assert span("1-02:03:04") == 93784
    assert span("INVALID") == 0


def test_a_real_snapshot_with_pseudonyms_gives_as_good_a_plan(tmp_path):
    names = [f"{name}.gz" for name in ("squeue.json", "sinfo.json", "partitions.txt")]
    document, table = anonymised([read_file(REAL / name) for name in names], SLURM)
    (tmp_path / "a.json").write_text(text := json.dumps(document))
    hidden, original = read_snapshot([tmp_path / "a.json"]), real("squeue.json", "sinfo.json")
    assert not any(name in text for name in ("alice", "tier1", "n0001"))
    plans = [plan(each, Drain(count=3)) for each in (hidden, original)]
    assert plans[0].nodes == tuple(table[name] for name in plans[1].nodes)
    numbers, again = (
        [(each.id, each.pods[0].request) for each in snapshot.gangs]
        for snapshot in (hidden, original)
    )
    assert numbers == again
    assert [gang.id for gang in hidden.pending] == [gang.id for gang in original.pending]


def test_gpus_of_jobs_that_are_not_shown_are_not_drained(tmp_path):
    jobs = [{"on": "n[1-2]", "gpus": 4}, {"job_id": 2, "on": "n2", "gpus": 4}]
    snapshot = read(tmp_path, jobs, [{"name": "n1", "used": 8}, {"name": "n2", "used": 8}])
    assert plan(snapshot, Drain(count=1)).nodes == ("n2",)
    assert not plan(snapshot, Drain(nodes=("n1",))).exists
    assert "4 GPUs in use by jobs that are not shown stay in use." in snapshot.assumptions


@pytest.mark.parametrize(("fields", "allowed"), NOTATIONS["allowed"])
def test_where_a_waiting_job_may_run(tmp_path, fields, allowed):
    old = {"name": "n2", "features": ["old"], "gres": "gpu:a100:8"}
    machines = [{"name": "n1"}, old, {"name": "n3", "partitions": ["big"]}]
    snapshot = read(tmp_path, [{"state": "PENDING", **fields}], machines)
    placement = snapshot.pending[0].shapes[0].placement
    assert [each.name for each in snapshot.nodes if placement.allows(each)] == allowed
    assert len(snapshot.not_read) == ("*" in fields.get("features", ""))


@pytest.mark.parametrize("fields", [{"shared": ["none"]}, {"exclusive": "true"}])
def test_a_job_that_shares_no_nodes_needs_empty_ones(tmp_path, fields):
    jobs = [{"on": "n1"}, {"job_id": 2, "on": "n2"}]
    whole = {"job_id": 3, "state": "PENDING", "node_count": 2, "partition": "high", **fields}
    snapshot = read(tmp_path, [*jobs, whole])
    found = plan(snapshot, Fit(gang=snapshot.pending[0]))
    assert snapshot.pending[0].shapes[0].request[SHARE] == WHOLE
    assert len(found.disruptions) == 1
    assert "n3" in found.nodes


@pytest.mark.parametrize(("damaged", "message"), NOTATIONS["damaged"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path, damaged, message):
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, more=["PARTITIONS", damaged])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("jobs", "machines", "more", "message"), NOTATIONS["incomplete"])
def test_files_that_lack_or_repeat_something_are_refused(tmp_path, jobs, machines, more, message):
    """Otherwise a job would hold twice its GPUs, or a plan would promise that nobody is stopped."""
    with pytest.raises(InputError, match=message):
        read(tmp_path, jobs, machines, more)
