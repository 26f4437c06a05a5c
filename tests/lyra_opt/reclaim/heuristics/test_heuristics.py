"""The heuristics follow their documented rules to the last tie, interpreted and compiled."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given

import lyra_opt as lo
from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic
from lyra_opt.reclaim.heuristics.greedy import (
    LyraGreedy,
    LyraGreedyElastic,
    Marginal,
    Peeling,
    SmallestCountFirst,
    TieRule,
)
from lyra_opt.reclaim.heuristics.greedy_kernels import SHARE_UNIT
from lyra_opt.testing.strategies import reclaim_instances
from tests.draws import draws
from tests.lyra_opt.reclaim import plain_rules
from tests.lyra_opt.reclaim.examples import fleet, job_on
from tests.optima import optimum


def chosen_ids(heuristic, instance):
    positions = heuristic.choose(instance, np.random.default_rng(0))
    return [instance.servers[position].id for position in positions]


TIE_KEYS = {TieRule.MOST_VACATED: -1, TieRule.FEWEST_VACATED: 1, TieRule.FILE_ORDER: 0}


class TestLyraGreedy:
    """Cost, ties and the paper's example."""

    @pytest.mark.parametrize(
        ("reclaim_servers", "preempted"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3)]
    )
    def test_figure_5(self, figure_5, reclaim_servers, preempted):
        """The paper's Figure 5: as many preemptions as the optimum, for every N_R."""
        instance = replace(figure_5, reclaim_servers=reclaim_servers)
        answer = lo.solve(instance, LyraGreedy())
        assert answer.objective == preempted == optimum(instance)

    def test_fewest_vacated_gpus_first_misses_the_optimum_of_figure_5(self, figure_5):
        """Why the default tie rule is what it is: the opposite pays 2 where 1 is optimal."""
        answer = lo.solve(figure_5, LyraGreedy(TieRule.FEWEST_VACATED))
        assert answer.objective == 2

    def test_equal_sums_of_unlike_fractions_tie(self, mode):
        """1/3 + 1/6 equals 1/2: decided by the tie rule, not by the last digit of a float."""
        instance = fleet(
            ["half", "third-and-sixth"],
            job_on("a", ["half", "f0"]),
            job_on("b", ["third-and-sixth", "f0", "f1"]),
            job_on("c", ["third-and-sixth", "f0", "f1", "f2", "f3", "f4"]),
            off_loan=[f"f{number}" for number in range(5)],
        )
        assert chosen_ids(LyraGreedy(TieRule.FILE_ORDER), instance) == ["half"]
        assert chosen_ids(LyraGreedy(TieRule.MOST_VACATED), instance) == ["third-and-sixth"]

    def test_costs_beyond_two_limbs(self, mode):
        """Spans whose common multiple needs far more than 122 bits are still compared exactly."""
        spans = [127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199]
        servers = [f"s{number}" for number in range(200)]
        jobs = [job_on(f"on-{span}", servers[:span]) for span in spans]
        assert chosen_ids(LyraGreedy(), fleet(servers, *jobs, reclaim=3)) == [
            "s199",
            "s197",
            "s198",
        ]


def by_shares(instance, *, tie_rule):
    """Return Lyra's choice: shares in fractions, then the GPUs that are vacated elsewhere."""

    def key(server, taken):
        jobs = plain_rules.living_jobs(instance, server, taken)
        vacated = plain_rules.gpus_elsewhere(jobs, server, taken)
        return plain_rules.lyra_cost(instance, server, taken), TIE_KEYS[tie_rule] * vacated

    return plain_rules.greedy(instance, key)


def by_new_preemptions(instance):
    """Return the choice by the weight of the jobs that each server preempts anew."""

    def key(server, taken):
        jobs = plain_rules.living_jobs(instance, server, taken)
        return sum(job.weight for job in jobs), -plain_rules.gpus_elsewhere(jobs, server, taken)

    return plain_rules.greedy(instance, key)


