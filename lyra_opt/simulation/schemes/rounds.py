"""Schemes that decide round by round: rules of the heterogeneous problem."""

from __future__ import annotations

from lyra_opt.heterogeneous.heuristics.policies import ROUND_POLICIES, SUMMARIES
from lyra_opt.simulation.scheme import RoundScheme


def _scheme(name: str, paper: str, *, needs_types: bool = False) -> RoundScheme:
    return RoundScheme(
        name=name,
        paper=paper,
        summary=SUMMARIES[name],
        make=ROUND_POLICIES[name],
        needs_types=needs_types,
    )


ALLOX = _scheme("allox", "AlloX")
GAVEL_LAS = _scheme("gavel-las", "Gavel")
GAVEL_FIFO = _scheme("gavel-fifo", "Gavel")
GAVEL_FTF = _scheme("gavel-ftf", "Gavel")
GAVEL_THROUGHPUT = _scheme("gavel-throughput", "Gavel")
GAVEL_COST = _scheme("gavel-cost", "Gavel", needs_types=True)
GAVEL_MAKESPAN = _scheme("gavel-makespan", "Gavel")
GAVEL_WATER_FILLING = _scheme("gavel-water-filling", "Gavel")
GAVEL_HIERARCHICAL = _scheme("gavel-hierarchical", "Gavel")
GAVEL_GANDIVA = _scheme("gavel-gandiva", "Gavel")
GAVEL_LAS_AGNOSTIC = _scheme("gavel-las-agnostic", "Gavel")
GAVEL_FTF_AGNOSTIC = _scheme("gavel-ftf-agnostic", "Gavel")
GAVEL_MAKESPAN_AGNOSTIC = _scheme("gavel-makespan-agnostic", "Gavel")
GAVEL_WATER_FILLING_AGNOSTIC = _scheme("gavel-water-filling-agnostic", "Gavel")
GAVEL_ISOLATED = _scheme("gavel-isolated", "Gavel")
HADAR = _scheme("hadar", "Hadar")
HADARE = _scheme("hadare", "HadarE")
PRICED_PROGRESS = _scheme("priced-progress", "ours")
TIRESIAS = _scheme("tiresias", "Tiresias")
YARN_CS = _scheme("yarn-cs", "Hadar")
