"""Rules that decide round by round: what they may not do, and shared GPUs.

Replays worked out by hand are in ``by_hand.toml``.
"""

import random

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.heterogeneous.heuristics.gavel import GavelRounds
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.heterogeneous.instance import Objective
from lyra_opt.simulation.metrics import require_conserved
from tests.lyra_opt.simulation.in_rounds import FirstFit, Scripted, cluster_of, gang, simulate
from tests.lyra_opt.simulation.product import require_same
from tests.lyra_opt.simulation.replays import completions
from tests.lyra_opt.simulation.test_by_hand import replayed
from tests.tables import tables

TABLES = tables(__file__)

# Rules that let GPUs idle on purpose, and rounds that end as a job does.


def test_newcomers_wait_longer_than_others_may_be_stuck():
    """For the next shares, 1,920 s after the last ones, which are 192 rounds."""
    rule = GavelRounds(Objective.MAX_MIN_SHARE, newcomers_run=False)
    jobs = [gang("x", 15, release_s=10), gang("y", 5, release_s=12)]
    assert completions(simulate(jobs, cluster_of({"a": 1}), rule)) == [25, 10 + 1920 + 5]


@pytest.mark.parametrize(("rate", "rounds"), [(0.7, 3), (5 / 7, 3), (13 / 3, 3), (5 / 3, 17)])
def test_a_round_is_decided_once(rate, rounds):
    """Also if rounding leaves a job that ends with the round a little to do."""
    asked_s = []

    def first_fit(state):
        asked_s.append(state.now_s)
        return FirstFit().decide(state)

    jobs = [gang("x", rounds * 10 * rate, a=rate), gang("y", 5 * rate, a=rate)]
    simulate(jobs, cluster_of({"a": 1}), Scripted(first_fit))
    assert asked_s == [10.0 * number for number in range(rounds + 1)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", ["gavel-las", "gavel-throughput", "yarn-cs"])
def test_decisions_are_kept_only_while_they_hold(name, seed):
    """Few jobs run for many rounds, and wait at times; deciding in every round changes nothing."""
    draw = random.Random(seed)
    jobs = [
        gang(
            f"j{number}",
            draw.choice((90, 333, 2000)) * draw.choice((1, 0.7)),
            gang=draw.choice((1, 1, 2, 5)),
            release_s=draw.choice((0, 500, 500, 3000)) + draw.randint(0, 90),
            a=draw.choice((1, 0.7)),
            **draw.choice(({}, {"b": 0.5}, {"b": 0.9})),
        )
        for number in range(12)
    ]
    jobs.sort(key=lambda job: job.release_s)
    restart_s, found = draw.choice((0.0, 1.0)), []
    for in_every_round in (False, True):
        rule = ROUND_POLICIES[name]()
        if in_every_round:
            rule.unchanged_for_s = lambda _: 0.0
        cluster = cluster_of({"a": 4}, {"a": 4}, {"b": 2})
        found.append(simulate(jobs, cluster, rule, restart_s=restart_s))
    kept, anew = found
    require_same(kept, anew)
    assert kept.totals.decisions < anew.totals.decisions


# What a policy may not do, and what cannot be.


@pytest.mark.parametrize(("rates", "message"), TABLES["too_large"])
def test_gangs_too_large(rates, message):
    """A gang that fits no type alone, of those that can run it, is refused beforehand."""
    jobs = [gang("x", 1, gang=1 + len(rates), **rates)]
    with pytest.raises(UserError, match=message):
        simulate(jobs, cluster_of({"a": 2, "b": 1}))


PACKING = ["gavel-las", "gavel-ftf", "gavel-makespan", "gavel-water-filling", "gavel-fifo"]


@pytest.mark.parametrize("scheme", [*PACKING, "gavel-gandiva"])
def test_all_that_is_conserved(scheme):
    """Many jobs of three kinds and two sizes that come, share, part and move on two servers."""
    kinds = [("pqr"[n % 3], 1 + (n % 4 == 3)) for n in range(16)]
    case = {
        "jobs": [
            (f"j{n}", 7.0 * n, 37.0 + 11 * n, {"kind": f"{of} on {gang}", "gang": gang, "a": 2.0})
            for n, (of, gang) in enumerate(kinds)
        ],
        "packed": 0.8,
        "servers": [{"a": 2}, {"a": 1}],
        "scheme": scheme,
        "parameters": {"least_reset_s": 0, **({"packs": True} if scheme in PACKING else {})},
    }
    simulation = replayed(case)
    require_conserved(simulation)
    assert any(run.slower_placement_s > 0 for run in simulation.runs), "nobody shared"
    assert completions(replayed(case)) == completions(simulation)


@pytest.mark.parametrize(("scheme", "message"), TABLES["packing"])
def test_packing_is_refused(scheme, message):
    """Without packed rates, and for policies that are blind to types."""
    case = {"jobs": [("x", 0, 30)], "servers": [{"a": 1}], "parameters": {"packs": True}}
    with pytest.raises(UserError, match=message):
        replayed(case | {"scheme": scheme})