def by_slack(instance, *, is_shared):
    """Return the choice by weights, or shares of them, of jobs that would die, then slack used."""

    def worth(job):
        servers = plain_rules.servers_of(job, base_only=False) if is_shared else [job]
        return Fraction(job.weight, len(servers))

    def key(server, taken):
        cost, price = Fraction(0), 0
        for job in instance.jobs:
            lost = sum(group.workers for group in job.workers if group.server == server)
            slack = plain_rules.slack_left(job, taken)
            if not lost or slack < 0:
                continue
            if lost > slack:
                cost += worth(job)
            else:
                price += plain_rules.price_of_slack(job, server, taken, SHARE_UNIT)
        return cost, price

    return plain_rules.greedy(instance, key)


def peeled(instance):
    """Return what is left of all servers, given back one by one, computed anew each time."""
    index = instance.index
    chosen = {server.id for server in instance.servers if server.on_loan}
    names = [server.id for server in instance.servers]
    rows = [
        {names[s]: count for s, count in index.losses.row(j)} for j in range(len(instance.jobs))
    ]

    def key(server):
        saving = share = 0
        for job, row, slack in zip(instance.jobs, rows, index.slack.tolist(), strict=True):
            excess = sum(count for s, count in row.items() if s in chosen) - slack
            count = row.get(server, 0)
            if excess > 0 and count:
                saving += job.weight if count >= excess else 0
                share += job.weight * min(count, excess) * SHARE_UNIT // excess
        return -saving, -share

    while len(chosen) > instance.reclaim_servers:
        chosen.remove(min((s for s in names if s in chosen), key=key))
    return [s for s in names if s in chosen]


def by_count(instance):
    """Return the servers of fewest jobs, ties in file order; rigid: jobs with base workers."""
    rigid = instance.semantics == "rigid"
    on_server = [plain_rules.servers_of(job, base_only=rigid) for job in instance.jobs]
    on_loan = [server.id for server in instance.servers if server.on_loan]
    counts = {server: sum(server in servers for servers in on_server) for server in on_loan}
    return sorted(on_loan, key=counts.__getitem__)[: instance.reclaim_servers]


RULES = {
    **{tie: (LyraGreedy(tie), None, partial(by_shares, tie_rule=tie)) for tie in TieRule},
    "marginal, rigid": (Marginal(), "rigid", by_new_preemptions),
    "marginal": (Marginal(), "interchangeable", partial(by_slack, is_shared=False)),
    "elastic": (LyraGreedyElastic(), "interchangeable", partial(by_slack, is_shared=True)),
    "peeling": (Peeling(), None, peeled),
    "smallest count": (SmallestCountFirst(), None, by_count),
}


@pytest.mark.parametrize("rule", RULES)
def test_follows_its_rule(mode, rule):
    """Equal to the rule recomputed from scratch with fractions, in every choice and tie."""
    heuristic, semantics, expected = RULES[rule]

    @given(reclaim_instances(semantics=semantics))
    @draws(60)
    def follows(instance):
        assert chosen_ids(heuristic, instance) == expected(instance)

    follows()


def test_a_skip_carries_its_reason(figure_5):
    """The elastic rule takes one of the two semantics."""
    answer = lo.solve(figure_5, LyraGreedyElastic())
    assert (answer.status, answer.message) == (
        "unsupported",
        "lyra-greedy-elastic supports interchangeable instances only; this instance is rigid",
    )


def test_the_arrays_of_an_instance_are_read_only(figure_5):
    """So that no solver changes it."""
    with pytest.raises(ValueError, match="read-only"):
        figure_5.index.slack[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        figure_5.index.losses.job_counts[0] = 2


class OfIds(ReclaimHeuristic):
    """Returns what it must not."""

    name = "of-ids"

    def choose(self, instance, rng):
        return [server.id for server in instance.servers]


def test_ids_in_the_place_of_positions_are_told_at_the_line_of_the_method():
    """Nothing is raised in the method, so its first line is the one to name."""
    answer = lo.solve(fleet("s"), OfIds())
    line = OfIds.choose.__code__.co_firstlineno
    assert 'returned "s": it must return positions' in answer.message
    assert answer.message.endswith(f"(test_heuristics.py, line {line})")
