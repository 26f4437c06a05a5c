"""Reading CBC's log, with logs as CBC 2.10.3 writes them."""

import pytest

from lyra_opt.core.result import StoppedBy
from lyra_opt.formulations.backends.pulp import read_cbc_log
from tests.tables import tables

LOGS = tables(__file__)


def test_optimal_run():
    run = read_cbc_log(LOGS["optimal"], [1.0])
    assert (run.values, run.bound, run.stopped_by) == ([1.0], 4.0, None)
    assert run.counters == {"nodes": 12}


def test_stopped_run_has_the_bound_before_it_was_rounded_at_best():
    run = read_cbc_log(LOGS["stopped"], [1.0])
    assert (run.values, run.stopped_by) == ([1.0], StoppedBy.TIME)
    assert run.bound == pytest.approx(45.3775)


def test_stopped_run_without_a_solution_has_no_values():
    run = read_cbc_log(LOGS["stopped_without_solution"], [0.0])
    assert run.values is None
    assert run.bound == pytest.approx(45.3775)


@pytest.mark.parametrize(
    "result", ["Problem proven infeasible", "Optimal solution found (within gap tolerance)", ""]
)
def test_any_other_end_is_an_error(result):
    with pytest.raises(RuntimeError, match="CBC stopped with"):
        read_cbc_log(f"Result - {result}\n" if result else "Welcome to the CBC MILP Solver\n", [])
