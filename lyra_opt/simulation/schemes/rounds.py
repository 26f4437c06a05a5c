"""Schemes that decide round by round: rules of the heterogeneous problem."""

from __future__ import annotations

from lyra_opt.heterogeneous.policies import ROUND_POLICIES, SUMMARIES
from lyra_opt.simulation.scheme import RoundScheme

ALLOX = RoundScheme(
    name="allox", paper="AlloX", summary=SUMMARIES["allox"], make=ROUND_POLICIES["allox"]
)
GAVEL_LAS = RoundScheme(
    name="gavel-las",
    paper="Gavel",
    summary=SUMMARIES["gavel-las"],
    make=ROUND_POLICIES["gavel-las"],
)
GAVEL_FTF = RoundScheme(
    name="gavel-ftf",
    paper="Gavel",
    summary=SUMMARIES["gavel-ftf"],
    make=ROUND_POLICIES["gavel-ftf"],
)
GAVEL_THROUGHPUT = RoundScheme(
    name="gavel-throughput",
    paper="Gavel",
    summary=SUMMARIES["gavel-throughput"],
    make=ROUND_POLICIES["gavel-throughput"],
)
GAVEL_COST = RoundScheme(
    name="gavel-cost",
    paper="Gavel",
    summary=SUMMARIES["gavel-cost"],
    make=ROUND_POLICIES["gavel-cost"],
    needs_types=True,
)
GAVEL_MAKESPAN = RoundScheme(
    name="gavel-makespan",
    paper="Gavel",
    summary=SUMMARIES["gavel-makespan"],
    make=ROUND_POLICIES["gavel-makespan"],
)
HADAR = RoundScheme(
    name="hadar", paper="Hadar", summary=SUMMARIES["hadar"], make=ROUND_POLICIES["hadar"]
)
HADARE = RoundScheme(
    name="hadare", paper="HadarE", summary=SUMMARIES["hadare"], make=ROUND_POLICIES["hadare"]
)
PRICED_PROGRESS = RoundScheme(
    name="priced-progress",
    paper="ours",
    summary=SUMMARIES["priced-progress"],
    make=ROUND_POLICIES["priced-progress"],
)
TIRESIAS = RoundScheme(
    name="tiresias",
    paper="Tiresias",
    summary=SUMMARIES["tiresias"],
    make=ROUND_POLICIES["tiresias"],
)
YARN_CS = RoundScheme(
    name="yarn-cs", paper="Hadar", summary=SUMMARIES["yarn-cs"], make=ROUND_POLICIES["yarn-cs"]
)
