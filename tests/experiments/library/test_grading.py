"""Grades come of measured runs by one rule, and contradictions are never written down."""

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.library.grading import GradingRun, best_known
from lyra_opt.reclaim.instance import Semantics
from tests.tables import tables

CASES = tables(__file__)


def run(method, engine, changes=None):
    """Return a run of an exact method; `changes` are those of an optimum of 7 that it proves."""
    found = {"is_exact": True, "time_limit_s": 10.0, "time_s": 0.1, **(changes or {})}
    if "status" not in found:
        found = {"objective": 7, "dual_bound": 7} | found
        found["status"] = "optimal" if found["dual_bound"] == found["objective"] else "feasible"
    return GradingRun(id="a", sha256="0", method=method, engine=engine, **found)


@pytest.mark.parametrize("name", CASES)
def test_what_is_known_after_some_runs(name):
    case = CASES[name]
    runs = [run(*each) for each in case["runs"]]
    given = (runs, Semantics.RIGID, "we", case.get("certificate"))
    if "refused" in case:
        with pytest.raises(UserError, match=case["refused"]):
            best_known("a", *given)
        return
    best = best_known("a", *given)
    for key, expected in case["known"].items():
        found = getattr(best, key)
        assert (list(found) if isinstance(found, tuple) else found) == expected, key
    assert not any(getattr(best, key) is not None for key in case.get("unknown", ()))
    for method, limits_s in case.get("limits_s", {}).items():
        assert [each.time_limit_s for each in best.runs if each.method == method] == limits_s
