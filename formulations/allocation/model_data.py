"""The coefficients of the knapsack model in two forms, and the instances that backends accept.

Both forms give the same `KnapsackModel`, so each backend states its model only once. The README in
this folder defines the symbols.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from lyra_opt.allocation.heuristics.mckp_greedy import MckpGreedy
from lyra_opt.allocation.instance import Instance, NamedWorkers, Objective, WorkerAllocation
from lyra_opt.allocation.knapsack.data import FLOAT_NOISE, VALUE_MARGIN
from lyra_opt.allocation.knapsack.of_instance import (
    KNAPSACK_OBJECTIVES,
    AllocationKnapsack,
    knapsack_bound,
    refusal,
)
from lyra_opt.allocation.problem import PROBLEM
from lyra_opt.core.arithmetic import float_up
from lyra_opt.core.arrays import FloatArray, IntArray
from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.backends.backend import CostUnit, Values
from lyra_opt.formulations.exact_model import Formulation, best_of
from lyra_opt.formulations.exact_solver import Incumbent

COST_BITS = 33
"""Bits of precision per cost, besides those for the classes: total rounding is below 2**-32."""
FLOAT_COST_BITS = 30
"""Bits of the objective for backends in floats; with more bits HiGHS takes fifty times as long."""
MOST_COST_BITS = 60
"""Most bits of the sum of the classes' largest costs, so that it fits a 64-bit integer."""

NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class KnapsackModel:
    """A multiple-choice knapsack model: minimise the cost of one choice of workers per job.

    The cost is ``sum_c sum_k c_ck x_ck``; the binary x_ck is 1 if choice k of class (job) c is
    taken.

    The choices of all classes are numbered in one sequence.

    Parameters
    ----------
    task
        The knapsack from which the model is made.
    capacity
        C, the capacity in GPUs.
    classes
        For each class, the range of its choices.
    items
        For each choice, the item of the knapsack; -1 means that no item of the class is taken.
    weight
        w_ck, the GPUs of each choice; 0 where no item is taken.
    cost
        c_ck, the cost of each choice: seconds times 2**exponent, rounded down to an integer. For
        backends in floats these integers are scaled, exactly, by a power of two.
    exponent
        The power of two that scales the costs.
    """

    task: AllocationKnapsack
    capacity: int
    classes: tuple[range, ...]
    items: tuple[int, ...]
    weight: tuple[int, ...]
    cost: tuple[float, ...]
    exponent: int

    @property
    def is_settled(self) -> bool:
        """Whether the knapsack has no items, so that the backend need not run."""
        return not self.task.knapsack.items

    @property
    def largest(self) -> "Variables":
        """The upper bound of each variable, which is 1."""
        return Variables(dict.fromkeys(range(len(self.items)), 1))

    def start(self, solution: WorkerAllocation) -> list[int]:
        """Return the values of all variables for an allocation."""
        chosen = self.task.choice(self.task.workers(solution)).tolist()
        return [
            int(self.items[k] == item)
            for choices, item in zip(self.classes, chosen, strict=True)
            for k in choices
        ]

    def solution(self, values: Values) -> WorkerAllocation:
        """Return the allocation that the rounded values of the variables describe."""
        return self.task.allocation(self.chosen(values))

    def dual_bound(self, cost: Fraction) -> float:
        """Return the bound on the objective that follows from a bound on the scaled cost.

        For a maximised objective the bound may be below 0. It is not raised to 0, so that the check
        of the result sees the contradiction.
        """
        least_s = (cost - abs(cost) * Fraction(VALUE_MARGIN)) / Fraction(2) ** self.exponent
        maximises = self.task.instance.objective is Objective.JCT_REDUCTION
        return float_up(-least_s) if maximises else max(0.0, -float_up(-least_s))

    @property
    def unit(self) -> CostUnit:
        """Seconds per unit of cost, negative for `jct_reduction`, which is maximised."""
        maximises = self.task.instance.objective is Objective.JCT_REDUCTION
        return CostUnit((-1 if maximises else 1) / Fraction(2) ** self.exponent)

    def chosen(self, values: Values) -> IntArray:
        """Return the item of each class that the rounded values of the variables choose.

        Raises
        ------
        RuntimeError
            If a class does not have exactly one choice, or the choices exceed the capacity.
        """
        taken = [k for k, x in enumerate(values) if round(x) == 1]
        if len(taken) != len(self.classes) or any(
            k not in choices for k, choices in zip(taken, self.classes, strict=True)
        ):
            raise RuntimeError("the backend did not take exactly one choice of each class")
        held = sum(self.weight[k] for k in taken)
        if held > self.capacity:
            raise RuntimeError(
                f"the backend used {held} GPUs, more than the {self.capacity} available"
            )
        return np.array([self.items[k] for k in taken], dtype=np.int64)


class Variables(NamedTuple):
    """A backend's variables; x[k] is 1 if choice k is taken."""

    x: Mapping[int, Any]


def plain(
    task: AllocationKnapsack,
    start: IntArray,  # noqa: ARG001
    objective: float,
    *,
    in_floats: bool = False,
) -> KnapsackModel:
    """Return the textbook form: per class, a variable for each item that fits and one for no item.

    `start` is a choice of items with objective `objective`. This form uses only the objective, to
    scale the costs.
    """
    everything = np.arange(task.knapsack.items)
    return _model(task, everything, objective, divisor=1, in_floats=in_floats)


