"""Figure 1: the load of the inference cluster over a week."""

from __future__ import annotations

import numpy as np

from instances.workloads.lyra_like import STEPS_PER_HOUR, inference_demand
from paper_figures.comparison import Comparison, Entry

DAYS = 7

# Of the hourly curve as read from the figure.
PAPER = {
    "mean": "0.695",
    "least": "0.359",
    "most": "0.972",
    "largest rise within an hour": "0.117",
    "largest fall within an hour": "0.264",
}


def compare() -> Comparison:
    """Return what the figure's curve comes to beside that of our generated demand."""
    demand = inference_demand(days=DAYS, seed=0)
    hourly = np.reshape(demand.busy_share, (24 * DAYS, STEPS_PER_HOUR)).mean(axis=1)
    changes = np.diff(hourly)
    ours = (hourly.mean(), hourly.min(), hourly.max(), changes.max(), -changes.min())
    return Comparison(
        name="lyra-figure-1",
        title="Lyra (EuroSys 2023), Figure 1: share of inference GPUs that serve, hourly",
        entries=[
            Entry.simulated("1 to 7 October 2020", column, paper, float(value))
            for (column, paper), value in zip(PAPER.items(), ours, strict=True)
        ],
        notes=[
            "Our demand is generated from this very curve, hour by hour; the page shows that the "
            "bursts added within the hours leave it as it is.",
            "Contradiction in the paper: its text has a mean of about 65 %, 42 % at the trough and "
            "95 % at the peak; the curve has 69.5, 35.9 and 97.2 %.",
        ],
    )
