"""Policies that break a rule: the error names policy, time, job and rule; no table is made."""

import math

import pytest

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
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.product import Watch
from tests.lyra_opt.simulation.replays import (
    borrowing,
    job_from,
    job_of,
    lending,
    preemptions,
    workload_of,
)
from tests.lyra_opt.simulation.steps import STEPS, FirstFits, numbered
from tests.tables import tables

TABLES = tables(__file__, "broken")

MOST_CALLS = 50_000
"""Of a policy; beyond, it would be asked for ever."""

POOLS = Cluster.of_servers(2, gpus_per_server=2)
BORROWING = borrowing(2, 3, 2, INFERENCE_GPU)
RACKS = on_racks.cluster_of()
TYPED = in_rounds.cluster_of({"a": 2}, {"b": 2})


def granted(grants):
    return [Grant(gang, TIER_OF_LABEL[tier], numbered(gpus)) for gang, tier, gpus in grants]


class Broken(FirstFits):
    """Starts whoever fits, and does something else beside.

    Parameters
    ----------
    act
        What it does at each decision, before it starts anybody.
    is_lazy
        Whether it does not start anybody.
    give
        What it returns when servers are called back, given the hosts on loan.
    """

    def __init__(self, act, *, is_lazy, give):
        super().__init__("broken")
        self._act, self._is_lazy, self._give = act, is_lazy, give
        self.calls = 0

    def decide(self, view):
        self.calls += 1
        assert self.calls < MOST_CALLS, "it is asked for ever"
        self._act(self, view)
        if not self._is_lazy:
            self.start_who_fits(view)

    def reclaim(self, view, count):
        lent = list(view.hosts.lent())
        return self._give(view, lent) if self._give else super().reclaim(view, count)


JOBS = (
    job_of("x", 0, 30, checkpoints=True),
    job_of("y", 0, 50, 2, checkpoints=True),
    job_of("z", 20, 10),
)


def run_broken(act, *, is_lazy=False, give=None, jobs=JOBS, cluster=POOLS, tenure=None, plan=None):
    """Run a policy under a watch."""
    policy, watch = Broken(act, is_lazy=is_lazy, give=give), Watch(plan)
    workload = workload_of(*jobs)
    return Kernel(workload, cluster, policy, tenure=tenure, plan=plan, observers=[watch]).run()


def raises(rule, policy="broken", at=r"\S+"):
    """Expect an error that names the policy, the time and the rule."""
    return pytest.raises(PolicyError, match=f"^policy {policy}, at {at} s: .*{rule}")


def nothing(policy, view):
    """Act as a policy that is not broken."""


def test_nothing_broken_is_not_refused():
    """What all others start from runs."""
    found = run_broken(nothing)
    assert [run.completion_s for run in found.runs] == [30, 50, 30]


# What a policy does once; several things one after the other.


def one_after_the_other(*steps, at_s=0.0):
    """Return an action that takes all steps the first time that it is that late."""
    left = [list(steps)]

    def act(policy, view):
        if view.now_s >= at_s and left:
            for step in left.pop():
                step(policy, view, view.runs)

    return act


IN_ROUNDS = Rounds(round_s=10, restart_s=0, merge_s=0)
TENURES = [Forever(), Leases(lease_s=1000), IN_ROUNDS]
TENURE_OF_NAME = {
    "forever": Forever(),
    "leases": Leases(),
    "long leases": Leases(lease_s=1000),
    "short leases": Leases(lease_s=10),
    "rounds": IN_ROUNDS,
}


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
    with raises(case.pop("rule")):
        run_broken(act, **case)


# Loans.


FUNGIBLE = (
    job_of("x", 0, 300, 2, fungible=True),
    job_of("y", 0, 300, 2, fungible=True, checkpoints=True),
    job_of("z", 0, 300, 2, fungible=True),
)
LEAVE = {"stop": lambda view, run: view.stop(run), "lift": lambda view, run: view.lift(run)}


def reclaiming(hosts, *, leaves="stop", takes_gpus=False, **given):
    """Run a policy that gives back hosts when one of three is called back; 1 to 3 are lent."""

    def give(view, lent):
        for run in view.hosted() if leaves in LEAVE else ():
            LEAVE[leaves](view, run)
        if takes_gpus:
            view.reserve(view.runs[1], {3: 2})
        return hosts

    given |= {"jobs": FUNGIBLE, "cluster": BORROWING, "plan": lending(3, 2)}
    return run_broken(nothing, give=give, **given)


@pytest.mark.parametrize("tenure", [None, *TENURES])
@pytest.mark.parametrize("name", [*TABLES["recalls"], "returns none"])
def test_a_recall_is_not_obeyed(name, tenure):
    case = dict(TABLES["recalls"].get(name, {"hosts": None, "rule": ""}))
    with raises(case.pop("rule")):
        reclaiming(tenure=tenure, **case)


