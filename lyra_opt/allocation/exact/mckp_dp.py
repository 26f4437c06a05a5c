"""The knapsack solver `mckp-dp`: dynamic programming over the capacity."""

import numpy as np

from lyra_opt.allocation.heuristics.mckp_greedy import greedy_choice
from lyra_opt.allocation.instance import Instance
from lyra_opt.allocation.knapsack.data import SCALED_BITS, ReducedKnapsack
from lyra_opt.allocation.knapsack.kernels import fill_table, trace_table
from lyra_opt.allocation.knapsack.of_instance import AllocationKnapsack, refusal
from lyra_opt.allocation.knapsack.solver import KnapsackChoice, KnapsackSolver
from lyra_opt.core.result import StoppedBy
from lyra_opt.core.solver import Unsupported
from lyra_opt.core.stopwatch import OutOfTimeError, require_time

MOST_CELLS = 2**28
"""Most cells of the table of choices: one GiB at four bytes per cell."""
STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 2**24


class MckpDp(KnapsackSolver):
    """Solve the knapsack by dynamic programming over classes and capacities.

    Notes
    -----
    Source: Lyra (EuroSys 2023), section 5.2, which names dynamic programming; the recursion is that
    of Dudzinski and Walukiewicz (1987). Complexity O(items * capacity), memory four bytes times
    classes * capacity. The capacity is first divided by the greatest common divisor of the weights.
    Exact in integers, so optimal within 1e-9. Limits: time, checked every few million cells.
    """

    name = engine = "mckp-dp"
    exact_variants = KnapsackSolver.variants
    gives_bound = True

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return the reason to refuse an instance, or None if it is a knapsack whose table fits."""
        refused = refusal(instance)
        if refused is not None or len(instance.jobs) * (instance.gpus + 1) <= MOST_CELLS:
            return refused
        reduced = AllocationKnapsack.of(instance).knapsack.reduced()
        if table_fits(reduced):
            return None
        return Unsupported(
            f"mckp-dp supports tables of at most {MOST_CELLS} cells; this instance needs "
            f"{reduced.classes * (reduced.capacity + 1)}. mckp-core needs no table"
        )

    def choose(self, knapsack: ReducedKnapsack) -> KnapsackChoice:
        """Return the optimal choice, or the greedy choice if time runs out."""
        try:
            return table_choice(knapsack)
        except OutOfTimeError:
            return KnapsackChoice(chosen=greedy_choice(knapsack), stopped_by=StoppedBy.TIME)


def table_fits(knapsack: ReducedKnapsack) -> bool:
    """Whether the table of choices has at most `MOST_CELLS` cells."""
    return knapsack.classes * (knapsack.capacity + 1) <= MOST_CELLS


def table_choice(knapsack: ReducedKnapsack) -> KnapsackChoice:
    """Solve a knapsack to optimality by dynamic programming; its table must fit.

    Raises
    ------
    OutOfTimeError
        If the current time limit is reached first.
    """
    if not knapsack.items:
        return KnapsackChoice(chosen=np.full(knapsack.classes, -1, dtype=np.int64), bound=0.0)
    scaled = knapsack.scaled()
    capacity = knapsack.capacity
    heaviest = np.zeros(knapsack.classes, dtype=np.int64)
    heaviest[np.diff(knapsack.start) > 0] = knapsack.last_weights()
    later = np.cumsum(heaviest[::-1])[::-1] - heaviest
    size = {
        "work": (knapsack.items + knapsack.classes) * capacity,
        "largest": 2 ** (SCALED_BITS + 1),
    }
    best = np.zeros(capacity + 1, dtype=np.int64)
    after = np.zeros(capacity + 1, dtype=np.int64)
    table = np.empty(knapsack.classes * (capacity + 1), dtype=np.int32)
    items = STEPS_BETWEEN_LOOKS_AT_THE_CLOCK // (capacity + 1)
    first = 0
    while first < knapsack.classes:
        require_time()
        end = int(np.searchsorted(knapsack.start, knapsack.start[first] + items, side="right"))
        end = min(max(end - 1, first + 1), knapsack.classes)
        best, after, table = fill_table.run(
            first,
            end,
            capacity,
            knapsack.start,
            knapsack.weight,
            scaled.value,
            np.maximum(capacity - later, 0),
            best,
            after,
            table,
            **size,
        )
        first = end
    nothing = np.empty(knapsack.classes, dtype=np.int64)
    chosen = trace_table.run(capacity, knapsack.start, knapsack.weight, table, nothing, **size)
    value = int(best[capacity])
    return KnapsackChoice(chosen=np.asarray(chosen, dtype=np.int64), bound=scaled.dual_bound(value))
