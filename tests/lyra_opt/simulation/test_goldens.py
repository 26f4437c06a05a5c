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
from tests.lyra_opt.simulation.golden_cases import (
    CASES,
    GROUPS,
    Case,
    Outcome,
    load_goldens,
)

KINDS = ("pools", "rounds", "racks")
NOT_RECORDED = {"gavel-gandiva", "gavel-fifo"}  # the first needs packed rates


def require_as_recorded(case: Case, found: Outcome, expected: Outcome) -> None:
    """Check an outcome; the message names what differs, and the first job of which it does.

    Times may differ by the tolerance of the case relative to the completion of the job, from which
    waits are reckoned; numbers must be equal.
    """
    assert len(found.completion_s) == len(expected.completion_s), f"jobs of {case.name}"
    allowed_s = case.tolerance * np.abs(expected.completion_s)
    for name, ours, recorded in zip(Outcome._fields, found, expected, strict=True):
        most = allowed_s if name.endswith("_s") else 0
        is_other = ~(np.abs(ours - recorded) <= most)
        if is_other.any():
            job = int(np.argwhere(is_other)[0][0])
            of = f"{name} of job {case.job_ids()[job]} of {case.name}"
            pytest.fail(f"{of} is {ours[job]}, was {recorded[job]}")


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


def test_differences_are_found():
    """A time off by more than the tolerance, or a number by one, is told with its job."""
    case, exact = Case("rounds", "hadar", "gavel-steady"), Case("pools", "lyra", "ties-0")
    golden, exact_golden = load_goldens()[case.name], load_goldens()[exact.name]
    slightly = golden._replace(completion_s=golden.completion_s * (1 + 1e-12))
    require_as_recorded(case, slightly, golden)
    changes = (("completion_s", 1e-3), ("queued_s", np.nan), ("preemptions", 1), ("extra", 1))
    for field, by in changes:
        bumped = getattr(golden, field).copy()
        bumped[3] += by
        with pytest.raises(pytest.fail.Exception, match=f"^{field} of job j3 of {case.name} is"):
            require_as_recorded(case, golden._replace(**{field: bumped}), golden)
    last_digit = np.nextafter(exact_golden.completion_s, np.inf)
    with pytest.raises(pytest.fail.Exception, match="completion_s"):
        require_as_recorded(exact, exact_golden._replace(completion_s=last_digit), exact_golden)
