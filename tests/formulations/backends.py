"""The names of backends, and backends that lie."""

from dataclasses import replace

from lyra_opt.formulations.backends.backend import BackendRun

BACKENDS = ("pulp-cbc", "pulp-highs", "cpsat", "mathopt-gscip", "mathopt-highs")


def lying(solver, **claims):
    """Return the solver with a backend that says so of any model."""
    backend = replace(solver.backend, run=lambda *_: BackendRun(**claims))
    return type(solver)(solver.formulation, solver.statement, backend)
