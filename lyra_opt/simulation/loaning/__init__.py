"""Loaning: how many servers the inference cluster lends, and when.

A forecaster expects demand, the orchestrator turns that into loans, and the clairvoyant optimum
says how good any loans could have been.
"""

from lyra_opt.simulation.loaning.clairvoyant import (
    clairvoyant_loans,
    returned_servers,
    shortest_loan,
    value,
)
from lyra_opt.simulation.loaning.comparison import LoanRecord, compare_forecasters
from lyra_opt.simulation.loaning.forecast import Forecaster, find_forecaster, forecaster_names
from lyra_opt.simulation.loaning.orchestrator import LoanDecision, Orchestrator

__all__ = [
    "Forecaster",
    "LoanDecision",
    "LoanRecord",
    "Orchestrator",
    "clairvoyant_loans",
    "compare_forecasters",
    "find_forecaster",
    "forecaster_names",
    "returned_servers",
    "shortest_loan",
    "value",
]
