"""Every exact model with every backend: honest limits, and weights of any size."""

import pytest

import lyra_opt as lo
from lyra_opt.core.result import Status, StoppedBy
from lyra_opt.formulations.reclaim.cpsat_model import CPSAT
from lyra_opt.formulations.reclaim.pulp_model import PULP_HIGHS
from tests.formulations.reclaim.exact_solvers import MODEL_SOLVERS, last_servers, scattered_jobs
from tests.lyra_opt.reclaim.examples import fleet, job_on
from tests.optima import objective

# No backend closes it in the second and a half that all ten runs on it take.
HARD = scattered_jobs(60, [4] * 120, 20)

every_model_solver = pytest.mark.parametrize("name", MODEL_SOLVERS)


@every_model_solver
@pytest.mark.parametrize("time_s", [1e-9, 1e-6, 0.15])
def test_time_limit_claims_no_optimum_and_loses_nothing(name, time_s):
    start = last_servers(HARD)
    answer = lo.solve(HARD, name, time_limit_s=time_s, start=start)
    assert (answer.status, answer.message) == (Status.FEASIBLE, None)
    assert answer.stopped_by is StoppedBy.TIME
    assert 0 <= answer.dual_bound < answer.objective <= objective(HARD, start)


def test_weights_beyond_64_bits_are_declined_by_cpsat():
    jobs = [job_on(f"j{number}", "s", weight=2**53 - 1) for number in range(600)]
    assert "2**62" in CPSAT.supports(fleet("st", *jobs)).reason
    assert "10000000000000" in PULP_HIGHS.supports(fleet("st", *jobs)).reason


def test_too_many_workers_for_floats_are_declined():
    """A threshold of 10^6 workers within 1e-6 is off by one worker."""
    job = job_on("j", {"s": 10**6, "t": 10**6 - 1}, min_workers=10**6)
    crowded = fleet("st", job, gpus=10**6, semantics="interchangeable")
    assert "job 'j' has 1999999" in PULP_HIGHS.supports(crowded).reason
    assert lo.solve(crowded, CPSAT).objective == 0
