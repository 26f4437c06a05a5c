"""Figure 6: the items of the knapsack that gives the flexible workers."""

from __future__ import annotations

from instances.library import load_library_instance
from lyra_opt.allocation.knapsack_instance import AllocationKnapsack
from paper_figures.comparison import Comparison, Entry

# Job and extra workers: GPUs, JCT reduction in seconds.
PAPER = {
    ("A", 1): ("2", "50"),
    ("B", 1): ("1", "20"),
    ("B", 2): ("2", "30"),
    ("B", 3): ("3", "36"),
    ("B", 4): ("4", "40"),
}


def compare() -> Comparison:
    """Return weight and value of the paper's five items beside ours."""
    instance = load_library_instance("lyra-figure-6").instance
    task = AllocationKnapsack.of(instance)
    knapsack = task.knapsack
    entries = []
    for (job, extra), (weight, value) in PAPER.items():
        item = int(knapsack.start[instance.job_position[job]]) + extra - 1
        row = f"{job}, {extra} extra"
        entries.append(Entry.exact(row, "weight (GPUs)", weight, float(knapsack.weight[item])))
        entries.append(Entry.exact(row, "value (s)", value, float(knapsack.value[item])))
    return Comparison(
        name="lyra-figure-6",
        title="Lyra (EuroSys 2023), Figure 6: the items of phase 2 in the second example",
        entries=entries,
        notes=[
            "The paper does not print the optima of this knapsack; they are 20, 50, 70, 80, 86 and "
            "90 seconds for 1 to 6 GPUs.",
        ],
    )
