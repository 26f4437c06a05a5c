"""The preemption model of an instance with the cost of one stage, and its conversion to solutions.

A stage is a sequence of consecutive terms of the objective, which the cost encodes as one integer.
The README in this folder defines the symbols.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.backends.backend import CostUnit, Values
from lyra_opt.formulations.backends.rows import Row, Term
from lyra_opt.formulations.exact_model import Formulation
from lyra_opt.formulations.exact_solver import next_multiple
from lyra_opt.formulations.preemption.model_rows import ModelRows, Variables
from lyra_opt.preemption.instance import Instance, Moves, Solution
from lyra_opt.preemption.objective import Objective
from lyra_opt.preemption.problem import PROBLEM

LARGEST_STAGE = 2**24
"""The largest cost of a stage with several terms.

Fewer stages save runs, and small costs leave the tolerances of floats without effect. On 30 fleets
of 54 and 144 nodes, runs with 2^20 and with 2^31 took as long.
"""
LARGEST_EXPORTED = 2**53
"""The largest objective of an exported model; floats hold all integers up to here."""
LARGEST_TERM_IN_FLOATS, LARGEST_TERM = 2**31, 2**50
MOST_UNITS_IN_FLOATS, MOST_UNITS = 10**7, 2**36
MOST_VARIABLES = 1_000_000
AS_IT_IS = CostUnit()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionModel:
    """The preemption model of an instance; its cost is one stage of the objective.

    Parameters
    ----------
    instance
        The instance.
    parts
        The bounds of the variables, the rows and the costs.
    divisors
        For each term of the objective, a common divisor of all values that the term can have.
    stage
        The positions of the terms of the objective that the cost covers.
    proved
        The values of all earlier terms.
    """

    instance: Instance
    parts: ModelRows
    divisors: tuple[int, ...]
    stage: range = range(0)
    proved: tuple[int, ...] = ()
    is_settled: bool = False
    unit: CostUnit = AS_IT_IS

    @classmethod
    def of(cls, instance: Instance) -> "PreemptionModel":
        """Build the model without a current stage, in time linear in its size."""
        parts = ModelRows(instance)
        divisors = (math.gcd(*(cost for cost, _, _ in costs)) for costs in parts.costs)
        return cls(instance=instance, parts=parts, divisors=tuple(max(1, d) for d in divisors))

    @classmethod
    def whole(cls, instance: Instance, largest: int) -> "PreemptionModel":
        """Return the model to export, with the objective or the first stage as its cost.

        The cost is the encoded objective if its largest value is at most `largest`, and otherwise
        the first stage.
        """
        model, terms = cls.of(instance), len(instance.terms.terms)
        if instance.terms.largest > largest:
            return model.at(model.stages()[0])
        return replace(model, divisors=(1,) * terms, stage=range(terms))

    # Stages

    def stages(self) -> list[range]:
        """Return the stages in order; terms share a stage if its cost is at most `LARGEST_STAGE`.

        A term whose cost alone is larger is a stage by itself. There is at least one stage.
        """
        found = [range(0)]
        for t in range(len(self.divisors)):
            merged = range(found[-1].start, t + 1)
            if len(merged) > 1 and self._objective(merged).largest > LARGEST_STAGE:
                found.append(range(t, t + 1))
            else:
                found[-1] = merged
        return found

    def _objective(self, stage: range) -> Objective:
        """Return the terms of a stage with divided values, which its cost encodes."""
        terms, divisors = self.instance.terms.terms, self.divisors
        divided = (replace(terms[t], largest=terms[t].largest // divisors[t]) for t in stage)
        return Objective(tuple(divided))

    def at(self, stage: range, values: Sequence[int] = ()) -> "PreemptionModel":
        """Return the model whose cost is `stage`, where earlier terms keep their `values`."""
        return replace(self, stage=stage, proved=tuple(values[: stage.start]))

    def dual_bound(self, cost: Fraction) -> int:
        """Return the bound on the encoded objective that a bound on the stage's cost proves.

        Earlier terms have their proved values, and later terms are at least 0.
        """
        stage = self._objective(self.stage)
        digits = stage.decode(min(next_multiple(cost), stage.largest))
        values = [digit * self.divisors[t] for digit, t in zip(digits, self.stage, strict=True)]
        later = [0] * (len(self.divisors) - self.stage.stop)
        return self.instance.terms.encode([*self.proved, *values, *later])

    # The model as numbers, for the backends

    @property
    def largest(self) -> Variables:
        """The upper bound of each variable, by kind and key."""
        largest: Variables = self.parts.largest
        return largest

    def rows(
        self, constraint: str, variables: Variables, *, is_equation: bool = False
    ) -> Iterator[Row]:
        """Yield each row of a constraint with a backend's variables."""
        for name, terms, most in self.parts.rows_of[constraint]:
            yield Row(name, _stated(terms, variables), most, is_equation)

    def earlier_terms(self, variables: Variables) -> Iterator[Row]:
        """Yield a row for each term of earlier stages that keeps its proved value."""
        for t, value in enumerate(self.proved):
            if costs := self.parts.costs[t]:
                yield Row(f"earlier_terms_{t}", _stated(costs, variables), value)

    def cost(self, variables: Variables) -> list[Term]:
        """Return the cost of the stage, as pairs of coefficient and variable."""
        found: dict[tuple[str, Any], int] = defaultdict(int)
        for t, unit in zip(self.stage, self._objective(self.stage).units, strict=True):
            for cost, kind, key in self.parts.costs[t]:
                found[kind, key] += cost // self.divisors[t] * unit
        return _stated([(cost, *of) for of, cost in found.items()], variables)

    # Solutions

    def start(self, solution: Solution) -> tuple[int, ...]:
        """Return the values of all variables for a valid solution.

        Gangs without variables lose and move no pods, which costs no more.
        """
        instance, parts = self.instance, self.parts
        gangs, nodes = instance.gang_position, instance.node_position
        first = instance.index.first_group.tolist()
        found = Counter[tuple[str, Any]]()
        lost = {gangs[name] for name in solution.lost_gangs}
        for c, members in enumerate(parts.alike):
            found["lost", c] = len(lost.intersection(members))
        for pods in solution.lost_pods:
            found["shrunk", first[gangs[pods.gang]] + pods.group] += pods.count
        for move in solution.moved_pods:
            if (k := first[gangs[move.gang]] + move.group) in self.largest.left:
                found["left", k] += move.count
                found["entered", (parts.kind_of[k], nodes[move.to])] += move.count
        for s, shape in enumerate(instance.demand.shapes if instance.demand else ()):
            entries = [entry for entry in solution.placements if entry.shape == shape.id]
            found["unplaced", s] = shape.count - sum(entry.count for entry in entries)
            for entry in entries:
                found["placed", (s, nodes[entry.node])] += entry.count
                found["used", int(instance.index.domain[nodes[entry.node]])] = 1
        used = sum(count for (kind, _), count in found.items() if kind == "used")
        found["extra", ()] = max(0, used - 1)
        for name in solution.emptied_nodes:
            found["emptied", nodes[name]] = 1
        for _, terms, most in parts.rows_of["budget"]:
            if terms[-1][1] == "excess":
                use = sum(a * found[kind, key] for a, kind, key in terms[:-1])
                found["excess", terms[-1][2]] = max(0, use - most)
        kinds = self.largest._asdict().items()
        return tuple(found[kind, key] for kind, of_kind in kinds for key in of_kind)

    def solution(self, values: Values) -> Solution:
        """Return the solution that rounded values of the variables describe.

        The first gangs of a set of alike gangs are lost. A pod that leaves a node which a pod of
        its kind enters stays there instead. Other pods move to the nodes in file order.
        """
        rounded = iter(map(round, values))
        kinds: Any = ({key: next(rounded) for key in kind} for kind in self.largest)
        found = Variables(*kinds)
        index = self.instance.index
        lost = np.zeros(len(index.group_gang), dtype=np.int64)
        for k, count in found.shrunk.items():
            lost[k] = count
        for c, count in found.lost.items():
            for g in self.parts.alike[c][: max(0, count)]:
                groups = slice(index.first_group[g], index.first_group[g + 1])
                lost[groups] = index.group_count[groups]
        placed = np.zeros(index.shape_allowed.shape, dtype=np.int64)
        for key, count in found.placed.items():
            placed[key] = count
        return Solution.of_counts(
            self.instance,
            lost=lost,
            placed=placed,
            moved=self._moves(found),
            emptied=[n for n, value in found.emptied.items() if value],
        )

    def _moves(self, found: Variables) -> list[tuple[int, int, int]]:
        """Assign the leaving pods to the nodes that pods enter; return (pod group, node, count)."""
        kind_of, node = self.parts.kind_of, self.instance.index.group_node
        entering = {key: count for key, count in found.entered.items() if count > 0}
        leaving = {k: count for k, count in found.left.items() if count > 0}
        for k in leaving:
            here = kind_of[k], int(node[k])
            stay = min(leaving[k], entering.get(here, 0))
            leaving[k] -= stay
            entering[here] = entering.get(here, 0) - stay
        moves = []
        for k in leaving:
            for m, n in entering:
                taken = min(leaving[k], entering[m, n]) if m == kind_of[k] else 0
                if taken > 0:
                    leaving[k] -= taken
                    entering[m, n] -= taken
                    moves.append((k, n, taken))
        return moves


