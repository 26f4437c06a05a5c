"""The pattern model of gang placement, written once as rows that all backends take.

``y, d_ro in {0, 1}``; ``z_rk, l_cp, q_r >= 0`` integer. y starts a job at a tier; rack r holds z_rk
gangs of kind k and leaves q_r GPUs to gangs across racks. Pattern p fills l_cp machines of class c;
d_ro is 1 if a machine of r leaves o GPUs open. In the linear relaxation, which ``lp-highs`` solves,
all variables are continuous.
"""

from collections.abc import Iterator

from lyra_opt.formulations.backends import linear
from lyra_opt.formulations.backends.all_backends import BACKENDS
from lyra_opt.formulations.backends.rows import Row, Term, at_most, each, equal
from lyra_opt.formulations.exact_model import ExactModelSolver, RowStatement
from lyra_opt.formulations.network.patterns.data import (
    PATTERNS,
    RELAXED_PATTERNS,
    PatternModel,
    Variables,
)
from lyra_opt.formulations.network.tiers.model import network_gpus, spans_racks

# Constraints


def one_tier(patterns: PatternModel, variables: Variables) -> Iterator[Row]:
    """Start job j at most once, at one tier: ``y_j0 + y_j1 + y_j2 <= 1``."""
    tiers = variables.by_tier().values()
    for j in patterns.data.jobs:
        if places := [of_tier[j] for of_tier in tiers if j in of_tier]:
            yield at_most(f"one_tier_{j}", each(places), limit=1)


def one_pattern(patterns: PatternModel, variables: Variables) -> Iterator[Row]:
    """Fill every machine of class c by a pattern: ``sum_p l_cp = M_c``."""
    for c, one in enumerate(patterns.classes):
        chosen = [variables.pattern[c, p] for p in range(len(patterns.patterns[c]))]
        yield equal(f"one_pattern_{c}", each(chosen), limit=len(one.machines))


def gangs_of_size(patterns: PatternModel, variables: Variables) -> Iterator[Row]:
    """Start gangs of size n as patterns allow: ``sum_{n_j = n} y_j0 <= sum_{c, p} a_pn l_cp``.

    Both sides are equal (``=``) where machines count.
    """
    row = equal if patterns.data.counts_machines else at_most
    for place, n in enumerate(patterns.sizes):
        gangs = [x for j, x in variables.machine.items() if patterns.data.gang(j) == n]
        slots = [
            (pattern.gangs[place], variables.pattern[key])
            for key, pattern in patterns.all_patterns()
            if pattern.gangs[place]
        ]
        yield row(f"gangs_of_size_{n}", each(gangs), slots)


def gangs_of_kind(patterns: PatternModel, variables: Variables) -> Iterator[Row]:
    """Assign the gangs of kind k to racks: ``sum_{j in k} y_j1 = sum_r z_rk``."""
    for k, kind in enumerate(patterns.kinds):
        gangs = [x for j, x in variables.rack.items() if patterns.kind_of[j] == kind]
        in_racks = [x for (_, other), x in variables.gangs.items() if other == k]
        yield equal(f"gangs_of_kind_{k}", each(gangs), each(in_racks))


def rack_gpus(patterns: PatternModel, variables: Variables) -> Iterator[Row]:
    """Use at most the open GPUs of rack r: ``sum_k n_k z_rk + q_r <= sum_{c in r, p} o_p l_cp``.

    Both sides are equal (``=``) where machines count.
    """
    row = equal if patterns.data.counts_machines else at_most
    for r in patterns.data.shared_racks():
        needs: list[Term] = [
            (kind.size, variables.gangs[r, k])
            for k, kind in enumerate(patterns.kinds)
            if (r, k) in variables.gangs
        ]
        if r in variables.share:
            needs.append((1, variables.share[r]))
        yield row(f"rack_gpus_{r}", needs, _open_gpus(patterns, variables, r))


def open_pattern(patterns: PatternModel, variables: Variables) -> Iterator[Row]:
    """Set d_ro if a machine leaves o GPUs open: ``sum_{c in r, p : o_p = o} l_cp <= M_r d_ro``."""
    for (r, o), is_open in variables.open.items():
        chosen = [
            variables.pattern[key]
            for key, pattern in patterns.patterns_of(r)
            if pattern.open_gpus == o
        ]
        most = len(patterns.data.racks[r])
        yield at_most(f"open_pattern_{r}_{o}", each(chosen), [(most, is_open)])


def spans_machines(patterns: PatternModel, variables: Variables) -> Iterator[Row]:
    """Span machines if required: ``o d_ro + sum_{(r, k) in A} z_rk <= sum_{c in r, p} o_p l_cp``.

    A holds the pairs (r, k) such that gangs of kind k must span machines of rack r.
    """
    for (r, o), is_open in variables.open.items():
        largest = max(patterns.data.free(m) for m in patterns.data.racks[r])
        apart = [
            variables.gangs[r, k]
            for k, kind in enumerate(patterns.kinds)
            if (r, k) in variables.gangs and kind.loses and kind.size <= largest
        ]
        opened = _open_gpus(patterns, variables, r)
        yield at_most(f"spans_machines_{r}_{o}", [(o, is_open), *each(apart)], opened)


def _open_gpus(patterns: PatternModel, variables: Variables, r: int) -> list[Term]:
    """Return the GPUs of rack r that patterns leave to gangs on several machines, as terms."""
    return [
        (pattern.open_gpus, variables.pattern[key])
        for key, pattern in patterns.patterns_of(r)
        if pattern.open_gpus
    ]


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


def cost(patterns: PatternModel, variables: Variables) -> list[Term]:
    """Minimise the number of partly free machines minus the value of the jobs that start.

    ``sum_{c, p} h_cp l_cp - sum_j (v_j0 y_j0 + v_j1 y_j1 + v_j2 y_j2)``.
    """
    return patterns.cost(variables)


STATEMENT = RowStatement(CONSTRAINTS, cost)

SOLVERS = tuple(ExactModelSolver(PATTERNS, STATEMENT, backend) for backend in BACKENDS)
LP_HIGHS = ExactModelSolver(RELAXED_PATTERNS, STATEMENT, linear.BACKEND)
