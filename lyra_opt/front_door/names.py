"""The functions and classes that ``import lyra_opt as lo`` provides.

This module may import every package and contains no logic. ``lyra_opt.__all__`` lists the names.
Each is imported under its own name, which type checkers treat as an export.
"""

# ruff: noqa: F401 - the names are exported

import lyra_opt.allocation as allocation
import lyra_opt.heterogeneous as heterogeneous
import lyra_opt.network as network
import lyra_opt.preemption as preemption
import lyra_opt.reclaim as reclaim
from lyra_opt.commands.cite import cite as cite
from lyra_opt.core.errors import UserError as UserError
from lyra_opt.core.plotting import plot as plot
from lyra_opt.core.plotting import plot_progress as plot_progress
from lyra_opt.core.result import SolveResult as SolveResult
from lyra_opt.core.result import Status as Status
from lyra_opt.core.solver import HeuristicSolver as HeuristicSolver
from lyra_opt.core.solver import Solver as Solver
from lyra_opt.core.solving import Answer as Answer
from lyra_opt.core.version import VERSION
from lyra_opt.experiments.frames import load_study as load_study
from lyra_opt.front_door.files import load as load
from lyra_opt.front_door.files import save as save
from lyra_opt.front_door.generating import generate as generate
from lyra_opt.front_door.listing import families as families
from lyra_opt.front_door.listing import library as library
from lyra_opt.front_door.listing import papers as papers
from lyra_opt.front_door.listing import scenarios as scenarios
from lyra_opt.front_door.listing import schemes as schemes
from lyra_opt.front_door.listing import solvers as solvers
from lyra_opt.front_door.listing import studies as studies
from lyra_opt.front_door.models import export_model as export_model
from lyra_opt.front_door.models import load_solution as load_solution
from lyra_opt.front_door.models import model as model
from lyra_opt.front_door.planning import plan as plan
from lyra_opt.front_door.published import paper as paper
from lyra_opt.front_door.results import diff as diff
from lyra_opt.front_door.scoring import score as score
from lyra_opt.front_door.searching import counterexample as counterexample
from lyra_opt.front_door.simulating import bound as bound
from lyra_opt.front_door.simulating import simulate as simulate
from lyra_opt.front_door.solving import compare as compare
from lyra_opt.front_door.solving import solve as solve
from lyra_opt.front_door.solving import verify as verify
from lyra_opt.front_door.study_pictures import plot_study as plot_study
from lyra_opt.front_door.summaries import summary as summary
from lyra_opt.front_door.tuning import tune as tune
from lyra_opt.simulation.cluster import Cluster as Cluster
from lyra_opt.simulation.workload import Workload as Workload

__version__ = VERSION