def test_a_recall_is_obeyed():
    """The same way is allowed, but for GPUs that are reserved in it."""
    assert preemptions(reclaiming([1])) == 2
    with raises("GPUs are reserved", at="100"):
        reclaiming([1], takes_gpus=True)


# When it is asked.


def wakes(at_s, *, is_later=False):
    """Return an action that asks to be called at a time, or so much later."""

    def act(policy, view):
        policy.wake_s = at_s + view.now_s if is_later else at_s

    return act


def stops_all(policy, view):
    for run in list(view.running.values()):
        view.stop(run)
    policy.wake_s = view.now_s


def moves_all(policy, view):
    for run in list(view.running.values()):
        free = view.hosts.free.index(max(view.hosts.free))
        parts = view.reserve(run, {free: 1})
        view.lift(run)
        view.put(run, parts)


def has_no_answer(policy, view):
    raise DecisionError("odd chose no servers: it gave up")


ALONE, IN_TURN = (job_of("x", 0, 1),), (job_of("x", 0, 30), job_of("y", 5, 30))
CALLED = "job x and .* wait for ever: the policy was called .* times"


@pytest.mark.parametrize(
    ("act", "rule", "case"),
    [
        (nothing, "job x and 2 others wait for ever: no GPU is in use", {"is_lazy": True}),
        (nothing, "job x waits for ever: no GPU is in use", {"is_lazy": True, "jobs": ALONE}),
        (has_no_answer, "odd chose no servers: it gave up; the first job is x$", {}),
        *(
            (wakes(later_s, is_later=True), CALLED, {"is_lazy": True})
            for later_s in (0.0, 1e-12, 5.0)
        ),
        *(
            (wakes(time_s), "", {"is_lazy": is_lazy})
            for time_s in (0.0, -1.0, math.nan, -math.inf)
            for is_lazy in (False, True)
        ),
        # Something happens each time, but time does not go on.
        (stops_all, "", {}),
        # Their GPUs are free at once, which is news.
        (moves_all, "", {"jobs": IN_TURN, "tenure": Leases(lease_s=10, hand_over_s_per_gpu=0)}),
    ],
)
def test_it_goes_on_for_ever(act, rule, case):
    """Nobody runs, or the policy is asked again and again; the error names a job that waits."""
    with raises(rule):
        run_broken(act, **case)


# Rules in rounds.


def run_round_rule(rule, *jobs, cluster=TYPED, plan=None):
    policy = RoundByRound(rule, reclaimer="lyra-greedy")
    two = (
        in_rounds.measured(name, 100, gang=gang, a=1.0, b=1.0)
        for name, gang in (("x", 1), ("y", 2))
    )
    return Kernel(workload_of(*(jobs or two)), cluster, policy, tenure=IN_ROUNDS, plan=plan).run()


def always(placed, *, forks=False):
    return in_rounds.Scripted(lambda state: placed, forks=forks)


NO_DECISIONS = {
    "none": None,
    "a list": [("x", ({"s0": {"a": 1}},))],
    "no placements": {"x": None, "y": None},
    "no tuple": {"x": {"s0": {"a": 1}}},
    "a number": {"x": 1},
}
"""Those that are not even of the right type."""


@pytest.mark.parametrize("name", [*TABLES["decisions"], *NO_DECISIONS])
def test_a_rule_in_rounds_returns_nonsense(name):
    case = TABLES["decisions"].get(name, {"rule": ""})
    placed = {job: tuple(placements) for job, placements in case.get("placed", {}).items()}
    rule = always(placed or NO_DECISIONS[name], forks=case.get("forks", False))
    with raises(case["rule"], "scripted", "0"):
        run_round_rule(rule)


def test_a_copy_where_its_job_cannot_run():
    rule = always({"x": ({"s0": {"a": 1}}, {"s1": {"b": 1}})}, forks=True)
    with pytest.raises(PolicyError, match="job x cannot run where it is placed"):
        run_round_rule(rule, in_rounds.measured("x", 10))


def test_a_rule_in_rounds_places_on_servers_that_are_gone():
    """It has not noticed that they were called back."""
    rule, job = always({"x": ({"inference-0": {"T4": 1}},)}), job_of("x", 0, 300, fungible=True)
    with pytest.raises(PolicyError, match="at 100 s: job x gets GPUs that are not free"):
        run_round_rule(rule, job, cluster=BORROWING, plan=lending(3, 0))


class Quiet(in_rounds.FirstFit):
    """Says for how long nothing changes."""

    name = "quiet"

    def __init__(self, quiet_s, *, is_lazy):
        self._quiet_s, self._is_lazy = quiet_s, is_lazy

    def unchanged_for_s(self, state):
        return self._quiet_s

    def decide(self, state):
        return {} if self._is_lazy else super().decide(state)


NOBODY_RUNS = ("[0-9]+", "job x and 1 other wait")


