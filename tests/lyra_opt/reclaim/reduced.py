"""Reduced instances by the reference: what choices of places cost; and a wrong factorisation."""

from contextlib import contextmanager
from itertools import combinations

import numpy as np
import pytest
import scipy.linalg

from tests.reference import reclaim


def document_of(reduced):
    """Return an interchangeable instance; a job on each server alone stands for its cost."""
    jobs = []
    for job, (weight, slack) in enumerate(zip(reduced.weight, reduced.slack, strict=True)):
        row = reduced.losses.row(job)
        least = max(0, sum(count for _, count in row) - int(slack))
        groups = [{"server": f"{place}", "base": count} for place, count in row]
        jobs.append({"weight": int(weight), "min_workers": least, "workers": groups})
    for place, cost in enumerate(reduced.server_cost):
        jobs.append({"weight": int(cost), "workers": [{"server": f"{place}", "base": 1}]})
    return {
        "semantics": "interchangeable",
        "reclaim_servers": reduced.reclaim_servers,
        "servers": [{"id": f"{place}"} for place in range(len(reduced.servers))],
        "jobs": jobs,
    }


def choices(reduced):
    """Return every choice of places."""
    return list(combinations(range(len(reduced.servers)), reduced.reclaim_servers))


def cost_of(reduced, places):
    """Return what a choice costs."""
    return reclaim.cost(document_of(reduced), {f"{place}" for place in places})


def least_cost(reduced):
    """Return what the cheapest choice costs."""
    return reclaim.optimum(document_of(reduced))


@contextmanager
def wrong_cholesky(factor):
    """Let any matrix have a Cholesky factor, which is multiplied by a number."""
    cholesky = scipy.linalg.cholesky
    with pytest.MonkeyPatch.context() as patch:
        # Of any matrix: the factor of one that is positive definite.
        patch.setattr(
            scipy.linalg,
            "cholesky",
            lambda matrix, **options: (
                factor * cholesky(matrix @ matrix.T + np.eye(len(matrix)), **options)
            ),
        )
        yield
