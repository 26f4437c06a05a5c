"""A solver that says what a test wants it to say."""

from lyra_opt.core.result import SolveResult
from lyra_opt.core.solver import Solver


class Scripted(Solver):
    """A solver of somebody else's that returns a given result, or raises a given error."""

    name = "scripted"
    problem = "reclaim"
    variants = ("rigid",)
    exact_variants = variants
    gives_bound = True

    def __init__(self, result):
        self.result = result

    def solve(self, instance, **options):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    @classmethod
    def claiming(cls, status, solution=None, objective=None, dual_bound=None):
        """Return a solver that claims this."""
        said = {"solution": solution, "objective": objective, "dual_bound": dual_bound}
        return cls(SolveResult(status=status, **said))


claim = Scripted.claiming