@pytest.mark.parametrize(
    ("quiet_s", "at", "rule"),
    [
        *((quiet_s, *NOBODY_RUNS) for quiet_s in (0.0, math.inf)),
        *((quiet_s, "0", "") for quiet_s in (math.nan, -math.inf, -5.0)),
    ],
)
def test_a_rule_in_rounds_runs_nobody_or_is_quiet_for_no_time(quiet_s, at, rule):
    with raises(rule, "quiet", at):
        run_round_rule(Quiet(quiet_s, is_lazy=bool(rule)))


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

    def __init__(self, grants, wait_s=None):
        self._grants, self._wait_s = grants, wait_s
        self.calls = 0

    def decide(self, state):
        self.calls += 1
        assert self.calls < MOST_CALLS, "it is asked for ever"
        return self._grants

    def next_decision_s(self, state):
        return super().next_decision_s(state) if self._wait_s is None else self._wait_s


def run_placement_rule(rule, cluster, *jobs):
    found = jobs or (on_racks.job("x", 50), on_racks.job("y", 50, gang=2))
    return on_racks.run_rule(rule, workload_of(*found), cluster)


NEAR = Cluster.of_servers(4, gpus_per_server=2)
NEAR_RACKS = Cluster.of_servers(4, gpus_per_server=2, servers_per_rack=2)


@pytest.mark.parametrize("cluster", [RACKS, NEAR, NEAR_RACKS], ids=["far", "near", "near racks"])
@pytest.mark.parametrize("name", TABLES["grants"])
def test_a_placement_rule_grants_nonsense(name, cluster):
    case = TABLES["grants"][name]
    with raises(case["rule"], "granting", "0"):
        run_placement_rule(Granting(granted(case["grants"])), cluster)


@pytest.mark.parametrize("grants", [None, [0, 1], [(0, Tier.MACHINE, {0: 1})]])
def test_a_placement_rule_returns_what_are_no_grants(grants):
    """Not even of the right type."""
    with raises("", "granting", "0"):
        run_placement_rule(Granting(grants), NEAR)


@pytest.mark.parametrize("machine", [2, -1])
def test_a_placement_rule_grants_machines_of_another_type(machine):
    """It knows its own machines alone: those of one type."""
    cluster = in_rounds.cluster_of({"a": 2}, {"a": 2}, {"b": 2}, {"b": 2})
    asked = []

    class Elsewhere(Granting):
        def decide(self, state):
            asked.append(len(state.machines.gpus))
            is_turn = machine > 0 or len(asked) == 2
            return [Grant(0, Tier.MACHINE, {machine: 1})] if is_turn else []

    policy = PlacingGangs(lambda: Elsewhere([]), reclaimer=None)
    with raises("job x", "granting", "0"):
        Kernel(workload_of(job_of("x", 0, 50)), cluster, policy, tenure=Leases()).run()
    assert asked[0] == 2


@pytest.mark.parametrize("starts_one", [False, True])
@pytest.mark.parametrize("wait_s", [0.0, -1.0, -math.inf, math.nan])
def test_a_placement_rule_asks_again_for_nothing(wait_s, starts_one):
    """Nobody runs, or somebody does, but nobody else ever will."""

    class Once(Granting):
        def decide(self, state):
            first = starts_one and not self.calls
            super().decide(state)
            return [Grant(0, Tier.MACHINE, {0: 1})] if first else []

    with raises("" if starts_one else "job x and 1 other wait", "granting"):
        run_placement_rule(Once([], wait_s), RACKS)


class Migrating(on_racks.FirstGpus):
    """Moves gangs where it is told to."""

    name = "granting"

    def __init__(self, grants):
        self._grants = grants

    def migrate(self, state, running):
        return self._grants


NO_MOVES = {"a list of none": [None], "none": None}


@pytest.mark.parametrize("name", [*TABLES["moves"], *NO_MOVES])
def test_a_placement_rule_moves_wrongly(name):
    case = TABLES["moves"].get(name, {"rule": ""})
    grants = granted(case["grants"]) if "grants" in case else NO_MOVES[name]
    jobs = (("x", 50, 0), ("y", 100, 0), ("z", 50, 10))
    submitted = [on_racks.job(name, run_s, submit_s=at_s) for name, run_s, at_s in jobs]
    with raises(case["rule"], "granting", "10"):
        run_placement_rule(Migrating(grants), RACKS, *submitted)


class GrowsOnLoan(QueuePolicy):
    """Lets a job on own servers grow on borrowed ones."""

    def decide(self, view):
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
    policy = GrowsOnLoan("grows-on-loan")
    kernel = Kernel(workload_of(job), borrowing(1, 1, 1), policy, plan=lending(1))
    if heterogeneous:
        assert kernel.run().runs[0].ran_on_loan
    else:
        with pytest.raises(PolicyError, match="job x takes either own or borrowed GPUs"):
            kernel.run()
