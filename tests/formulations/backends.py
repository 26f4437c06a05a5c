"""The names of backends, backends that lie, and answers that must not be errors."""

from dataclasses import replace

import lyra_opt as lo
from lyra_opt.formulations.backends.backend import BackendRun

BACKENDS = ("pulp-cbc", "pulp-highs", "cpsat", "mathopt-gscip", "mathopt-highs")


def lying(solver, **claims):
    """Return the solver with a backend that says so of any model."""
    backend = replace(solver.backend, run=lambda *_: BackendRun(**claims))
    return type(solver)(solver.formulation, solver.statement, backend)


def solved(instance, name="lp-highs"):
    """Return the checked answer of a solver, which must not be an error."""
    found = lo.solve(instance, name)
    assert found.status is not lo.Status.ERROR, found.message
    return found
