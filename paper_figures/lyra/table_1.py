"""Table 1: three ways to price the servers of Figure 5."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from instances.library import load_library_instance
from lyra_opt.reclaim.lyra_greedy import server_preemption_costs
from paper_figures.comparison import Comparison, Entry

if TYPE_CHECKING:
    from lyra_opt.reclaim import ReclaimInstance

COLUMNS = ("number of jobs", "sum of job GPU fractions", "sum of job server fractions")

# Server: its jobs, the sum of their GPU fractions, the sum of their server fractions (the cost).
PAPER = {
    "s1": ("1", "0.5", "0.5"),
    "s2": ("1", "0.5", "0.5"),
    "s3": ("1", "1", "1"),
    "s4": ("1", "0.8", "0.5"),
    "s5": ("2", "0.4", "1"),
    "s6": ("1", "0.8", "0.5"),
}


def compare() -> Comparison:
    """Return the paper's 18 entries beside ours."""
    instance = load_library_instance("lyra-figure-5").instance
    prices = {
        server.id: (float(len(jobs)), float(fractions), float(cost))
        for server, jobs, fractions, cost in zip(
            instance.servers,
            _jobs(instance),
            _gpu_fractions(instance),
            server_preemption_costs(instance),
            strict=True,
        )
    }
    return Comparison(
        name="lyra-table-1",
        title="Lyra (EuroSys 2023), Table 1: server preemption costs of Figure 5",
        entries=[
            Entry.exact(server, column, paper, ours)
            for server, row in PAPER.items()
            for column, paper, ours in zip(COLUMNS, row, prices[server], strict=True)
        ],
    )


def _jobs(instance: ReclaimInstance) -> list[list[str]]:
    """Return the jobs on each server."""
    return [
        [job.id for job in instance.jobs if any(g.server == server.id for g in job.workers)]
        for server in instance.servers
    ]


def _gpu_fractions(instance: ReclaimInstance) -> list[Fraction]:
    """Return, for each server, the sum over its jobs of the share of their GPUs that is there."""
    fractions = dict.fromkeys((server.id for server in instance.servers), Fraction(0))
    for job in instance.jobs:
        for group in job.workers:
            fractions[group.server] += Fraction(group.workers, job.total_workers)
    return list(fractions.values())
