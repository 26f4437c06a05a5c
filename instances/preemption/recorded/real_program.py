"""The recorded decisions of real schedulers as a solver, for studies.

The solver is not registered, because it solves only recorded instances. A study names it as
``real_program.py:RealProgram``.
"""

import numpy as np

from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import HeuristicSolver, Unsupported
from lyra_opt.instances.preemption.recorded import RECORDINGS, recorded_decisions
from lyra_opt.instances.preemption.recorded.decisions import Decision
from lyra_opt.preemption import Instance, Solution
from lyra_opt.preemption.instance import Moves


class RealProgram(HeuristicSolver):
    """Return the victims that a real kube-scheduler or Slurm chose on a recorded cluster.

    This is not an imitation: the victims and the places of the pending pods were recorded from the
    program (`lyra_opt.instances.preemption.recorded`). Other instances are refused. The time of a
    run is that of the look-up, not that of the program. Complexity
    O(recorded decisions). Guarantee: none.
    """

    name = "real-program"
    problem = "preemption"
    variants = (Moves.NONE,)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return that no decision was recorded on the instance; None if one was."""
        if _decision(instance) is None:
            return Unsupported("no real program was recorded on this instance")
        return super().supports(instance)

    def apply(
        self,
        instance: Instance,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> SolveResult[Solution]:
        """Return the recorded decision."""
        decision = _decision(instance)
        assert decision is not None
        objective = self.objective_of(instance, decision.solution)
        return SolveResult(status=Status.FEASIBLE, solution=decision.solution, objective=objective)


def _decision(instance: Instance) -> Decision | None:
    """Return the decision that was recorded on an instance; None if none was recorded."""
    decisions = (each for name in RECORDINGS for each in recorded_decisions(name))
    return next((each for each in decisions if each.instance == instance), None)
