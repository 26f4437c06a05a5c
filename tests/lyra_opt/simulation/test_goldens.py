"""Every scheme does on every kind of cluster what it did when that was recorded."""

from __future__ import annotations

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
    EXTRA_COLUMNS,
    GROUPS,
    Case,
    Outcome,
    load_goldens,
)

KINDS = ("pools", "rounds", "racks")
NOT_RECORDED = {"gavel-gandiva", "gavel-fifo"}  # the first needs packed rates


def difference(case: Case, found: Outcome, expected: Outcome) -> str | None:
    """Return what the first job that differs has, and should have; None if none differs.

    Times differ by more than the tolerance of the case relative to the completion of the job, from
    which waits are reckoned; numbers by anything.
    """
    if len(found.completion_s) != len(expected.completion_s):
        return f"{case.name}: {len(found.completion_s)} jobs, not {len(expected.completion_s)}"
    allowed_s = case.tolerance * np.abs(expected.completion_s)
    pairs = [
        (name, getattr(found, name), getattr(expected, name), allowed)
        for name, allowed in {
            "completion_s": allowed_s,
            "queued_s": allowed_s,
            "preemptions": 0,
        }.items()
    ]
    pairs += [
        (name, found.extra[:, place], expected.extra[:, place], 0)
        for place, name in enumerate(EXTRA_COLUMNS[case.kind])
    ]
    differs = np.array([~(np.abs(ours - recorded) <= most) for _, ours, recorded, most in pairs])
    if not differs.any():
        return None
    job = int(differs.any(axis=0).argmax())
    values = "; ".join(
        f"{name} is {ours[job]}, was {recorded[job]}"
        for (name, ours, recorded, _), is_other in zip(pairs, differs[:, job], strict=True)
        if is_other
    )
    jobs = int(differs.any(axis=0).sum())
    return f"{case.name}: {jobs} jobs differ, first {case.job_ids()[job]} (number {job}): {values}"


@pytest.mark.parametrize(
    "case", sampled([(case,) for case in CASES], 4), ids=[case.name for case in CASES]
)
def test_as_recorded(case):
    """When jobs complete, how long they wait and how often they stop does not change unnoticed."""
    found = case.replay()
    message = difference(case, found, load_goldens()[case.name])
    assert message is None, message


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
    assert difference(case, golden, golden) is None
    slightly = golden._replace(completion_s=golden.completion_s * (1 + 1e-12))
    assert difference(case, slightly, golden) is None
    for field, by, column in (
        ("completion_s", 1e-3, "completion_s"),
        ("queued_s", 1e-3, "queued_s"),
        ("queued_s", np.nan, "queued_s"),
        ("preemptions", 1, "preemptions"),
        ("extra", 1, "restarts"),
    ):
        bumped = getattr(golden, field).copy()
        bumped[3] += by
        message = difference(case, golden._replace(**{field: bumped}), golden)
        assert message is not None
        assert message.startswith(f"{case.name}: 1 jobs differ, first j3 (number 3): {column} is")
    last_digit = np.nextafter(exact_golden.completion_s, np.inf)
    assert difference(exact, exact_golden._replace(completion_s=last_digit), exact_golden)
