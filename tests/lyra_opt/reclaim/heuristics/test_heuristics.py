"""The heuristics follow their documented rules to the last tie, interpreted and compiled."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from lyra_opt.core.problem import find_problem
from lyra_opt.core.solving import solve_and_check
from lyra_opt.reclaim import Instance, Job, Server, WorkerGroup
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
from tests.optima import optimum

PROBLEM = find_problem("reclaim")


def chosen_ids(heuristic: ReclaimHeuristic, instance: Instance) -> list[str]:
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
        answer = solve_and_check(PROBLEM, instance, LyraGreedy())
        assert answer.objective == preempted == optimum(instance)

    def test_fewest_vacated_gpus_first_misses_the_optimum_of_figure_5(self, figure_5):
        """Why the default tie rule is what it is: the opposite pays 2 where 1 is optimal."""
        answer = solve_and_check(PROBLEM, figure_5, LyraGreedy(TieRule.FEWEST_VACATED))
        assert answer.objective == 2

    @pytest.mark.parametrize("tie_rule", list(TieRule))
    def test_follows_the_rule(self, mode, tie_rule):
        """Equal to the rule recomputed from scratch with fractions, in every choice and tie."""

        @given(reclaim_instances())
        @draws(60)
        def follows(instance: Instance) -> None:
            def key(server: str, taken: set[str]) -> tuple[Fraction | int, ...]:
                jobs = plain_rules.living_jobs(instance, server, taken)
                vacated = plain_rules.gpus_elsewhere(jobs, server, taken)
                return plain_rules.lyra_cost(instance, server, taken), TIE_KEYS[tie_rule] * vacated

            assert chosen_ids(LyraGreedy(tie_rule), instance) == plain_rules.greedy(instance, key)

        follows()

    def test_equal_sums_of_unlike_fractions_tie(self, mode):
        """1/3 + 1/6 equals 1/2: decided by the tie rule, not by the last digit of a float."""
        fillers = [Server(id=f"f{i}", gpus=8, on_loan=False) for i in range(5)]
        instance = Instance(
            name="tie",
            semantics="rigid",
            reclaim_servers=1,
            servers=(Server(id="half", gpus=8), Server(id="third-and-sixth", gpus=8), *fillers),
            jobs=(
                _job("a", ["half", "f0"]),
                _job("b", ["third-and-sixth", "f0", "f1"]),
                _job("c", ["third-and-sixth", "f0", "f1", "f2", "f3", "f4"]),
            ),
        )
        assert chosen_ids(LyraGreedy(TieRule.FILE_ORDER), instance) == ["half"]
        assert chosen_ids(LyraGreedy(TieRule.MOST_VACATED), instance) == ["third-and-sixth"]

    def test_costs_beyond_two_limbs(self, mode):
        """Spans whose common multiple needs far more than 122 bits are still compared exactly."""
        spans = [127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199]
        servers = [Server(id=f"s{i}", gpus=64) for i in range(200)]
        jobs = [
            _job(f"j{n}", [server.id for server in servers[:span]]) for n, span in enumerate(spans)
        ]
        instance = Instance(
            name="wide",
            semantics="rigid",
            reclaim_servers=3,
            servers=tuple(servers),
            jobs=tuple(jobs),
        )
        assert chosen_ids(LyraGreedy(), instance) == ["s199", "s197", "s198"]


def _job(name: str, servers: list[str], **fields: int) -> Job:
    return Job(
        id=name, workers=tuple(WorkerGroup(server=server, base=1) for server in servers), **fields
    )


class TestMarginal:
    """New preemptions, in both semantics."""

    def test_follows_the_rigid_rule(self, mode):
        """Equal to the rule recomputed from scratch."""

        @given(reclaim_instances(semantics="rigid"))
        @draws(60)
        def follows(instance: Instance) -> None:
            def key(server: str, taken: set[str]) -> tuple[int, ...]:
                jobs = plain_rules.living_jobs(instance, server, taken)
                vacated = plain_rules.gpus_elsewhere(jobs, server, taken)
                return sum(job.weight for job in jobs), -vacated

            assert chosen_ids(Marginal(), instance) == plain_rules.greedy(instance, key)

        follows()

    def test_follows_the_interchangeable_rule(self, mode):
        """Equal to the rule recomputed from scratch, slack counted down."""

        @given(reclaim_instances(semantics="interchangeable"))
        @draws(60)
        def follows(instance: Instance) -> None:
            weights = {job.id: Fraction(job.weight) for job in instance.jobs}
            expected = plain_rules.greedy(instance, _slack_key(instance, weights))
            assert chosen_ids(Marginal(), instance) == expected

        follows()


class TestLyraGreedyElastic:
    """Lyra's shares over the jobs that would drop below their minimum."""

    def test_follows_the_rule(self, mode):
        """Equal to the rule recomputed from scratch with fractions."""

        @given(reclaim_instances(semantics="interchangeable"))
        @draws(60)
        def follows(instance: Instance) -> None:
            shares = {
                job.id: Fraction(job.weight, len(plain_rules.servers_of(job, base_only=False)))
                for job in instance.jobs
            }
            expected = plain_rules.greedy(instance, _slack_key(instance, shares))
            assert chosen_ids(LyraGreedyElastic(), instance) == expected

        follows()

    def test_skips_rigid_instances_with_a_reason(self, figure_5):
        """A skip carries its reason."""
        answer = solve_and_check(PROBLEM, figure_5, LyraGreedyElastic())
        assert answer.status == "unsupported"
        assert answer.message == (
            "lyra-greedy-elastic supports interchangeable instances only; this instance is rigid"
        )


