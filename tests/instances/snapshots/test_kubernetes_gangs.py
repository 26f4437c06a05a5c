"""Which pods form a gang, what it needs, and which object stops it."""

from __future__ import annotations

import pytest

from lyra_opt.core.errors import InputError
from tests.instances.snapshots.objects import custom, node, owner, pod, snapshot_of

WORKLOAD = "kueue.x-k8s.io/v1beta2"


def gangs_of(folder, *objects, **options):
    snapshot = snapshot_of(folder, node(), *objects, **options)
    return {
        gang.id: (gang.owner.resource, gang.owner.name, len(gang.pods), gang.min_pods)
        for gang in snapshot.gangs
    }


def pods(number, **more):
    return [pod(f"p{index}", **more) for index in range(number)]


def test_pods_of_a_deployment_stand_singly_with_and_without_its_objects(tmp_path):
    labels = {"pod-template-hash": "abc"}
    two = pods(2, labels=labels, owned_by=owner("ReplicaSet", "web-abc", "apps/v1"))
    deployment = [owner("Deployment", "web", "apps/v1")]
    replicas = custom("ReplicaSet", "apps/v1", "web-abc", ownerReferences=deployment)
    expected = {f"team/p{index}": ("deployments.apps", "web", 1, 1) for index in range(2)}
    assert gangs_of(tmp_path, *two) == expected
    assert gangs_of(tmp_path, *two, replicas) == expected


@pytest.mark.parametrize(
    ("kind", "version", "resource"),
    [
        ("Job", "batch/v1", "jobs.batch"),
        ("Job", "batch.volcano.sh/v1alpha1", "jobs.batch.volcano.sh"),
        ("PyTorchJob", "kubeflow.org/v1", "pytorchjobs.kubeflow.org"),
        ("MPIJob", "kubeflow.org/v2beta1", "mpijobs.kubeflow.org"),
        ("RayCluster", "ray.io/v1", "rayclusters.ray.io"),
    ],
)
def test_pods_of_a_training_job_need_each_other(tmp_path, kind, version, resource):
    four = pods(4, owned_by=owner(kind, "train", version))
    assert gangs_of(tmp_path, *four) == {"team/train": (resource, "train", 4, 4)}


def test_a_job_of_a_cron_job_is_stopped_and_one_of_a_train_job_is_not(tmp_path):
    two = pods(2, owned_by=owner("Job", "nightly-1"))
    job = custom("Job", "batch/v1", "nightly-1", ownerReferences=[owner("CronJob", "nightly")])
    assert gangs_of(tmp_path, *two, job)["team/nightly-1"][:2] == ("jobs.batch", "nightly-1")
    above = [owner("JobSet", "llm", "jobset.x-k8s.io/v1alpha2")]
    job = custom("Job", "batch/v1", "nightly-1", ownerReferences=above)
    top = [owner("TrainJob", "llm", "trainer.kubeflow.org/v1alpha1")]
    job_set = custom("JobSet", "jobset.x-k8s.io/v1alpha2", "llm", ownerReferences=top)
    expected = ("trainjobs.trainer.kubeflow.org", "llm", 2, 2)
    assert gangs_of(tmp_path, *two, job, job_set) == {"team/llm": expected}


