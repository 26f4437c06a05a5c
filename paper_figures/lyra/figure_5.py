"""Figure 5: the greedy on the paper's example, for every number of servers to reclaim."""

from __future__ import annotations

from dataclasses import replace

from instances.library import load_library_instance
from lyra_opt.problem import find_problem
from lyra_opt.reclaim.lyra_greedy import LyraGreedy
from lyra_opt.solver import find_solver
from lyra_opt.solving import solve_and_check
from paper_figures.comparison import Comparison, Entry

# N_R: jobs that the best choice preempts, as the paper's discussion of the example implies.
PAPER = {1: "1", 2: "1", 3: "2", 4: "3", 5: "3"}


def compare() -> Comparison:
    """Return the preemptions of the greedy and of the proved optimum for N_R = 1..5."""
    problem = find_problem("reclaim")
    example = load_library_instance("lyra-figure-5").instance
    entries = []
    for solver, column in (
        (LyraGreedy(), "preemptions by Lyra's greedy"),
        (find_solver("reclaim", "brute-force"), "least preemptions possible"),
    ):
        for reclaim_servers, paper in PAPER.items():
            instance = replace(example, reclaim_servers=reclaim_servers)
            answer = solve_and_check(problem, instance, solver)
            if answer.objective is None:
                raise RuntimeError(f"{solver.name} did not solve Figure 5: {answer.message}")
            entries.append(Entry.exact(f"N_R = {reclaim_servers}", column, paper, answer.objective))
    return Comparison(
        name="lyra-figure-5",
        title="Lyra (EuroSys 2023), Figure 5: reclaiming servers in the worked example",
        entries=entries,
        notes=[
            "The paper breaks ties by collateral damage without a formula. These numbers hold for "
            "our default, the server whose jobs vacate the most GPUs elsewhere; with the fewest "
            "first the greedy preempts 2 jobs for N_R = 2, where 1 is enough.",
        ],
    )