def _stated(terms: Sequence[tuple[int, str, Any]], variables: Variables) -> list[Term]:
    """Return a sum as pairs of coefficient and variable of a backend."""
    return [(a, getattr(variables, kind)[key]) for a, kind, key in terms]


def nothing_changes(instance: Instance) -> Solution:
    """Return the solution in which no pod leaves and no pod is placed; it may be invalid."""
    index = instance.index
    placed = np.zeros(index.shape_allowed.shape, dtype=np.int64)
    return Solution.of_counts(instance, lost=[0] * len(index.group_gang), placed=placed)


def limits(instance: Instance, in_floats: bool) -> Unsupported | None:
    """Return why an instance is too large for the model or for a backend; None if it is not.

    A backend in floats accepts a variable within 1e-6 of an integer. If a node has more than some
    million units of a resource, rounding the values can break its row. Such a solution is refused,
    so a run on such rows often ends without a proof. CP-SAT's presolve has proved wrong optima with
    coefficients of 2^45, but never with 2^36. The unit of a resource is the greatest common divisor
    of all requests for it.
    """
    kind = "in floating point" if in_floats else "in CP-SAT"
    for size, most, unit in _sizes(instance, in_floats=in_floats):
        if size > most:
            return Unsupported(
                f"the model is reliable {kind} up to {most} {unit}; the instance has {size}"
            )
    return None


