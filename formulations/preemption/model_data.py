"""The preemption model of an instance at one stage, and the conversion from and to solutions.

The cost of a model is one stage: consecutive terms of the objective as one integer. The README in
this folder defines the symbols.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.backends.backend import CostUnit
from lyra_opt.formulations.exact_model import Formulation
from lyra_opt.formulations.exact_solver import next_multiple
from lyra_opt.formulations.preemption.model_rows import ModelRows, Variables
from lyra_opt.preemption.instance import Moves, Solution
from lyra_opt.preemption.problem import PROBLEM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from lyra_opt.formulations.backends.backend import Values
    from lyra_opt.preemption.instance import Instance

    Stated = Iterator[tuple[str, list[tuple[int, Any]], int]]
    """Rows with a backend's variables: name, terms, right-hand side."""


LARGEST_STAGE = 2**24
"""The largest cost up to which terms share a stage.

With 2^20 and with 2^31 the runs took as long, on 30 fleets of 54 and 144 nodes. Fewer stages save
runs, and small costs leave the tolerances of floats without effect.
"""
LARGEST_EXPORTED = 2**53
"""The largest objective of an exported model; floats hold all integers up to here."""
LARGEST_TERM_IN_FLOATS, LARGEST_TERM = 2**31, 2**50
MOST_UNITS_IN_FLOATS, MOST_UNITS = 10**7, 2**36
MOST_VARIABLES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Consecutive terms of the objective that one run minimises as one integer.

    The integer is a number in a mixed radix. Its digits are the values of the terms, each divided
    by a common divisor of all values that it can have.

    Parameters
    ----------
    first, end
        The stage covers the terms from position `first` up to, without, position `end`.
    divisors
        For each of its terms, the divisor of its values.
    radices
        For each of its terms, the number of values after division.
    proved
        The values of all earlier terms.
    """

    first: int = 0
    divisors: tuple[int, ...] = ()
    radices: tuple[int, ...] = ()
    proved: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """The position of the first term after the stage."""
        return self.first + len(self.divisors)

    @property
    def largest(self) -> int:
        """The largest cost."""
        return math.prod(self.radices) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionModel:
    """The preemption model of an instance; its cost is one stage of the objective.

    Parameters
    ----------
    instance
        The instance.
    parts
        Variables, rows and costs.
    stage
        The terms of the objective that the cost covers, and the values of the terms before them.
    """

    instance: Instance
    parts: ModelRows
    stage: Stage = Stage()
    is_settled: bool = False

    @classmethod
    def of(cls, instance: Instance) -> PreemptionModel:
        """Build the model, with an empty stage, in time linear in the model."""
        return cls(instance=instance, parts=ModelRows(instance))

    @classmethod
    def whole(cls, instance: Instance, largest: int) -> PreemptionModel:
        """Return the model to export: all terms if the encoded objective is at most `largest`.

        The cost then is the objective of the instance. Otherwise it is the first stage.
        """
        model = cls.of(instance)
        objective = instance.terms
        if objective.largest > largest:
            return model.at(model.stages()[0])
        radices = tuple(term.largest + 1 for term in objective.terms)
        return model.at(Stage(divisors=(1,) * len(radices), radices=radices))

    # Stages

    def stages(self) -> list[Stage]:
        """Return the stages in order; terms are merged while the cost is at most `LARGEST_STAGE`.

        A term with larger values is a stage by itself. There is at least one stage.
        """
        found = [Stage()]
        for t, (term, costs) in enumerate(
            zip(self.instance.terms.terms, self.parts.costs, strict=True)
        ):
            divisor = max(1, math.gcd(*(cost for cost, _, _ in costs)))
            radix = term.largest // divisor + 1
            last = found[-1]
            if last.radices and (last.largest + 1) * radix > LARGEST_STAGE:
                found.append(Stage(first=t, divisors=(divisor,), radices=(radix,)))
            else:
                divisors, radices = (*last.divisors, divisor), (*last.radices, radix)
                found[-1] = replace(last, divisors=divisors, radices=radices)
        return found

    def at(self, stage: Stage, values: Sequence[int] = ()) -> PreemptionModel:
        """Return the model whose cost is `stage`, where earlier terms keep their `values`."""
        return replace(self, stage=replace(stage, proved=tuple(values[: stage.first])))

    def dual_bound(self, cost: Fraction) -> int:
        """Return the bound on the encoded objective that a bound on the stage's cost proves.

        Earlier terms have their proved values, and later terms are at least 0.
        """
        stage, code = self.stage, min(next_multiple(cost), self.stage.largest)
        values: list[int] = []
        for radix, divisor in zip(reversed(stage.radices), reversed(stage.divisors), strict=True):
            code, digit = divmod(code, radix)
            values.insert(0, digit * divisor)
        later = [0] * (len(self.parts.costs) - stage.end)
        return self.instance.terms.encode([*stage.proved, *values, *later])

    @property
    def unit(self) -> CostUnit:
        """The cost is minimised as it is."""
        return CostUnit()

    # Numbers for the backends

    @property
    def largest(self) -> Variables:
        """The upper bound of each variable, by kind and key."""
        largest: Variables = self.parts.largest
        return largest

    def rows(self, constraint: str, variables: Variables) -> Stated:
        """Yield each row of a constraint."""
        for name, terms, most in self.parts.rows_of[constraint]:
            yield name, _stated(terms, variables), most

    def earlier_terms(self, variables: Variables) -> Stated:
        """Yield a row for each earlier term that has costs; it keeps its proved value."""
        for t, value in enumerate(self.stage.proved):
            if costs := self.parts.costs[t]:
                yield f"earlier_terms_{t}", _stated(costs, variables), value

    def cost(self, variables: Variables) -> list[tuple[int, Any]]:
        """Return the terms of the minimised cost."""
        found: dict[tuple[str, Any], int] = defaultdict(int)
        unit = self.stage.largest + 1
        digits = zip(self.stage.divisors, self.stage.radices, strict=True)
        for t, (divisor, radix) in enumerate(digits, self.stage.first):
            unit //= radix
            for cost, kind, key in self.parts.costs[t]:
                found[kind, key] += cost // divisor * unit
        return _stated([(cost, *of) for of, cost in found.items()], variables)

    # Solutions

    def start(self, solution: Solution) -> tuple[int, ...]:
        """Return the values of all variables for a valid solution.

        Gangs without variables change nothing, which costs no more.
        """
        instance, keys, parts = self.instance, self.largest, self.parts
        index = instance.index

        def group_of(entry: Any) -> int:
            return int(index.first_group[instance.gang_position[entry.gang]] + entry.group)

        lost = {instance.gang_position[name] for name in solution.lost_gangs}
        shrunk, left, entered = Counter[Any](), Counter[Any](), Counter[Any]()
        placed = Counter[Any]()
        for pods in solution.lost_pods:
            shrunk[group_of(pods)] += pods.count
        for move in solution.moved_pods:
            if (k := group_of(move)) in keys.left:
                left[k] += move.count
                entered[parts.kind_of[k], instance.node_position[move.to]] += move.count
        shapes = instance.demand.shapes if instance.demand else ()
        position = {shape.id: s for s, shape in enumerate(shapes)}
        unplaced = Counter({s: shape.count for s, shape in enumerate(shapes)})
        for entry in solution.placements:
            placed[position[entry.shape], instance.node_position[entry.node]] += entry.count
            unplaced[position[entry.shape]] -= entry.count
        used = {int(index.domain[n]) for _, n in placed}
        emptied = {instance.node_position[name] for name in solution.emptied_nodes}
        found = Variables(
            lost={c: len(lost.intersection(parts.alike[c])) for c in keys.lost},
            shrunk={k: shrunk[k] for k in keys.shrunk},
            left={k: left[k] for k in keys.left},
            entered={key: entered[key] for key in keys.entered},
            placed={key: placed[key] for key in keys.placed},
            unplaced={s: unplaced[s] for s in keys.unplaced},
            used={d: int(d in used) for d in keys.used},
            extra={key: max(0, len(used) - 1) for key in keys.extra},
            emptied={n: int(n in emptied) for n in keys.emptied},
            excess=dict.fromkeys(keys.excess, 0),
        )
        excess = {
            terms[-1][2]: max(0, sum(a * x for a, x in _stated(terms, found)) - most)
            for _, terms, most in parts.rows_of["budget"]
            if terms[-1][1] == "excess"
        }
        found = found._replace(excess={b: excess[b] for b in keys.excess})
        return tuple(value for kind in found for value in kind.values())

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
            lost=lost.tolist(),
            placed=placed,
            moved=self._moves(found),
            emptied=[n for n, value in found.emptied.items() if value],
        )

    def _moves(self, found: Variables) -> list[tuple[int, int, int]]:
        """Return moves (pod group, node, number) for the pods that leave and enter nodes."""
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


def _stated(terms: Sequence[tuple[int, str, Any]], variables: Variables) -> list[tuple[int, Any]]:
    """Return pairs of coefficient and variable."""
    return [(a, getattr(variables, kind)[key]) for a, kind, key in terms]


def nothing_changes(instance: Instance) -> Solution:
    """Return the solution in which no pod leaves and none is placed; it may not be valid."""
    index = instance.index
    placed = np.zeros(index.shape_allowed.shape, dtype=np.int64)
    return Solution.of_counts(instance, lost=[0] * len(index.group_gang), placed=placed)


def limits(instance: Instance, in_floats: bool) -> Unsupported | None:
    """Return why the model, or the arithmetic of a backend, excludes an instance, if it does.

    A backend in floats accepts a variable within 1e-6 of an integer, so a row of a node with more
    than some million units of a resource may be broken when values are rounded. Such a solution is
    refused, and a run on such rows often ends without a proof. CP-SAT's presolve has proved wrong
    optima with coefficients of 2^45, and never with 2^36. Units are the greatest common divisor of
    all requests.
    """
    index = instance.index
    kinds = {
        (tuple(group.request.items()), tuple(group.selector.items()))
        for g in np.flatnonzero(index.may_move)
        for group in instance.gangs[g].pods
    }
    variables = len(index.group_gang) + len(instance.nodes) * (len(index.shape_count) + len(kinds))
    if variables > MOST_VARIABLES:
        return Unsupported(
            f"the model would have about {variables} variables; it may have {MOST_VARIABLES}"
        )
    units = [
        max(1, math.gcd(*index.group_request[:, r].tolist(), *index.shape_request[:, r].tolist()))
        for r in range(len(instance.resources))
    ]
    kind = "in floating point" if in_floats else "in CP-SAT"
    most = MOST_UNITS_IN_FLOATS if in_floats else MOST_UNITS
    for node in instance.nodes:
        for name, unit in zip(instance.resources, units, strict=True):
            if (amount := node.capacity.get(name, 0) // unit) > most:
                return Unsupported(
                    f"the model is reliable {kind} up to {most} units of a resource on a node; "
                    f"node {node.id!r} has {amount} units of {unit} {name}"
                )
    divisors = {f"lost:{name}": unit for name, unit in zip(instance.resources, units, strict=True)}
    divisors["weighted_gangs"] = max(1, math.gcd(*index.weight.tolist()))
    most = LARGEST_TERM_IN_FLOATS if in_floats else LARGEST_TERM
    for term in instance.terms.terms:
        if (value := term.largest // divisors.get(term.name, 1)) > most:
            return Unsupported(
                f"the model is reliable {kind} up to {most} for each term of the objective; "
                f"{term.key} can be {value}"
            )
    return None


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