def test_labels_join_pods_of_a_job_set_and_divide_those_of_a_leader_worker_set(tmp_path):
    jobs = [
        pod(f"j{index}", labels={"jobset.sigs.k8s.io/jobset-name": "js"},
            owned_by=owner("Job", f"js-workers-{index}"))
        for index in range(2)
    ]  # fmt: skip
    groups = [
        pod(f"l{index}", owned_by=owner("StatefulSet", f"serve-{index // 2}", "apps/v1"), labels={
            "leaderworkerset.sigs.k8s.io/name": "serve",
            "leaderworkerset.sigs.k8s.io/group-index": str(index // 2),
        })
        for index in range(4)
    ]  # fmt: skip
    sets = "leaderworkersets.leaderworkerset.x-k8s.io"
    assert gangs_of(tmp_path, *jobs, *groups) == {
        "team/js": ("jobsets.jobset.x-k8s.io", "js", 2, 2),
        "team/serve-0": (sets, "serve", 2, 2),
        "team/serve-1": (sets, "serve", 2, 2),
    }


def test_the_launcher_of_an_mpi_job_belongs_to_it(tmp_path):
    labels = {"training.kubeflow.org/job-name": "mpi"}
    launcher = pod("launcher", gpus=0, labels=labels, owned_by=owner("Job", "mpi-launcher"))
    workers = pods(2, labels=labels, owned_by=owner("MPIJob", "mpi", "kubeflow.org/v2beta1"))
    expected = {"team/mpi": ("mpijobs.kubeflow.org", "mpi", 3, 3)}
    assert gangs_of(tmp_path, launcher, *workers) == expected


POD_GROUPS = {
    "native": ("scheduling.k8s.io/v1alpha3", {"schedulingGroup": {"podGroupName": "pg"}}),
    "kai": ("scheduling.run.ai/v2alpha2", {"annotations": {"pod-group-name": "pg"}}),
    "volcano": (
        "scheduling.volcano.sh/v1beta1", {"annotations": {"scheduling.k8s.io/group-name": "pg"}},
    ),
    "coscheduling": (
        "scheduling.x-k8s.io/v1alpha1", {"labels": {"scheduling.x-k8s.io/pod-group": "pg"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("system", "spec", "minimum"),
    [
        ("native", {"schedulingPolicy": {"gang": {"minCount": 3}}}, 3),
        ("native", {"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": "Pod"}, 3),
        ("native", {"schedulingPolicy": {"gang": {"minCount": 3}},
                    "disruptionMode": "PodGroup"}, 4),
        ("native", {"schedulingPolicy": {"gang": {"minCount": 3}},
                    "disruptionMode": {"all": {}}}, 4),
        ("native", {"schedulingPolicy": {"gang": {"minCount": 9}}}, 4),
        ("kai", {"minMember": 2}, 2),
        ("kai", {"minMember": 2, "subGroups": [{"minMember": 1}, {"minMember": 1}]}, 4),
        ("volcano", {"minMember": 2}, 2),
        ("volcano", {"minMember": 2, "minTaskMember": {"ps": 1, "worker": 1}}, 4),
        ("volcano", {"minMember": 2, "minTaskMember": {"worker": 3}}, 3),
        ("coscheduling", {"minMember": 2}, 2),
    ],
)  # fmt: skip
def test_the_minimum_of_a_pod_group(tmp_path, system, spec, minimum):
    version, marks = POD_GROUPS[system]
    job = owner("Job", "train")
    group = custom("PodGroup", version, "pg", spec)
    other = custom("PodGroup", "example.com/v1", "pg", {"minMember": 1})
    found = gangs_of(tmp_path, *pods(4, owned_by=job, **marks), group, other)
    assert found == {"team/pg": ("jobs.batch", "train", 4, minimum)}


def test_a_pod_group_without_a_gang_policy_holds_single_pods(tmp_path):
    version, marks = POD_GROUPS["native"]
    group = custom("PodGroup", version, "pg", {"schedulingPolicy": {"basic": {}}})
    two = pods(2, owned_by=owner("Job", "train"), **marks)
    assert [found[3] for found in gangs_of(tmp_path, *two, group).values()] == [1, 1]


def test_the_running_and_the_pending_part_of_a_gang_have_one_id(tmp_path):
    version, marks = POD_GROUPS["volcano"]
    group = custom(
        "PodGroup", version, "pg", {"minMember": 4, "queue": "q", "priorityClassName": "high"}
    )
    classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7,
               "metadata": {"name": "high"}, "preemptionPolicy": "Never"}  # fmt: skip
    six = [
        pod(f"p{index}", "n1" if index < 2 else None, owned_by=owner("Job", "train"),
            priorityClassName="high", **marks)
        for index in range(6)
    ]  # fmt: skip
    snapshot = snapshot_of(tmp_path, node(), group, classes, *six)
    (running,), (pending,) = snapshot.gangs, snapshot.pending
    assert running.id == pending.id == "team/pg"
    assert (len(running.pods), running.min_pods) == (2, 2)
    assert (len(pending.shapes[0].names), pending.min_pods) == (4, 2)
    assert (running.priority, running.queue, pending.never_preempts) == (7, "q", True)


def workload(**more):
    pod_set = {"name": "main", "count": 4, "minCount": 2, "template": {
        "spec": pod(where=None)["spec"]}, "topologyRequest": {"required": "rack"}}  # fmt: skip
    spec = {"podSets": [pod_set], "queueName": "lq", "priority": 5}
    references = [owner("Job", "train")]
    return custom("Workload", WORKLOAD, "job-train", spec, ownerReferences=references) | more


def test_a_kueue_workload_gives_minimum_queue_and_priority(tmp_path):
    running = workload(status={"admission": {"clusterQueue": "cq"}})
    four = pods(4, owned_by=owner("Job", "train"))
    (gang,) = snapshot_of(tmp_path, node(), running, *four).gangs
    assert (gang.id, gang.min_pods, gang.queue, gang.priority) == ("team/train", 2, "lq", 5)
    assert gang.owner.workload == "job-train"


def test_a_kueue_workload_that_waits_has_the_pods_of_its_template(tmp_path):
    snapshot = snapshot_of(tmp_path, node(), pod("other"), workload())
    (gang,) = snapshot.pending
    assert (gang.id, gang.min_pods, gang.level) == ("team/job-train", 2, "rack")
    assert (gang.owner.name, gang.grouped_by) == ("train", "kueue.x-k8s.io")
    assert gang.shapes[0].names == ("main-0", "main-1", "main-2", "main-3")
    assert gang.shapes[0].request == {"cpu": 1000, "gpu": 1, "pods": 1}
    finished = {"conditions": [{"type": "Finished", "status": "True"}]}
    for status in ({"admission": {}}, finished):
        other = workload(status=status)
        assert snapshot_of(tmp_path, node(), pod("other"), other).pending == ()


def test_two_minima_of_a_kueue_workload_need_all_pods(tmp_path):
    running = workload(status={"admission": {}})
    running["spec"]["podSets"] *= 2
    four = pods(4, owned_by=owner("Job", "train"))
    snapshot = snapshot_of(tmp_path, node(), running, *four)
    assert snapshot.gangs[0].min_pods == 4
    assert snapshot.assumptions == (
        "1 gang whose parts have minima of their own: each is taken to need all of its pods.",
    )


def test_levels_and_topologies_of_pending_gangs(tmp_path):
    def pending(system, spec):
        version, marks = POD_GROUPS[system]
        each = [pod(name, None, owned_by=owner("Job", "j"), **marks) for name in "ab"]
        return snapshot_of(tmp_path, node(), custom("PodGroup", version, "pg", spec), *each)

    native = {"schedulingPolicy": {"gang": {"minCount": 1}}, "disruptionMode": "PodGroup",
              "schedulingConstraints": {"topology": [{"key": "block"}]}}  # fmt: skip
    (gang,) = pending("native", native).pending
    assert (gang.level, gang.min_pods) == ("block", 1)
    hard = pending("volcano", {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}})
    assert hard.pending[0].level == ""
    assert hard.not_read == ("1 pending gang with a hard network topology of Volcano.",)


@pytest.mark.parametrize(
    ("more", "reason", "needs_force"),
    [
        ({}, "has no controller", True),
        ({"owned_by": owner("Job", "j")}, "", False),
        ({"priority": 2_000_000_000}, "has a priority of system pods", False),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
         "has karpenter.sh/do-not-disrupt: true", False),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
         "has cluster-autoscaler.kubernetes.io/safe-to-evict: false", False),
    ],
)  # fmt: skip
def test_protected_pods(tmp_path, more, reason, needs_force):
    (gang,) = snapshot_of(tmp_path, node(), pod(**more)).gangs
    assert (gang.protected_because, gang.needs_force) == (reason, needs_force)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"preemptibility": "non-preemptible"}, "is non-preemptible in KAI"),
        ({"priority": 100}, "has priority 100, and KAI preempts none of 100 or more"),
        ({"priority": 100, "preemptibility": "preemptible"}, ""),
        ({"priority": 99}, ""),
    ],
)
def test_gangs_that_kai_does_not_preempt_may_be_drained(tmp_path, spec, reason):
    version, marks = POD_GROUPS["kai"]
    group = custom("PodGroup", version, "pg", spec)
    (gang,) = snapshot_of(tmp_path, node(), group, pod(owned_by=owner("Job", "j"), **marks)).gangs
    assert (gang.protected_because, gang.not_preempted_because) == ("", reason)


