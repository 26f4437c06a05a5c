"""Every scheme does on every kind of cluster what it did when that was recorded."""

import os
import subprocess
import sys

import numpy as np
import pytest

from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES
from lyra_opt.simulation.scheme import find_scheme, scheme_names
from tests.draws import sampled
from tests.lyra_opt.simulation.golden_cases import CASES, GROUPS, Outcome, load_goldens

KINDS = ("pools", "rounds", "racks")
NOT_RECORDED = {"gavel-gandiva", "gavel-fifo"}  # the first needs packed rates


def require_as_recorded(case, found, expected):
    """Check an outcome; the message names what differs, and the first job of which it does.

    Times may differ by the tolerance of the case relative to the completion of the job, from which
    waits are reckoned; numbers must be equal.
    """
    allowed_s = case.tolerance * np.abs(expected.completion_s)
    for name, ours, recorded in zip(Outcome._fields, found, expected, strict=True):
        most = allowed_s if name.endswith("_s") else 0
        jobs = np.argwhere(~(np.abs(ours - recorded) <= most))
        assert not jobs.size, f"{name} of {case.name} differ, first of job {jobs[0][0]}"


@pytest.mark.parametrize(
    "case", sampled([(case,) for case in CASES], 4), ids=[case.name for case in CASES]
)
def test_as_recorded(case):
    """When jobs complete, how long they wait and how often they stop does not change unnoticed."""
    require_as_recorded(case, case.replay(), load_goldens()[case.name])


@pytest.mark.slow
@pytest.mark.timeout(3600)  # replays all cases of a kind, on a machine that may be loaded
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("core_type", ["Prescott", "Haswell"])
def test_no_schedule_depends_on_the_processor(core_type, kind):
    """OpenBLAS adds in another order on each processor family; no decision may depend on it.

    Both core types run on every x86-64 processor of today.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", f"{kind}/"]
    result = subprocess.run(
        [*command, "-m", "slow or not slow", f"{__file__}::{test_as_recorded.__name__}"],
        env=os.environ | {"OPENBLAS_CORETYPE": core_type},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-5000:]


def test_every_scheme_is_recorded():
    """No scheme that runs on a kind of cluster is left out."""
    names = {kind: set() for kind in KINDS}
    for case in CASES:
        names[case.kind].add(case.scheme)
    rest = set(scheme_names()) - set(ROUND_POLICIES) - set(PLACEMENT_POLICIES)
    assert names["pools"] == rest
    assert names["rounds"] == set(ROUND_POLICIES) - NOT_RECORDED
    spread = names["rounds"] - {"gavel-cost", "allox", "hadare"}
    spread -= {name for name in spread if name.endswith("-agnostic")}
    assert names["racks"] == set(PLACEMENT_POLICIES) | spread | {"fifo", "lyra", "least-loss"}
    borrowing = [name for name in GROUPS["untuned"] if find_scheme(name).borrows]
    assert GROUPS["borrowing"] == borrowing


def test_cases_are_those_recorded():
    """Nothing is compared with a case of another name, and no record outlives its case."""
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert list(load_goldens()) == names
