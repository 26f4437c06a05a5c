"""Placement logs: the instances that are cut are what the files say, by another count."""

import csv
import io
import json
from collections import Counter

import pytest

import lyra_opt as lo
from lyra_opt.core.loading import load_instance
from lyra_opt.instances.snapshots.placement_logs import read_moments
from tests.tables import tables

TABLES = tables(__file__)
LOGS = ("philly", "alibaba-pai-2020", "alibaba-gpu-2026")


@pytest.fixture
def log_files(write):
    """Return a function that writes the files of a made-up log, and returns their paths."""

    def files_of(log, *left_out, **changed):
        given = {name: text for name, text in TABLES[log]["files"].items() if name not in left_out}
        return [write(text, name) for name, text in (given | changed).items()]

    return files_of


def rows_of(log, name):
    """Return the rows of a made-up table, by column number, without the header."""
    return list(csv.reader(io.StringIO(TABLES[log]["files"][name])))


def philly_at(moment):
    """Count the GPUs of each job on each server by comparing texts."""
    held = Counter()
    for job in json.loads(TABLES["philly"]["files"]["cluster_job_log"]):
        for attempt in job["attempts"]:
            start, end = attempt["start_time"], attempt["end_time"] or "9"
            if start and start <= moment < end:
                for each in attempt["detail"]:
                    held[job["jobid"], each["ip"]] += len(each["gpus"])
    return held


def pai_at(moment):
    plan = {(row[0], row[1]): float(row[8] or 0) for row in rows_of(LOGS[1], "pai_task_table.csv")}
    machines = {row[0] for row in rows_of(LOGS[1], "pai_machine_spec.csv")}
    held = Counter()
    for job, task, *_, status, start, end, machine in rows_of(LOGS[1], "pai_instance_table.csv"):
        end = end or ("inf" if status == "Running" else "")
        if machine in machines and start and end and float(start) <= float(moment) < float(end):
            held[job, machine] += plan.get((job, task), 0) / 100
    return held


def asi_at(moment):
    held = Counter()
    for row in csv.DictReader(io.StringIO(TABLES[LOGS[2]]["files"]["pod.csv"])):
        hour = 24 * int(row["day"]) + int(row["hour"])
        is_there = row["server_id"] and row["state_public"] not in ("Succeeded", "Failed")
        if is_there and 3600 * hour <= float(moment) < 3600 * (hour + 1):
            is_gang = row["job_type_public"] == "training" and row["workload_id"]
            job = row["workload_id"] if is_gang else row["pod_id"]
            held[job, row["server_id"]] += float(row["gpu_request"])
    return held


COUNTS = dict(zip(LOGS, (philly_at, pai_at, asi_at), strict=True))
MOMENTS = [(log, moment) for log in LOGS for moment in TABLES[log]["moments"]]


@pytest.mark.parametrize(("log", "moment"), MOMENTS)
def test_instances_are_what_the_files_say(log, moment, log_files, run, tmp_path):
    """Jobs, servers, GPUs and racks at a moment; parts of GPUs are rounded up by worker."""
    expected = TABLES[log]["moments"][moment]
    out = tmp_path / "cuts"
    exit_code, printed, err = run("cut", *log_files(log), "--at", moment, "--out", out)
    assert exit_code == 0, err
    found = {
        instance.problem: instance
        for instance in (load_instance(path).instance for path in printed.split())
    }
    held = {key: gpus for key, gpus in COUNTS[log](moment).items() if gpus}
    assert held
    reclaim = found["reclaim"]
    groups = {(job.id, group.server): group.base for job in reclaim.jobs for group in job.workers}
    assert groups.keys() == held.keys()
    assert all(
        gpus <= groups[key] < gpus + expected.get("rounded", 1) for key, gpus in held.items()
    )
    servers = {server.id: server.gpus for server in reclaim.servers}
    assert servers == expected["servers"]
    assert reclaim.reclaim_servers == -(-len(servers) // 5)
    for instance in found.values():
        for said in (*TABLES[log]["said"], *expected.get("said", ())):
            assert said in instance.assumptions
    if "waiting" not in expected:
        assert found.keys() == {"reclaim"}
        assert "no job waited" in err
        return
    network, preemption = found["network"], found["preemption"]
    assert {job.id: [job.gang, job.waiting_s] for job in network.jobs} == expected["waiting"]
    racks = {machine.id: [machine.rack, machine.free_gpus] for machine in network.machines}
    assert racks == expected["free"]
    has_racks = any(rack != "all" for rack, _ in racks.values())
    assert ("racks are those of the log" in network.assumptions) == has_racks
    amount = {
        gang.id: sum(sum(group.request.values()) * group.count for group in gang.pods)
        for gang in preemption.gangs
    }
    of_job = Counter()
    for (job, _), gpus in held.items():
        of_job[job] += gpus
    unit = expected.get("unit", 1)  # thousandths, if somebody holds or waits for a part
    assert amount == {job: unit * gpus for job, gpus in of_job.items()}
    assert [preemption.demand.priority, preemption.victims] == expected["demand"]
    assert f"Job {expected['first']} has waited" in preemption.assumptions
    answer = lo.solve(preemption, "exact")
    assert answer.status == "optimal", "the waiting job does not fit, whoever is preempted"
    assert [*answer.victims] == expected.get("victims", [])


DEFECTS = TABLES["defects"]


@pytest.mark.parametrize("defect", DEFECTS)
def test_malformed(defect, log_files):
    case = DEFECTS[defect]
    paths = log_files(case["log"], *case.get("left_out", ()), **case.get("changed", {}))
    with pytest.raises(lo.UserError) as error:
        read_moments(paths, [case["at"]])
    assert case["reason"] in str(error.value)


def test_several_moments_are_read_at_once(log_files):
    """Each is what it is alone."""
    moments = list(TABLES["philly"]["moments"])
    paths = log_files("philly")
    assert read_moments(paths, moments) == [read_moments(paths, [each])[0] for each in moments]


def test_more_servers_than_there_are(log_files, run, tmp_path):
    paths = log_files("philly")
    at = next(iter(TABLES["philly"]["moments"]))
    _, _, err = run("cut", *paths, "--at", at, "--reclaim", 9, "--out", tmp_path / "cuts")
    assert "--reclaim is 9: the log has 4 servers with GPUs" in err
    assert "--at is missing" in run("cut", *paths, "--out", tmp_path / "cuts")[2]
