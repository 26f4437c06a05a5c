"""The greedy knapsack: give workers where they gain most per GPU."""

import numpy as np

from lyra_opt.allocation.knapsack.data import STEPS_PER_ITEM, ReducedKnapsack
from lyra_opt.allocation.knapsack.kernels import take_steps
from lyra_opt.allocation.knapsack.solver import KnapsackChoice, KnapsackSolver
from lyra_opt.core.arrays import IntArray


class MckpGreedy(KnapsackSolver):
    """Take the steps along the convex hulls of the classes by value per GPU while they fit.

    A step leads from one number of workers of a job to the next number with the most added value
    per added GPU (if T is convex in the workers: to one worker more). Steps are taken by value per
    GPU, ties in file order. A job whose step does not fit grows no further. If the single most
    valuable item is worth more than the result, it is taken alone.

    Notes
    -----
    Source: the rule is that of AFS and of the greedy for this knapsack in Kellerer, Pferschy and
    Pisinger (*Knapsack Problems*, 2004, section 11.2). Complexity O(items log items). Guarantee: at
    least half of the optimal value; optimal if all steps have the same weight, as with one GPU size
    for all workers. Limits are ignored.
    """

    name = "mckp-greedy"

    def choose(self, knapsack: ReducedKnapsack) -> KnapsackChoice:
        """Return the items that the greedy rule chooses in order of value per GPU."""
        return KnapsackChoice(chosen=greedy_choice(knapsack))


def greedy_choice(knapsack: ReducedKnapsack) -> IntArray:
    """Return the item that the greedy rule chooses from each class, -1 for no item."""
    steps = knapsack.steps()
    chosen = np.asarray(
        take_steps.run(
            knapsack.capacity,
            np.argsort(-steps.slope, kind="stable"),
            steps.class_of,
            steps.item,
            steps.weight,
            np.full(knapsack.classes, -1, dtype=np.int64),
            work=STEPS_PER_ITEM * knapsack.items,
            largest=max(knapsack.capacity, knapsack.items),
        ),
        dtype=np.int64,
    )
    if knapsack.items:
        single = int(np.argmax(knapsack.value))
        if knapsack.value[single] > knapsack.value[chosen[chosen >= 0]].sum():
            chosen = np.full(knapsack.classes, -1, dtype=np.int64)
            chosen[knapsack.class_of[single]] = single
    return chosen
