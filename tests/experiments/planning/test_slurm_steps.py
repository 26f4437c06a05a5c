"""The commands of plans for Slurm: their words beside ``steps.toml``, and on a real Slurm."""

import os
from dataclasses import replace

import pytest

from lyra_opt.experiments.planning.asking import fit, pending_gang
from lyra_opt.experiments.planning.planning import plan
from lyra_opt.experiments.planning.questions import Consolidate, Drain, Fit
from lyra_opt.experiments.planning.showing import text_of
from lyra_opt.experiments.planning.steps import steps_of
from lyra_opt.instances.preemption.recording import slurm as recording
from lyra_opt.instances.preemption.recording.cases import until
from lyra_opt.instances.snapshots.reading import read_snapshot
from lyra_opt.instances.snapshots.snapshot import Owner
from lyra_opt.preemption import Demand, Gang, Instance, Node, PodGroup, Shape
from tests.experiments.planning.clusters import cluster, gang, node, pending

RESERVE = (
    "scontrol create reservation ReservationName=lyra-opt-12 Nodes=a,b StartTime=now "
    "Duration=UNLIMITED Flags=IGNORE_JOBS Users={}"
)


def job(name, places, gpus=4, **fields):
    owner = Owner(kind="SlurmJob", name=name, namespace="alice")
    return gang(name, places, gpus, id=name, owner=owner, **fields)


JOBS = (job("7", ["a", "b"]), job("3_1", ["c"]), job("9", ["d"], can_be_requeued=False))


def commands(snapshot, question):
    """Return the commands that carry out the best plan, and those that undo it."""
    steps = steps_of(plan(replace(snapshot, system="slurm"), question))
    return [[command for step in part for command in step.commands] for part in steps]


def test_a_described_job_leaves_the_user_to_be_named():
    snapshot = replace(cluster([node("a"), node("b")], JOBS[:1]), system="slurm")
    question = fit(snapshot, pods=2, request={"gpu": 4}, priority=10)
    reserve = RESERVE.format("USER").replace("lyra-opt-12", "lyra-opt-a")
    assert commands(snapshot, question)[0] == [reserve, "scontrol requeue 7"]
    purposes = [step.purpose for part in steps_of(plan(snapshot, question)) for step in part]
    assert "Submit the job with sbatch --reservation=lyra-opt-a" in purposes


def test_plans_for_slurm_speak_of_jobs_and_their_parts():
    nodes = [node("a"), node("b"), node("c"), node("d")]
    snapshot = replace(cluster(nodes, JOBS, newest_s=90.0), system="slurm")
    waits = replace(pending(2, 4, 10), owner=Owner(kind="SlurmJob", name="12"))
    for question in (Drain(count=3), Fit(gang=waits), Fit(gang=pending(9, 4, 10)), Consolidate()):
        assert "pod" not in text_of(plan(snapshot, question), "markdown").lower()
    snapshot = replace(snapshot, pending=(pending(2, 4, 0),))
    assert "take it" not in text_of(plan(snapshot, Drain(nodes=("c",))), "markdown")
    free = replace(snapshot, nodes=(*nodes, node("e")))
    text = text_of(plan(free, Drain(nodes=("c",))), "markdown")
    assert "at once on e, unless the pending job takes it" in text
    assert "GPU hours count until 1970-01-01 00:01:30 UTC" in text


def test_only_what_starts_again_moves_and_no_job_of_slurm():
    nodes = [node("a"), node("b")]
    free, fixed = job("1", ["a"], 1), job("2", ["b"], 1, can_be_requeued=False)
    snapshot = cluster(nodes, [free, fixed])
    assert plan(snapshot, Consolidate()).nodes == ("a",)
    assert not plan(replace(snapshot, system="slurm"), Consolidate()).exists
    fixed_too = replace(free, can_be_requeued=False)
    assert not plan(cluster(nodes, [fixed_too, fixed]), Consolidate()).exists


