"""Table 2: two elastic jobs on eight workers."""

from __future__ import annotations

from paper_figures.comparison import Comparison, Entry
from paper_figures.lyra.two_jobs import example

COLUMNS = ("w_min", "w_max", "minimum running time (s)")

# Job: least and most workers, running time with the most.
PAPER = {"A": ("2", "6", "50"), "B": ("2", "6", "20")}


def compare() -> Comparison:
    """Return the example as the library has it."""
    return Comparison(
        name="lyra-table-2",
        title="Lyra (EuroSys 2023), Table 2: two elastic jobs",
        entries=[
            Entry.exact(job.id, column, paper, ours)
            for job in example("lyra-table-2").jobs
            for column, paper, ours in zip(
                COLUMNS,
                PAPER[job.id],
                (job.min_workers, job.max_workers, job.work_worker_s / job.max_workers),
                strict=True,
            )
        ],
        notes=["These are inputs: the library instance lyra-table-2 holds them."],
    )
