"""Policies that break a rule: the error names policy, time, job and rule; no table is made."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.heterogeneous.heuristics.policy import RoundPolicy
from lyra_opt.network.heuristics.policy import Grant, PlacementPolicy
from lyra_opt.network.links import TIER_OF_LABEL, Tier
from lyra_opt.simulation.cluster import INFERENCE_GPU, Cluster
from lyra_opt.simulation.decisions import DecisionError
from lyra_opt.simulation.job_run import Part
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.policies.placing_gangs import PlacingGangs
from lyra_opt.simulation.policies.round_by_round import RoundByRound
from lyra_opt.simulation.policy import QueuePolicy
from lyra_opt.simulation.tenure import Forever, Leases, Rounds
from lyra_opt.simulation.view import PolicyError
from lyra_opt.simulation.workload import Job, Workload
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.product import Watch
from tests.lyra_opt.simulation.replays import borrowing, job_from, job_of, lending
from tests.lyra_opt.simulation.steps import STEPS, grows, numbered, starts, takes
from tests.tables import tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundState
    from lyra_opt.network.heuristics.policy import PlacementState
    from lyra_opt.simulation.cluster import LoanPlan
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.tenure import Tenure
    from lyra_opt.simulation.view import View
    from tests.lyra_opt.simulation.steps import Step

    Act = Callable[["Broken", View], None]

TABLES = tables(__file__, "broken")

MOST_CALLS = 50_000
"""Of a policy; beyond, it would be asked for ever."""

POOLS = Cluster.of_servers(2, gpus_per_server=2)
BORROWING = borrowing(2, 3, 2, INFERENCE_GPU)
RACKS = on_racks.cluster_of()
TYPED = in_rounds.cluster_of({"a": 2}, {"b": 2})


def granted(grants: Any) -> Any:
    return [Grant(gang, TIER_OF_LABEL[tier], numbered(gpus)) for gang, tier, gpus in grants]


class Broken(QueuePolicy):
    """Starts whoever fits, and does something else beside.

    Parameters
    ----------
    act
        What it does at each decision, before it starts anybody.
    is_lazy
        Whether it does not start anybody.
    """

    def __init__(self, act: Act, *, is_lazy: bool = False) -> None:
        super().__init__("broken")
        self._act, self._is_lazy = act, is_lazy
        self.calls = 0

    def decide(self, view: View) -> None:
        self.calls += 1
        assert self.calls < MOST_CALLS, "it is asked for ever"
        self._act(self, view)
        if not self._is_lazy:
            self.start_who_fits(view)

    def start_who_fits(self, view: View) -> None:
        for run in list(self.waiting.values()):
            parts = view.fit(run)
            if parts is not None:
                self.start(view, run, parts)


JOBS = (
    job_of("x", 0, 30, checkpoints=True),
    job_of("y", 0, 50, 2, checkpoints=True),
    job_of("z", 20, 10),
)


def run_broken(
    policy: QueuePolicy,
    *,
    jobs: Sequence[Job] = JOBS,
    cluster: Cluster = POOLS,
    tenure: Tenure | None = None,
    plan: LoanPlan | None = None,
) -> Kernel:
    """Run a policy under a watch."""
    workload = Workload(name="small", jobs=tuple(jobs))
    watch = Watch(plan)
    return Kernel(workload, cluster, policy, tenure=tenure, plan=plan, observers=[watch]).run()


def refuses(act: Act, rule: str, *, is_lazy: bool = False, **case: Any) -> None:
    """Check that an action is refused, with an error that names the policy and the time."""
    with pytest.raises(PolicyError, match=rf"^policy broken, at \S+ s: .*{rule}"):
        run_broken(Broken(act, is_lazy=is_lazy), **case)


def once(act: Callable[[Broken, View, list[JobRun]], None], at_s: float = 0.0) -> Act:
    """Return an action that is carried out the first time that it is that late."""
    done: list[float] = []

    def carry_out(policy: Broken, view: View) -> None:
        if view.now_s >= at_s and not done:
            done.append(view.now_s)
            act(policy, view, view.runs)

    return carry_out


def test_nothing_broken_is_not_refused():
    """What all others start from runs."""
    found = run_broken(Broken(lambda policy, view: None))
    assert [run.completion_s for run in found.runs] == [30, 50, 30]


# What a policy does once; several things one after the other.


def one_after_the_other(*steps: Step, at_s: float = 0.0) -> Act:
    """Return an action that takes all steps the first time that it is that late."""

    def act(policy: Broken, view: View, runs: list[JobRun]) -> None:
        for step in steps:
            step(policy, view, runs)

    return once(act, at_s)


IN_ROUNDS = Rounds(round_s=10, restart_s=0, merge_s=0)
TENURES = [Forever(), Leases(lease_s=1000), IN_ROUNDS]
TENURE_OF_NAME = {
    "forever": Forever(),
    "leases": Leases(),
    "long leases": Leases(lease_s=1000),
    "short leases": Leases(lease_s=10),
    "rounds": IN_ROUNDS,
}
ELASTIC = (job_of("x", 0, 100, max_workers=2), job_of("y", 0, 100))


@pytest.mark.parametrize("name", TABLES["refused"])
def test_a_job_is_handled_wrongly(name):
    """Each is a job that does what its name says."""
    case = dict(TABLES["refused"][name])
    steps = [STEPS[step](*map(numbered, given)) for step, *given in case.pop("steps")]
    act = one_after_the_other(*steps, at_s=case.pop("at_s", 0.0))
    if "jobs" in case:
        case["jobs"] = [job_from(*fields) for fields in case["jobs"]]
    if "tenure" in case:
        case["tenure"] = TENURE_OF_NAME[case["tenure"]]
    if "plan" in case:
        case |= {"plan": lending(*case["plan"]), "cluster": BORROWING}
    if case.get("cluster") == "typed":
        case["cluster"] = TYPED
    refuses(act, case.pop("rule"), **case)


def test_an_elastic_job_grows():
    """The same way is allowed up to its most workers, and what it did until then is counted."""
    at_once = one_after_the_other(starts(0, {0: 1}), takes({1: 1}), grows(1, {1: 1}))
    found = run_broken(Broken(at_once), jobs=ELASTIC)
    assert [run.completion_s for run in found.runs] == [50, 100]
    later = one_after_the_other(takes({1: 1}), grows(1, {1: 1}), at_s=50)
    found = run_broken(Broken(later), jobs=(*ELASTIC, job_of("z", 50, 10)))
    assert found.runs[0].completion_s == 75
    assert found.runs[0].held_gpu_s == 100


# Loans.


class Reclaiming(Broken):
    """Gives back as it is told to.

    Parameters
    ----------
    act
        Is given the hosts on loan, and returns those that it says it gives back.
    """

    def __init__(self, give: Callable[[View, list[int]], Any]) -> None:
        super().__init__(lambda policy, view: None)
        self._give = give

    def reclaim(self, view: View, count: int) -> list[int]:
        found: list[int] = self._give(view, list(view.hosts.lent()))
        return found


FUNGIBLE = (
    job_of("x", 0, 300, 2, fungible=True),
    job_of("y", 0, 300, 2, fungible=True, checkpoints=True),
    job_of("z", 0, 300, 2, fungible=True),
)


def stop_all(view: View) -> None:
    for run in view.hosted():
        view.stop(run)


def stops_and_returns(chosen: Callable[[list[int]], Any]) -> Callable[[View, list[int]], Any]:
    def give(view: View, lent: list[int]) -> Any:
        stop_all(view)
        return chosen(lent)

    return give


def lifts_and_returns(view: View, lent: list[int]) -> list[int]:
    for run in view.hosted():
        view.lift(run)
    return lent[:1]


RECLAIMS = {
    "nothing": (
        stops_and_returns(lambda lent: []),
        "must give back 1 borrowed servers, but gives back 0",
    ),
    "none": (stops_and_returns(lambda lent: None), ""),
    "too many": (
        stops_and_returns(lambda lent: lent),
        "must give back 1 borrowed servers, but gives back 3",
    ),
    "the same twice": (stops_and_returns(lambda lent: [lent[0], lent[0]]), ""),
    "an own one": (stops_and_returns(lambda lent: [0]), ""),
    "one that there is not": (stops_and_returns(lambda lent: [99]), ""),
    "one that is held": (
        lambda view, lent: lent[:1],
        "gives back host 1, but jobs still run on it",
    ),
    "lifted jobs": (
        lifts_and_returns,
        "job y is taken off its GPUs by `lift`, but `put` does not place it",
    ),
}


@pytest.mark.parametrize("tenure", [None, *TENURES])
@pytest.mark.parametrize("name", RECLAIMS)
def test_a_recall_is_not_obeyed(name, tenure):
    give, rule = RECLAIMS[name]
    with pytest.raises(PolicyError, match=rf"^policy broken, at \S+ s: .*{rule}"):
        run_broken(
            Reclaiming(give), jobs=FUNGIBLE, cluster=BORROWING, plan=lending(3, 2), tenure=tenure
        )


def test_a_recall_is_obeyed():
    """The same way is allowed."""
    found = run_broken(
        Reclaiming(stops_and_returns(lambda lent: lent[:1])),
        jobs=FUNGIBLE,
        cluster=BORROWING,
        plan=lending(3, 2),
    )
    assert sum(run.preemptions for run in found.runs) == 2


def test_gpus_are_reserved_in_a_recall():
    def give(view: View, lent: list[int]) -> list[int]:
        stop_all(view)
        view.reserve(view.runs[1], {lent[2]: 2})
        return lent[:1]

    with pytest.raises(PolicyError, match="broken, at 100 s: .*GPUs are reserved"):
        run_broken(Reclaiming(give), jobs=FUNGIBLE, cluster=BORROWING, plan=lending(3, 2))


# When it is asked.


def test_jobs_wait_for_ever():
    refuses(
        lambda policy, view: None,
        "job x and 2 others wait for ever: no GPU is in use",
        is_lazy=True,
    )


def test_one_job_alone_waits_for_ever():
    """There are no 0 others."""
    with pytest.raises(PolicyError, match="job x waits for ever: no GPU is in use"):
        run_broken(Broken(lambda policy, view: None, is_lazy=True), jobs=(job_of("x", 0, 1),))


def test_a_solver_has_no_answer():
    """The error names policy, time and a job, as all do."""

    def act(policy: Broken, view: View) -> None:
        raise DecisionError("odd chose no servers: it gave up")

    refuses(act, "odd chose no servers: it gave up; the first job is x$")


@pytest.mark.parametrize("later_s", [0.0, 1e-12, 5.0])
def test_a_policy_is_asked_for_nothing(later_s):
    def act(policy: Broken, view: View) -> None:
        policy.wake_s = view.now_s + later_s

    refuses(act, "job x and .* wait for ever: the policy was called .* times", is_lazy=True)


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize("wake_s", [0.0, -1.0, math.nan, -math.inf])
def test_a_policy_wakes_at_a_time_that_has_passed_or_is_none(wake_s, is_lazy):
    """Again and again at the same moment; the error says so, rather than that jobs wait."""

    def act(policy: Broken, view: View) -> None:
        policy.wake_s = wake_s

    refuses(act, "", is_lazy=is_lazy)


def test_a_policy_starts_and_stops_for_ever():
    """Something happens each time, but time does not go on."""

    def act(policy: Broken, view: View) -> None:
        for run in list(view.running.values()):
            view.stop(run)
        policy.wake_s = view.now_s

    refuses(act, "")


def test_a_policy_moves_jobs_for_ever():
    """Their GPUs are free at once, which is news."""

    def act(policy: Broken, view: View) -> None:
        for run in list(view.running.values()):
            free = view.hosts.free.index(max(view.hosts.free))
            parts = view.reserve(run, {free: 1})
            view.lift(run)
            view.put(run, parts)

    jobs = (job_of("x", 0, 30), job_of("y", 5, 30))
    refuses(act, "", jobs=jobs, tenure=Leases(lease_s=10, hand_over_s_per_gpu=0))


# Rules in rounds.


def run_round_rule(
    rule: RoundPolicy, *, jobs: Sequence[Job] | None = None, cluster: Cluster = TYPED, **case: Any
) -> Kernel:
    policy = RoundByRound(rule, reclaimer="lyra-greedy")
    found = jobs or tuple(
        Job.of_gang(in_rounds.gang(name, 100, gang=gang, a=1.0, b=1.0))
        for name, gang in (("x", 1), ("y", 2))
    )
    return Kernel(
        Workload(name="small", jobs=tuple(found)),
        cluster,
        policy,
        tenure=Rounds(round_s=10, restart_s=0, merge_s=0),
        **case,
    ).run()


@pytest.mark.parametrize("name", TABLES["decisions"])
def test_a_rule_in_rounds_returns_nonsense(name):
    case = TABLES["decisions"][name]
    placed = {job: tuple(placements) for job, placements in case["placed"].items()}
    rule = in_rounds.Scripted(lambda state: placed, forks=case.get("forks", False))
    with pytest.raises(PolicyError, match=f"^policy scripted, at 0 s: .*{case['rule']}"):
        run_round_rule(rule)


@pytest.mark.parametrize(
    "decision",
    [
        None,
        [("x", ({"s0": {"a": 1}},))],
        {"x": None, "y": None},
        {"x": {"s0": {"a": 1}}},
        {"x": 1},
    ],
    ids=["none", "a list", "no placements", "no tuple", "a number"],
)
def test_a_rule_in_rounds_returns_what_is_no_decision(decision):
    """Not even of the right type."""
    with pytest.raises(PolicyError, match="^policy scripted, at 0 s: "):
        run_round_rule(in_rounds.Scripted(lambda state: decision))


def test_a_copy_where_its_job_cannot_run():
    jobs = (Job.of_gang(in_rounds.gang("x", 10)),)
    copies = ({"s0": {"a": 1}}, {"s1": {"b": 1}})
    rule = in_rounds.Scripted(lambda state: {"x": copies}, forks=True)
    with pytest.raises(PolicyError, match="job x cannot run where it is placed"):
        run_round_rule(rule, jobs=jobs)


def test_a_rule_in_rounds_places_on_servers_that_are_gone():
    """It has not noticed that they were called back."""
    cluster = BORROWING
    jobs = (job_of("x", 0, 300, fungible=True),)
    placed: Decision = {"x": ({"inference-0": {"T4": 1}},)}
    rule = in_rounds.Scripted(lambda state: placed)
    with pytest.raises(PolicyError, match="at 100 s: job x gets GPUs that are not free"):
        run_round_rule(rule, jobs=jobs, cluster=cluster, plan=lending(3, 0))


class Quiet(RoundPolicy):
    """Says for how long nothing changes."""

    name = "quiet"

    def __init__(self, quiet_s: float, *, is_lazy: bool = True) -> None:
        self._quiet_s, self._rule = quiet_s, in_rounds.FirstFit()
        self._is_lazy = is_lazy

    def unchanged_for_s(self, state: RoundState) -> float:
        return self._quiet_s

    def decide(self, state: RoundState) -> Any:
        return {} if self._is_lazy else self._rule.decide(state)


@pytest.mark.parametrize("quiet_s", [0.0, math.inf])
def test_a_rule_in_rounds_runs_nobody(quiet_s):
    with pytest.raises(PolicyError, match=r"^policy quiet, at [0-9]+ s: job x and 1 other wait"):
        run_round_rule(Quiet(quiet_s))


@pytest.mark.parametrize("quiet_s", [math.nan, -math.inf, -5.0])
def test_a_while_that_is_none(quiet_s):
    with pytest.raises(PolicyError, match="^policy quiet, at 0 s: "):
        run_round_rule(Quiet(quiet_s, is_lazy=False))


# Rules that place.


class Granting(PlacementPolicy):
    """Grants what it is told to, whatever is free.

    Parameters
    ----------
    grants
        The same each time.
    wait_s
        When it asks to be asked again.
    """

    name = "granting"

    def __init__(self, grants: Any, wait_s: float | None = None) -> None:
        self._grants, self._wait_s = grants, wait_s
        self.calls = 0

    def decide(self, state: PlacementState) -> Any:
        self.calls += 1
        assert self.calls < MOST_CALLS, "it is asked for ever"
        return self._grants

    def next_decision_s(self, state: PlacementState) -> float:
        return super().next_decision_s(state) if self._wait_s is None else self._wait_s


def run_placement_rule(
    rule: PlacementPolicy, cluster: Cluster, *, jobs: Sequence[Job] = (), **case: Any
) -> Kernel:
    found = jobs or (on_racks.job("x", 50), on_racks.job("y", 50, gang=2))
    policy = PlacingGangs(lambda: rule, reclaimer="lyra-greedy")
    workload = Workload(name="small", jobs=tuple(found))
    return Kernel(workload, cluster, policy, tenure=Leases(), **case).run()


NEAR = Cluster.of_servers(4, gpus_per_server=2)
NEAR_RACKS = Cluster.of_servers(4, gpus_per_server=2, servers_per_rack=2)


@pytest.mark.parametrize("cluster", [RACKS, NEAR, NEAR_RACKS], ids=["far", "near", "near racks"])
@pytest.mark.parametrize("name", TABLES["grants"])
def test_a_placement_rule_grants_nonsense(name, cluster):
    case = TABLES["grants"][name]
    with pytest.raises(PolicyError, match=f"^policy granting, at 0 s: .*{case['rule']}"):
        run_placement_rule(Granting(granted(case["grants"])), cluster)


@pytest.mark.parametrize("grants", [None, [0, 1], [(0, Tier.MACHINE, {0: 1})]])
def test_a_placement_rule_returns_what_are_no_grants(grants):
    """Not even of the right type."""
    with pytest.raises(PolicyError, match="^policy granting, at 0 s: "):
        run_placement_rule(Granting(grants), NEAR)


@pytest.mark.parametrize("machine", [2, -1])
def test_a_placement_rule_grants_machines_of_another_type(machine):
    """It knows its own machines alone: those of one type."""
    cluster = in_rounds.cluster_of({"a": 2}, {"a": 2}, {"b": 2}, {"b": 2})
    jobs = (job_of("x", 0, 50),)
    asked = []

    class Elsewhere(PlacementPolicy):
        name = "granting"

        def decide(self, state: PlacementState) -> list[Grant]:
            asked.append(len(state.machines.gpus))
            is_turn = machine > 0 or len(asked) == 2
            return [Grant(0, Tier.MACHINE, {machine: 1})] if is_turn else []

    policy = PlacingGangs(Elsewhere, reclaimer=None)
    with pytest.raises(PolicyError, match="^policy granting, at 0 s: job x"):
        Kernel(Workload(name="w", jobs=jobs), cluster, policy, tenure=Leases()).run()
    assert asked[0] == 2


@pytest.mark.parametrize("starts_one", [False, True])
@pytest.mark.parametrize("wait_s", [0.0, -1.0, -math.inf, math.nan])
def test_a_placement_rule_asks_again_for_nothing(wait_s, starts_one):
    """Nobody runs, or somebody does, but nobody else ever will."""

    class Once(Granting):
        def decide(self, state: PlacementState) -> Any:
            first = starts_one and not self.calls
            super().decide(state)
            return [Grant(0, Tier.MACHINE, {0: 1})] if first else []

    waits = "" if starts_one else "job x and 1 other wait"
    with pytest.raises(PolicyError, match=f"^policy granting, at .*: {waits}"):
        run_placement_rule(Once([], wait_s), RACKS)


class Migrating(on_racks.FirstGpus):
    """Moves gangs where it is told to."""

    name = "granting"

    def __init__(self, grants: Any) -> None:
        self._grants = grants

    def migrate(self, state: PlacementState, running: Any) -> Any:
        return self._grants


@pytest.mark.parametrize(
    ("grants", "rule"),
    [
        *((granted(case["grants"]), case["rule"]) for case in TABLES["moves"].values()),
        ([None], ""),
        (None, ""),
    ],
)
def test_a_placement_rule_moves_wrongly(grants, rule):
    jobs = (
        on_racks.job("x", 50),
        on_racks.job("y", 100),
        on_racks.job("z", 50, submit_s=10),
    )
    with pytest.raises(PolicyError, match=f"^policy granting, at 10 s: .*{rule}"):
        run_placement_rule(Migrating(grants), RACKS, jobs=jobs)


class GrowsOnLoan(QueuePolicy):
    """Lets a job on own servers grow on borrowed ones."""

    def decide(self, view: View) -> None:
        for run in list(self.waiting.values()):
            self.start(view, run, view.reserve(run, {0: 1}))
        for run in view.running.values():
            if run.workers == 1:
                view.hosts.take({1: 1})
                view.grow(run, Part(1, {}), 1, {1: 1})


@pytest.mark.parametrize("heterogeneous", [False, True])
def test_only_heterogeneous_jobs_grow_on_both_kinds_of_gpus(heterogeneous):
    """Others start on own or borrowed GPUs alone, and stay there."""
    job = job_of("x", 0, 100, max_workers=2, fungible=True, heterogeneous=heterogeneous)
    workload = Workload(name="one", jobs=(job,))
    kernel = Kernel(workload, borrowing(1, 1, 1), GrowsOnLoan("grows-on-loan"), plan=lending(1))
    if heterogeneous:
        assert kernel.run().runs[0].ran_on_loan
    else:
        with pytest.raises(PolicyError, match="job x takes either own or borrowed GPUs"):
            kernel.run()
