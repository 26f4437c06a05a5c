"""The exact solvers under test, and instances to give them."""

import numpy as np

from lyra_opt.reclaim import Solution
from tests.formulations.backends import BACKENDS
from tests.lyra_opt.reclaim.examples import fleet, job_on

MODEL_SOLVERS = tuple(f"{name}{form}" for name in BACKENDS for form in ("", "-strengthened"))


def scattered_jobs(servers, spans, reclaim_servers, **fields):
    """Return jobs of weight 1 with a worker on each of as many random servers as the span says."""
    rng = np.random.Generator(np.random.PCG64(7))
    jobs = []
    for number, span in enumerate(spans):
        hosts = rng.permutation(servers)[:span].tolist()
        jobs.append(job_on(f"j{number}", [f"s{host}" for host in hosts]))
    names = [f"s{number}" for number in range(servers)]
    return fleet(names, *jobs, reclaim=reclaim_servers, **fields)


def last_servers(instance):
    """Return the choice of the last servers on loan: valid, and rarely good."""
    on_loan = instance.index.on_loan.tolist()
    return Solution.of_positions(instance, on_loan[len(on_loan) - instance.reclaim_servers :])
