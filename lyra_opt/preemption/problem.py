"""The preemption problem as one object: its file formats, checker and dual bound."""

from collections.abc import Mapping
from typing import Any

from lyra_opt.core.fields import keys_of, written
from lyra_opt.core.pictures import Drawing
from lyra_opt.core.problem import Problem
from lyra_opt.core.terms import ONE_NUMBER, Terms
from lyra_opt.preemption.checker import Report, check
from lyra_opt.preemption.instance import Instance, Moves, Solution


class PreemptionProblem(Problem):
    """The problem of choosing which running pods give way to a pending gang."""

    size_name = "nodes"
    variants = Moves
    default_solvers = dict.fromkeys(Moves, "exact")
    witnesses = ("cpsat", "pulp-highs")
    instance_format = "lyra-opt/preemption"
    instance_class = Instance
    solution_classes = (Solution,)
    report_class = Report
    detail_keys = ("lost_pods", "moved_pods", "placements", "emptied_nodes", "terms")

    def answer(self, instance: Instance, solution: Solution) -> Mapping[str, Any]:
        """Return the solution with all lists in file order."""
        document = written(solution.in_file_order(instance))
        return {each.name: document.get(each.name, []) for each in keys_of(Solution)}

    def check(self, instance: Instance, solution: Solution) -> Report:
        """Recompute the feasibility and the objective of a solution."""
        return check(instance, solution)

    def terms_of(self, instance: Instance) -> Terms:
        """Return the terms of the objective that can differ from 0, if there are several."""
        terms = instance.terms.terms
        if len(terms) < 2:
            return ONE_NUMBER
        return Terms(tuple(term.key for term in terms), instance.terms.decode, measure="terms")

    def objective_in_words(self, instance: Instance) -> str:
        """Return the name of the only term that can differ from 0, or the number of such terms."""
        terms = instance.terms.terms
        return terms[0].key if len(terms) == 1 else f"{len(terms)} terms as one number"

    def dual_bound(self, instance: Instance) -> int:
        """Return a proved lower bound on the optimum."""
        from lyra_opt.preemption.bounds.dual_bound import dual_bound

        return dual_bound(instance)

    def proof_hints(self, instance: Instance) -> Mapping[str, Any]:
        """Return the gangs that block an impossible demand, for proofs by counting.

        The list is empty if the demand fits, or if counting does not decide.
        """
        from lyra_opt.preemption.counting import blocking_gangs

        return {"blocking": list(blocking_gangs(instance) or ())}

    def drawing_of(self, instance: Instance, solutions: Mapping[str, Solution]) -> Drawing:
        """Return a drawing of valid solutions, keyed by solver name, or of the instance alone."""
        from lyra_opt.preemption.plot import drawing_of

        return drawing_of(instance, solutions)


PROBLEM = PreemptionProblem()
