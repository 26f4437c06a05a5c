"""The linear relaxation of the pattern model in HiGHS: a proved bound, and a rounded placement.

Twin of ``pulp_patterns.py``, ``cpsat_patterns.py`` and ``mathopt_patterns.py``: the same
constraints by the same names in the same order. Symbols: see the README beside this file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from formulations.exact_solver import Countdown, concluded, load_modules, missing_module
from formulations.network.greedy_start import best_of, filled
from formulations.network.model_data import simple_bound
from formulations.network.model_solver import (
    in_instance_units,
    started,
    too_large,
)
from formulations.network.pattern_data import PatternModel, Variables, pattern_columns
from lyra_opt.core.result import StoppedBy
from lyra_opt.network.instance import Objective
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lyra_opt.core.result import Limits, Number, SolveResult
    from lyra_opt.core.solver import Unsupported
    from lyra_opt.network.instance import NetworkInstance, NetworkSolution

MODULES = ("highspy",)
MULTIPLIER_BITS = 40
"""Multipliers and costs are rounded to multiples of 2**-40, and are exact from there on."""
HARDLY = 1e-6
"""A share of a gang that counts as none."""


class Row(NamedTuple):
    """``sum coefficient x <= limit``, or ``=``."""

    name: str
    terms: Sequence[tuple[int, int]]
    """Coefficient and column."""
    limit: int
    is_equation: bool


@dataclass(slots=True)
class Programme:
    """Minimise costs over columns from 0 to `most`, subject to rows."""

    most: list[int] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def column(self, most: int) -> int:
        """Add a column; return its position."""
        self.most.append(most)
        self.cost.append(0.0)
        return len(self.most) - 1

    def at_most(self, name: str, terms: Iterable[tuple[int, int]], limit: int = 0) -> None:
        """Add a row that is at most `limit`."""
        self.rows.append(Row(name, tuple(terms), limit, is_equation=False))

    def equal(self, name: str, terms: Iterable[tuple[int, int]], limit: int = 0) -> None:
        """Add a row that is `limit`."""
        self.rows.append(Row(name, tuple(terms), limit, is_equation=True))

    def least(self, multipliers: Sequence[float]) -> Fraction:
        """Return the bound on the cost that multipliers of the rows prove, in exact arithmetic.

        For any y, at most 0 where a row may be less than its limit, a point x that keeps the rows
        a x has c x >= c x + y (b - a x) = y b + (c - y a) x, and each column is least at one of its
        ends. So it does not matter how y was found.
        """
        scale = 2**MULTIPLIER_BITS
        reduced = [math.floor(Fraction(cost) * scale) for cost in self.cost]
        total = 0
        for row, multiplier in zip(self.rows, multipliers, strict=True):
            y = round(Fraction(multiplier) * scale)
            y = y if row.is_equation else min(0, y)
            total += y * row.limit
            if y:
                for coefficient, k in row.terms:
                    reduced[k] -= y * coefficient
        total += sum(min(0, cost) * most for cost, most in zip(reduced, self.most, strict=True))
        return Fraction(total, scale)


def build(patterns: PatternModel) -> tuple[Programme, Variables]:
    """Return the programme: variables, constraints in the order of `CONSTRAINTS`, objective."""
    programme = Programme()
    variables = add_variables(programme, patterns)
    for add_constraint in CONSTRAINTS:
        add_constraint(programme, patterns, variables)
    add_objective(programme, patterns, variables)
    return programme, variables


# Variables


def add_variables(model: Programme, patterns: PatternModel) -> Variables:
    """``0 <= y, d_ro <= 1``; ``z_rk, l_cp, q_r >= 0``."""
    kinds: Any = (
        {key: model.column(most) for key, most in largest.items()} for largest in patterns.largest()
    )
    return Variables(*kinds)


# Constraints


def one_tier(model: Programme, patterns: PatternModel, variables: Variables) -> None:
    """``y_j0 + y_j1 + y_j2 <= 1``."""
    for j, places in patterns.places(variables):
        model.at_most(f"one_tier_{j}", _each(1, places), 1)


def one_pattern(model: Programme, patterns: PatternModel, variables: Variables) -> None:
    """``sum_p l_cp = M_c``."""
    for c, one in enumerate(patterns.classes):
        chosen = [variables.pattern[c, p] for p in range(len(patterns.patterns[c]))]
        model.equal(f"one_pattern_{c}", _each(1, chosen), len(one.machines))


def gangs_of_size(model: Programme, patterns: PatternModel, variables: Variables) -> None:
    """``sum_{j : n_j = n} y_j0 <= sum_{c, p} a_pn l_cp``; ``=`` where machines count."""
    add = model.equal if patterns.data.counts_machines else model.at_most
    for n, gangs, slots in patterns.slots(variables):
        add(f"gangs_of_size_{n}", [*_each(1, gangs), *_less(slots)])


def gangs_of_kind(model: Programme, patterns: PatternModel, variables: Variables) -> None:
    """``sum_{j in k} y_j1 = sum_r z_rk`` for each kind k."""
    for k, gangs, in_racks in patterns.of_kind(variables):
        model.equal(f"gangs_of_kind_{k}", [*_each(1, gangs), *_each(-1, in_racks)])


def rack_gpus(model: Programme, patterns: PatternModel, variables: Variables) -> None:
    """``sum_k n_k z_rk + q_r <= sum_{c in r, p} o_p l_cp``; ``=`` where machines count."""
    add = model.equal if patterns.data.counts_machines else model.at_most
    for r, needs, opened in patterns.rack_loads(variables):
        add(f"rack_gpus_{r}", [*needs, *_less(opened)])


def network_gpus(model: Programme, patterns: PatternModel, variables: Variables) -> None:
    """``sum_j n_j y_j2 = sum_r q_r``."""
    if variables.network:
        held = [(patterns.data.gang(j), x) for j, x in variables.network.items()]
        model.equal("network_gpus", [*held, *_each(-1, variables.share.values())])


def open_pattern(model: Programme, patterns: PatternModel, variables: Variables) -> None:
    """``sum_{c in r, p : o_p = o} l_cp <= M_r d_ro``."""
    for r, o, most, chosen in patterns.opening(variables):
        model.at_most(f"open_pattern_{r}_{o}", [*_each(1, chosen), (-most, variables.open[r, o])])


def spans_machines(model: Programme, patterns: PatternModel, variables: Variables) -> None:
    """``o d_ro + sum_{(r, k) in A} z_rk <= sum_{c in r, p} o_p l_cp``."""
    for r, o, apart, opened in patterns.racks_apart(variables):
        terms = [(o, variables.open[r, o]), *_each(1, apart), *_less(opened)]
        model.at_most(f"spans_machines_{r}_{o}", terms)


def spans_racks(model: Programme, patterns: PatternModel, variables: Variables) -> None:
    """``q_r + sum_{j in B} y_j2 <= sum_r' q_r'`` for each rack r."""
    apart = [x for j, x in variables.network.items() if j in patterns.data.must_span_racks]
    for r in variables.share if apart else ():
        others = [x for other, x in variables.share.items() if other != r]
        model.at_most(f"spans_racks_{r}", [*_each(1, apart), *_each(-1, others)])


CONSTRAINTS = (
    one_tier,
    one_pattern,
    gangs_of_size,
    gangs_of_kind,
    rack_gpus,
    network_gpus,
    open_pattern,
    spans_machines,
    spans_racks,
)


# Objective


def add_objective(model: Programme, patterns: PatternModel, variables: Variables) -> None:
    """Minimise ``sum_{c, p} h_cp l_cp - sum_j (v_j0 y_j0 + v_j1 y_j1 + v_j2 y_j2)``."""
    worth = patterns.data.worth_in_floats
    for key, one in patterns.all_patterns():
        model.cost[variables.pattern[key]] = float(one.leaves_part)
    for tier, of_tier in _by_tier(variables).items():
        for j, x in of_tier.items():
            model.cost[x] = -worth[j][tier]


def _by_tier(variables: Variables) -> dict[Tier, Mapping[int, int]]:
    return {
        Tier.MACHINE: variables.machine,
        Tier.RACK: variables.rack,
        Tier.NETWORK: variables.network,
    }


def _each(coefficient: int, columns: Iterable[int]) -> list[tuple[int, int]]:
    return [(coefficient, column) for column in columns]


def _less(terms: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(-coefficient, column) for coefficient, column in terms]


# Backend


class LpPoint(NamedTuple):
    """What HiGHS says, not believed yet; None for what it does not."""

    values: Sequence[float] | None
    multipliers: Sequence[float] | None
    iterations: int


def run_highs(programme: Programme, time_s: float | None) -> LpPoint:
    """Solve a programme on one thread."""
    import highspy

    model = highspy.Highs()
    model.silent()
    model.setOptionValue("threads", 1)
    if time_s is not None:
        model.setOptionValue("time_limit", time_s)
    columns, rows = len(programme.most), programme.rows
    model.addVars(columns, np.zeros(columns), np.array(programme.most, np.float64))
    model.changeColsCost(
        columns, np.arange(columns, dtype=np.int32), np.array(programme.cost, np.float64)
    )
    limits = np.array([row.limit for row in rows], np.float64)
    is_equation = np.array([row.is_equation for row in rows])
    starts = np.cumsum([0, *(len(row.terms) for row in rows)])
    terms = [term for row in rows for term in row.terms]
    model.addRows(
        len(rows),
        np.where(is_equation, limits, -np.inf),
        limits,
        len(terms),
        starts[:-1].astype(np.int32),
        np.array([column for _, column in terms], np.int32),
        np.array([coefficient for coefficient, _ in terms], np.float64),
    )
    model.run()
    solution = model.getSolution()
    return LpPoint(
        list(solution.col_value) if solution.value_valid else None,
        list(solution.row_dual) if solution.dual_valid else None,
        max(0, model.getInfo().simplex_iteration_count),
    )


class LpHighs:
    """The relaxation of the pattern model; implements `lyra_opt.core.solver.Solver`.

    The bound is recomputed in exact arithmetic from the multipliers of the rows, so it is proved
    whatever HiGHS did. The answer is the best of the start and of two roundings: gangs in order of
    the share of them that the relaxation places, or of their worth for each GPU with those that it
    does not place last, each at the tiers that it prefers. No guarantee. Of the limits only the
    time is kept.
    """

    name: ClassVar[str] = "lp-highs"
    problem: ClassVar[str] = "network"
    variants: ClassVar[Sequence[str]] = tuple(str(objective) for objective in Objective)
    proves_optimality: ClassVar[bool] = False
    gives_bound: ClassVar[bool] = True

    def availability(self) -> Unsupported | None:
        """Return which package is missing, None if none is; imports none of them."""
        return missing_module(MODULES)

    def supports(self, instance: NetworkInstance) -> Unsupported | None:
        """Return why the programme would be too large."""
        return too_large(pattern_columns(instance))

    def solve(
        self,
        instance: NetworkInstance,
        *,
        limits: Limits,
        rng: np.random.Generator,  # noqa: ARG002
        warm_start: NetworkSolution | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[NetworkSolution]:
        """Solve the relaxation and round it; see `lyra_opt.core.solver.Solver.solve`.

        Raises
        ------
        ValueError
            If the warm start is no valid solution.
        """
        load_modules(MODULES)
        countdown = Countdown(limits.time_s)
        incumbent = started(instance, warm_start)
        if observer is not None:
            observer("objective", incumbent[1])
        bound: Number = simple_bound(instance)
        stopped_by, iterations = None, 0
        patterns = None if countdown.is_over else PatternModel.of(instance)
        if patterns is None:
            stopped_by = StoppedBy.TIME
        elif not patterns.data.can_start():
            bound = incumbent[1]
        else:
            programme, variables = build(patterns)
            point = run_highs(programme, countdown.remaining_s)
            iterations = point.iterations
            if point.multipliers is not None:
                worth = -programme.least(point.multipliers)
                bound = min(bound, in_instance_units(patterns.data, worth, in_floats=True))
            if point.values is None or point.multipliers is None:
                stopped_by = StoppedBy.TIME
            else:
                tried = _rounded(patterns, variables, point.values)
                found = best_of(instance, [incumbent[0], *tried])
                if found[1] > incumbent[1]:
                    incumbent = found
                    if observer is not None:
                        observer("objective", incumbent[1])
        result = concluded(
            incumbent,
            bound,
            stopped_by=stopped_by,
            counters={"iterations": iterations},
            observer=observer,
            proof_gap=instance.objective.proof_gap,
        )
        return replace(result, message=None)  # a gap is what a relaxation leaves


def _rounded(
    patterns: PatternModel, variables: Variables, values: Sequence[float]
) -> list[NetworkSolution]:
    """Return the placements of the two orders."""
    data = patterns.data
    share: dict[int, dict[Tier, float]] = {j: {} for j in data.jobs}
    for tier, of_tier in _by_tier(variables).items():
        for j, x in of_tier.items():
            share[j][tier] = values[x]
    tiers = {
        j: sorted(of_job, key=lambda tier: (of_job[tier], data.worth[j][tier]), reverse=True)
        for j, of_job in share.items()
    }
    placed = {j: sum(of_job.values()) for j, of_job in share.items()}
    dense = {j: max(data.worth[j]) / data.gang(j) for j in data.jobs}
    orders = (
        sorted(data.jobs, key=lambda j: (-placed[j], -dense[j])),
        sorted(data.jobs, key=lambda j: (placed[j] < HARDLY, -dense[j])),
    )
    return [filled(data.instance, [(j, tiers[j]) for j in order]) for order in orders]