def strengthened(
    task: AllocationKnapsack, start: IntArray, objective: float, *, in_floats: bool = False
) -> KnapsackModel:
    """Return the knapsack model without items that no solution better than `start` can contain.

    Dominated items are removed. Items are also removed if they lose at least the gap between
    `start` and its bound, at the prices of the linear relaxation. The items of `start` are kept.
    Weights and capacity are divided by the greatest common divisor of the weights, and the capacity
    is rounded down.
    """
    reduced = task.knapsack.reduced()
    if not reduced.items:
        return plain(task, start, objective, in_floats=in_floats)
    scaled = reduced.scaled()
    priced = scaled.priced()
    place = {item: k for k, item in enumerate(reduced.kept.tolist())}
    is_start = np.zeros(reduced.items, dtype=np.bool_)
    short = priced.bound
    for item in start[start >= 0].tolist():
        if item in place:
            is_start[place[item]] = True
            short -= int(scaled.value[place[item]])
    # The margin keeps items whose solutions beat the start by less than a rounding error.
    needed = is_start | (priced.loss < short + reduced.classes + FLOAT_NOISE)
    kept = np.union1d(reduced.kept[needed], start[start >= 0])
    divisor = int(np.gcd.reduce(task.knapsack.weight[kept])) if len(kept) else 1
    return _model(task, kept, objective, divisor=divisor, in_floats=in_floats)


def _model(
    task: AllocationKnapsack, kept: IntArray, objective: float, *, divisor: int, in_floats: bool
) -> KnapsackModel:
    """Return the knapsack model with the items `kept`, given as ascending indices."""
    none_s, cost_s = task.costs_s()
    exponent = _exponent(none_s, cost_s[kept], objective, len(none_s))
    none = np.floor(np.ldexp(none_s, exponent)).astype(np.int64).tolist()
    cost = np.floor(np.ldexp(cost_s, exponent)).astype(np.int64)
    ends = np.searchsorted(kept, task.knapsack.start)
    items: list[int] = []
    costs: list[int] = []
    classes = []
    for c in range(task.knapsack.classes):
        of_class = kept[ends[c] : ends[c + 1]]
        classes.append(range(len(items), len(items) + 1 + len(of_class)))
        items += [NONE, *of_class.tolist()]
        costs += [none[c], *cost[of_class].tolist()]
    weight = task.knapsack.weight
    scaled: list[int] | list[float] = costs
    if in_floats:
        bits = FLOAT_COST_BITS - COST_BITS - len(none_s).bit_length()
        scaled = [math.ldexp(of_choice, bits) for of_choice in costs]
        exponent += bits
    return KnapsackModel(
        task=task,
        capacity=task.knapsack.capacity // divisor,
        classes=tuple(classes),
        items=tuple(items),
        weight=tuple(0 if item == NONE else int(weight[item]) // divisor for item in items),
        cost=tuple(scaled),
        exponent=exponent,
    )


def _exponent(none_s: FloatArray, cost_s: FloatArray, objective: float, classes: int) -> int:
    """Return the power of two at which rounding down loses less than 2**-32 of the total cost."""
    largest = float(max(np.abs(none_s).max(initial=0), np.abs(cost_s).max(initial=0)))
    size = abs(objective) or largest
    wanted = COST_BITS + classes.bit_length() - math.frexp(size)[1]
    most = MOST_COST_BITS - classes.bit_length() - math.frexp(largest)[1]
    return min(wanted, most)


LARGEST_CAPACITY_IN_FLOATS = 10**5


def supports(instance: Instance, in_floats: bool) -> Unsupported | None:
    """Return why the knapsack model cannot handle the instance exactly; None if it can.

    Backends in floats accept a variable within 1e-6 of an integer. The total weight may therefore
    be wrong by that fraction of the capacity, which must stay well below one GPU. For backends in
    integers the costs are scaled to fit 64 bits.
    """
    refused = refusal(instance)
    if refused is not None or not in_floats or instance.gpus <= LARGEST_CAPACITY_IN_FLOATS:
        return refused
    return Unsupported(
        f"the model is exact in floating point only up to {LARGEST_CAPACITY_IN_FLOATS} GPUs; "
        f"this instance has {instance.gpus}"
    )


def _tidied(instance: Instance, solution: WorkerAllocation | NamedWorkers) -> WorkerAllocation:
    """Return the allocation by job position, without workers that reduce no completion time."""
    task = AllocationKnapsack.of(instance)
    return task.allocation(task.choice(task.workers(task.allocation_of(solution))))


def _data(form: Callable[..., KnapsackModel]) -> Callable[..., KnapsackModel]:
    def data(instance: Instance, start: Incumbent[Any] | None, in_floats: bool) -> KnapsackModel:
        task = AllocationKnapsack.of(instance)
        if start is None:
            nothing = np.full(task.knapsack.classes, NONE)
            return form(task, nothing, 0.0, in_floats=in_floats)
        chosen = task.choice(task.workers(start[0]))
        return form(task, chosen, float(start[1]), in_floats=in_floats)

    return data


PLAIN = Formulation(
    problem=PROBLEM,
    variants=KNAPSACK_OBJECTIVES,
    supports=supports,
    data=_data(plain),
    begin=best_of(MckpGreedy()),
    simple_bound=knapsack_bound,
    summary="Textbook model",
    tidied=_tidied,
)
STRENGTHENED = replace(
    PLAIN,
    data=_data(strengthened),
    summary="Model without dominated choices",
    suffix="-strengthened",
)