@pytest.mark.slow
def test_the_commands_on_a_real_slurm(tmp_path):
    if recording.FOLDERS not in os.environ:
        pytest.skip(f"{recording.FOLDERS} does not name the folders of {recording.PROGRAMS}")
    instance = Instance(
        name="x",
        nodes=[Node(id=f"n{place}", capacity={"gpu": 4}) for place in range(4)],
        gangs=[Gang(id="g", priority=1, pods=[PodGroup(node="n0", request={"gpu": 1})])],
        demand=Demand(priority=5, shapes=[Shape(count=1, request={"gpu": 1})]),
    )
    (folder := tmp_path / "slurm").mkdir()
    with recording.Cluster(instance, folder) as slurm:
        slurm.run("scontrol", "update", "PartitionName=tier1", "PreemptMode=OFF")
        slurm.submit("train", 1, 4, "-N2")
        slurm.submit("stays", 1, 2, "-N1")
        slurm.submit("once", 1, 3, "-N1", "--no-requeue")
        assert until(lambda: len(slurm.jobs("RUNNING")) == 3, recording.PATIENCE_S)
        slurm.submit("new", 5, 2, "-N3")
        number = slurm.run("squeue", "-h", "-n", "new", "-o%A").strip()

        def snapshot():
            """Return the snapshot that the commands of the guide collect."""
            texts = {
                "jobs.json": slurm.run("squeue", "--all", "--json"),
                "nodes.json": slurm.run("sinfo", "--json"),
                "partitions.txt": slurm.run("scontrol", "--all", "show", "partition"),
            }
            for name, text in texts.items():
                (tmp_path / name).write_text(text)
            return read_snapshot([tmp_path / name for name in texts])

        def shell(steps):
            """Run the commands of some steps as an operator does."""
            for command in (command for step in steps for command in step.commands):
                slurm.run("sh", "-c", command)

        def states(nodes):
            """Return the different states of some nodes."""
            listed = slurm.run("scontrol", "show", "node", ",".join(nodes))
            return {line.split()[0] for line in listed.splitlines() if "State=" in line}

        now = snapshot()
        found = plan(now, Fit(gang=pending_gang(now, number)))
        victims = {each.gang.id for each in found.disruptions}
        assert len(found.nodes) == 3
        do, undo = steps_of(found)
        assert "new" not in slurm.jobs("RUNNING")
        shell(do)
        assert until(lambda: "new" in slurm.jobs("RUNNING"), recording.PATIENCE_S)
        hosts = slurm.run("squeue", "-h", "-n", "new", "-o%N").strip()
        assert slurm.run("scontrol", "show", "hostnames", hosts).split() == list(found.nodes)
        assert not victims & set(slurm.run("squeue", "-h", "-tR", "-o%A").split())
        assert len(slurm.jobs("RUNNING")) == 4 - len(victims)
        shell(undo)
        assert "lyra-opt" not in slurm.run("scontrol", "show", "reservation")
        assert "new" in slurm.jobs("RUNNING")

        where = slurm.run("squeue", "-h", "-n", "once", "-o%N").strip()
        found = plan(snapshot(), Drain(nodes=(where,), count=1))
        do, undo = steps_of(found)
        listed = slurm.run("squeue", "-h", "-o%A|%j").split()
        name_of = dict(row.split("|") for row in listed)
        hit = {name_of[each.gang.id]: each.gang for each in found.disruptions}
        assert len(found.nodes) == 2
        assert "once" in hit
        shell(do)
        waiting = {"train"} | {name for name, each in hit.items() if each.can_be_requeued}
        assert until(lambda: set(slurm.jobs("PENDING")) == waiting, recording.PATIENCE_S)
        assert until(lambda: states(found.nodes) == {"State=IDLE+DRAIN"}, recording.PATIENCE_S)
        shell(undo)
        assert until(lambda: states(found.nodes) == {"State=IDLE"}, recording.PATIENCE_S)