def _slack_key(instance: Instance, shares: dict[str, Fraction]):
    """Return the key of the slack-aware rules: shares of jobs that would die, then slack used."""

    def key(server: str, taken: set[str]) -> tuple[Fraction | int, ...]:
        cost, price = Fraction(0), 0
        for job in instance.jobs:
            lost = sum(group.workers for group in job.workers if group.server == server)
            slack = plain_rules.slack_left(job, taken)
            if not lost or slack < 0:
                continue
            if lost > slack:
                cost += shares[job.id]
            else:
                price += plain_rules.price_of_slack(job, server, taken, SHARE_UNIT)
        return cost, price

    return key


class TestPeeling:
    """The greedy in reverse."""

    def test_follows_the_rule(self, mode):
        """Equal to the rule recomputed from scratch after every return."""

        @given(reclaim_instances())
        @draws(60)
        def follows(instance: Instance) -> None:
            assert chosen_ids(Peeling(), instance) == _peeled(instance)

        follows()


def _peeled(instance: Instance) -> list[str]:
    index = instance.index
    on_loan = {server.id for server in instance.servers if server.on_loan}
    chosen = set(on_loan)
    names = [server.id for server in instance.servers]
    rows = [
        {names[s]: count for s, count in index.losses.row(j)} for j in range(len(instance.jobs))
    ]

    def key(server: str) -> tuple[int, int]:
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


class TestSmallestCountFirst:
    """Jobs counted once, base workers only in the rigid case, ties in file order."""

    @given(reclaim_instances())
    def test_follows_the_rule(self, instance):
        """Equal to a sort by the number of jobs."""
        rigid = instance.semantics == "rigid"
        jobs = {
            server.id: sum(
                server.id in plain_rules.servers_of(job, base_only=rigid) for job in instance.jobs
            )
            for server in instance.servers
        }
        on_loan = [server.id for server in instance.servers if server.on_loan]
        expected = sorted(on_loan, key=jobs.__getitem__)[: instance.reclaim_servers]
        assert chosen_ids(SmallestCountFirst(), instance) == expected


def test_the_arrays_of_an_instance_are_read_only(figure_5):
    """So that no solver changes it."""
    with pytest.raises(ValueError, match="read-only"):
        figure_5.index.slack[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        figure_5.index.losses.job_counts[0] = 2


class OfIds(ReclaimHeuristic):
    """Returns what it must not."""

    name = "of-ids"

    def choose(self, instance: Instance, rng: np.random.Generator) -> list[Any]:
        return [server.id for server in instance.servers]


def test_ids_in_the_place_of_positions_are_told_at_the_line_of_the_method():
    """Nothing is raised in the method, so its first line is the one to name."""
    instance = Instance(name="x", reclaim_servers=1, servers=(Server(id="s", gpus=8),), jobs=())
    answer = solve_and_check(find_problem("reclaim"), instance, OfIds())
    line = OfIds.choose.__code__.co_firstlineno
    assert 'returned "s": it must return positions' in answer.message
    assert answer.message.endswith(f"(test_heuristics.py, line {line})")
