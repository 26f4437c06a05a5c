"""The backends of integer programmes, in the order in which solvers are listed."""

from lyra_opt.formulations.backends import cpsat, mathopt, pulp

BACKENDS = (pulp.CBC, pulp.HIGHS, cpsat.BACKEND, mathopt.GSCIP, mathopt.HIGHS)
