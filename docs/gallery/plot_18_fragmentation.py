"""
What does fragmentation cost?
=============================

The same mix of jobs is placed by three rules: best fit, random order, or workers of one or two GPUs
on random servers. Under best fit, Lyra's reclaiming rule is optimal in these fleets. On fragmented
fleets it preempts more jobs than necessary.
"""

import lyra_opt as lo

families = {"bf-dist": "best fit", "rnd-dist": "random order", "messy-dist": "anywhere"}
excess = {}
for family, placed in families.items():
    for fleet in lo.generate("reclaim", family, servers=40, seeds=range(6)):
        found = lo.compare(fleet, ["lyra-greedy", "peeling", "exact"]).objective
        for rule in ("lyra-greedy", "peeling"):
            share = 100 * (found[rule] / found["exact"] - 1)
            excess.setdefault(rule, {}).setdefault(placed, []).append(share)

for rule, by_placement in excess.items():
    means = {
        placed: round(float(sum(all_) / len(all_)), 1) for placed, all_ in by_placement.items()
    }
    print(rule, means, "% above the optimum in the mean")

# %%

from lyra_opt.core.pictures import COLOURS, Drawing


def draw(figure):
    """Draw a mark for each fleet, rules side by side."""
    panel = figure.subplots()
    for number, (rule, by_placement) in enumerate(excess.items()):
        for at, values in enumerate(by_placement.values()):
            places = [at + 0.25 * number + 0.02 * each for each in range(len(values))]
            label = rule if at == 0 else None
            panel.plot(places, values, "os"[number], color=COLOURS[number], label=label, alpha=0.8)
    panel.set_xticks([0.15, 1.15, 2.15], list(excess["peeling"]))
    panel.set(
        xlabel="placement of workers, six fleets of 40 servers each",
        ylabel="jobs above the optimum (%)",
    )
    panel.legend(loc="upper left", bbox_to_anchor=(1.01, 1))


Drawing(8, 3.5, draw).figure()