def _sizes(instance: Instance, *, in_floats: bool) -> Iterator[tuple[int, int, str]]:
    """Yield each limited size of an instance, its limit, and the name of the counted unit."""
    index = instance.index
    kinds = {
        (tuple(group.request.items()), tuple(group.selector.items()))
        for g in np.flatnonzero(index.may_move)
        for group in instance.gangs[g].pods
    }
    columns = len(instance.nodes) * (len(index.shape_count) + len(kinds)) + len(index.group_gang)
    yield columns, MOST_VARIABLES, "variables"
    requests = np.concatenate([index.group_request, index.shape_request])
    divisors = {"weighted_gangs": math.gcd(*index.weight.tolist())}
    for name, amounts in zip(instance.resources, requests.T, strict=True):
        divisors[f"lost:{name}"] = unit = math.gcd(*amounts.tolist())
        if not unit:
            continue  # no pod requests the resource
        most = max(node.capacity.get(name, 0) for node in instance.nodes) // unit
        limit = MOST_UNITS_IN_FLOATS if in_floats else MOST_UNITS
        yield most, limit, f"units of {unit} {name} on a node"
    for term in instance.terms.terms:
        limit = LARGEST_TERM_IN_FLOATS if in_floats else LARGEST_TERM
        unit = max(1, divisors.get(term.name, 1))
        yield term.largest // unit, limit, f"units of {unit} for {term.key}"


FORMULATION = Formulation(
    problem=PROBLEM,
    variants=tuple(Moves),
    supports=limits,
    data=lambda instance, _start, _in_floats: PreemptionModel.whole(instance, LARGEST_STAGE),
    whole=lambda instance, _in_floats: PreemptionModel.whole(instance, LARGEST_EXPORTED),
    begin=lambda instance, _rng: nothing_changes(instance),
    simple_bound=lambda _: 0,
    summary="Model of lost, moved and placed pods, term by term",
)