def test_an_owner_of_an_unknown_kind_must_be_explained_for_pods_with_gpus(tmp_path):
    flow = owner("Workflow", "w", "argoproj.io/v1")
    two = pods(2, owned_by=flow)
    with pytest.raises(InputError, match=r"Pod team/p0 requests GPUs.*Workflow w .*Workflow=gang"):
        gangs_of(tmp_path, *two)
    together = {"team/w": ("workflow.argoproj.io", "w", 2, 2)}
    assert gangs_of(tmp_path, *two, owners={"Workflow": "gang"}) == together
    assert len(gangs_of(tmp_path, *two, owners={"Workflow": "single"})) == 2
    fixed = snapshot_of(tmp_path, node(), *two, owners={"Workflow": "fixed"})
    assert fixed.gangs == ()
    assert fixed.node["n1"].held == {"cpu": 2000, "gpu": 2, "pods": 2}
    without = snapshot_of(tmp_path, node(), *pods(2, gpus=0, owned_by=flow))
    assert len(without.gangs) == 2
    assert without.assumptions == (
        "2 pods without GPUs of owners of kind Workflow: each is taken to stand singly.",
    )


def test_two_gangs_of_one_name_get_different_ids(tmp_path):
    jobs = pods(2, owned_by=owner("Job", "x"))
    other = pod("q", owned_by=owner("RayCluster", "x", "ray.io/v1"))
    assert list(gangs_of(tmp_path, *jobs, other)) == ["team/x", "team/x (2)"]
