"""Results that cannot all be right are found, and named by both rows."""

from dataclasses import replace

import pytest

from lyra_opt.experiments.proofs import find_contradictions
from tests.experiments.records import make_runs
from tests.tables import tables

TABLES = tables(__file__)


@pytest.mark.parametrize("case", TABLES["agreeing"])
def test_results_that_agree_are_no_contradiction(case):
    """Bounds lie above when maximising, and instances are kept apart."""
    runs = make_runs(TABLES["agreeing"][case])
    runs = [replace(run, content_sha256=run.content_sha256 or None) for run in runs]
    assert find_contradictions(runs) == []


@pytest.mark.parametrize("line", TABLES["contradicting"])
def test_contradiction_is_found(line):
    """The line names the cell and both rows."""
    assert find_contradictions(make_runs(TABLES["contradicting"][line])) == [f"c: {line}"]
