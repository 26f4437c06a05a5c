"""Files of the problem: what they hold comes back, and what is wrong in one is named."""

import json

import pytest

from lyra_opt.allocation import ElasticJob, Objective, Schedule, WorkerAllocation
from lyra_opt.allocation.problem import PROBLEM
from lyra_opt.core.documents import format_document
from lyra_opt.core.errors import FieldError
from lyra_opt.core.verifying import verify
from tests.lyra_opt.allocation.examples import LONG, example, example_schedule


def test_schedule_comes_back_from_its_file_in_order():
    """By start, then by job in file order, whatever order a solver leaves its pieces in."""
    instance = example()
    schedule = example_schedule(LONG, 2, 6)
    backwards = Schedule(schedule.pieces[::-1])
    document = json.loads(format_document(PROBLEM.solution_document(instance, backwards, 1)))
    assert [(piece["job"], piece["start_s"]) for piece in document["schedule"]] == [
        ("A", 0),
        ("B", 0),
        ("A", 20),
    ]
    parsed, _ = PROBLEM.parse_solution(document)
    assert isinstance(parsed, Schedule)
    assert PROBLEM.check(instance, parsed) == PROBLEM.check(instance, schedule)


def test_sense_and_default_solver_depend_on_the_objective():
    """Only the reduction is maximised."""
    senses = {str(objective): objective.sense for objective in Objective}
    assert [kind for kind, sense in senses.items() if sense == "max"] == ["jct_reduction"]
    assert set(PROBLEM.default_solvers) == set(Objective)
    assert PROBLEM.default_solver_of("mean_jct") == "srw"
    assert PROBLEM.default_solver_of("joint") == "mckp-core"


def test_claims_are_compared_within_rounding():
    """Floats that differ in the last digit are the same claim; other digits are not."""
    instance, schedule = example(), example_schedule(LONG, 2, 6)

    def verified(objective, **claims):
        claims = {"instance": "example", "objective": objective, **claims}
        return verify(PROBLEM, instance, schedule, claims).valid

    assert verified(125 / 3)
    assert verified(41.6666666666666)
    assert not verified(41.67)
    assert verified(125 / 3, makespan_s=190 / 3)
    assert not verified(125 / 3, makespan_s=63)


@pytest.mark.parametrize(("bound", "valid"), [(200.0, True), (100.0, False)])
def test_bounds_of_a_maximised_objective_lie_above(bound, valid):
    """A proof whose bound is below its objective refutes itself."""
    instance = example(objective="jct_reduction", gpus=4)
    claims = {"instance": "example", "objective": 110.0, "dual_bound": bound}
    verification = verify(PROBLEM, instance, WorkerAllocation((5, 3)), claims)
    assert verification.valid is valid, verification.violations


@pytest.mark.parametrize("objective", ["jct_reduction", "two_phase", "joint"])
def test_jobs_that_do_not_fit_are_no_defect_elsewhere(objective):
    """Only a schedule must run every job."""
    assert example(objective=objective, gpus=1).gpus == 1
    with pytest.raises(FieldError, match="min_workers"):
        example(gpus=1)


def test_instance_of_python_numbers_that_are_none():
    """The dataclasses hold what the files hold, and refuse the rest by field too."""
    with pytest.raises(FieldError, match="work_worker_s"):
        ElasticJob(id="a", min_workers=1, max_workers=1, work_worker_s=True)
    with pytest.raises(FieldError, match=r"workers\[1\]"):
        WorkerAllocation((1, -1))
