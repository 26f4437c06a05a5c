"""The words of ``import lyra_opt as lo``: files, solving, comparing, simulating, pictures.

A composition root: it sees every package and holds no logic.
"""

import lyra_opt.allocation as allocation
import lyra_opt.heterogeneous as heterogeneous
import lyra_opt.network as network
import lyra_opt.reclaim as reclaim
from lyra_opt.core.errors import UserError
from lyra_opt.core.plotting import plot, plot_progress
from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import HeuristicSolver, Solver
from lyra_opt.core.solving import Answer
from lyra_opt.core.version import VERSION
from lyra_opt.experiments.frames import load_study
from lyra_opt.front_door.files import load, save
from lyra_opt.front_door.generating import generate
from lyra_opt.front_door.models import export_model, model
from lyra_opt.front_door.simulating import bound, simulate
from lyra_opt.front_door.solving import compare, solve, verify
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.workload import Workload

__version__ = VERSION

__all__ = [
    "Answer",
    "Cluster",
    "HeuristicSolver",
    "SolveResult",
    "Solver",
    "Status",
    "UserError",
    "Workload",
    "__version__",
    "allocation",
    "bound",
    "compare",
    "export_model",
    "generate",
    "heterogeneous",
    "load",
    "load_study",
    "model",
    "network",
    "plot",
    "plot_progress",
    "reclaim",
    "save",
    "simulate",
    "solve",
    "verify",
]
