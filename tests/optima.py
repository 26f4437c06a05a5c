"""The reference's word on instances of the toolkit, by way of the documents that files hold."""

from lyra_opt.core.problem import problem_of_instance
from tests.reference import PROBLEMS, mean_jct


def document_of(instance):
    """Return what a file of the instance holds."""
    return problem_of_instance(instance).instance_document(instance)


def optimum(instance):
    """Return the best value, or `tests.reference.drawing.INFEASIBLE` or `UNKNOWN`."""
    return PROBLEMS[instance.problem].optimum(document_of(instance))


def least_mean_jct(instance):
    """Return the least mean JCT of up to three jobs, whatever their workers may do."""
    return mean_jct.by_orders_of_events(document_of(instance))


def objective(instance, solution):
    """Return the checker's objective of a valid solution."""
    report = problem_of_instance(instance).check(instance, solution)
    assert report.objective is not None, report.violations
    return report.objective
