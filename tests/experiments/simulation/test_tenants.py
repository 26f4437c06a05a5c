"""Quotas of tenants in scenarios: shares, groups, limits, traces and measures."""

from pathlib import Path
from typing import Any

import pytest

import lyra_opt as lo
from lyra_opt.core.errors import UserError
from tests.tables import tables

TABLES = tables(__file__)

TRACE = TABLES["trace"]


def scenario(folder: Path, tenants: dict[str, Any], **scheme: Any) -> dict[str, Any]:
    """Return a scenario of three jobs of two tenants on eight GPUs."""
    trace = folder / "jobs.csv"
    trace.write_text(TRACE)
    return {
        "cluster": {"servers": 1, "tenants": tenants},
        "jobs": {"trace": str(trace)},
        "schemes": [{"name": "fifo", **scheme}],
    }


def test_column_vc_names_tenants_and_results_tell_them_apart(tmp_path: Path) -> None:
    """Tenant b takes its half back from tenant a, and the figures say so."""
    runs = lo.simulate(scenario(tmp_path, {"divide": "equally"}))
    (figures,) = runs.frame.to_dict("records")
    assert figures["taken_back"] == figures["taken_back_tenant_a"] == 1
    assert figures["queue_tenant_b_mean_s"] == 0
    assert figures["jct_tenant_b_mean_s"] == 50
    assert 0.5 < figures["jain_index"] < 1
    assert list(runs.jobs.tenant) == ["a", "a", "b"]


@pytest.mark.parametrize(("quotas", "taken_back"), TABLES["quotas"])
def test_quotas_are_shares_or_gpus_of_tenants_or_groups(
    tmp_path: Path, quotas: dict[str, Any], taken_back: int
) -> None:
    """In any order of the file; a share is one of the group's quota."""
    (figures,) = lo.simulate(scenario(tmp_path, {"quotas": quotas})).frame.to_dict("records")
    assert figures["taken_back"] == taken_back
    if "team" in quotas:
        assert figures["jct_tenant_team_mean_s"] == figures["jct_tenant_b_mean_s"] == 50
        assert figures["above_quota_tenant_a_gpu_s"] == 4 * 10 + 4 * 40


@pytest.mark.parametrize(("tenants", "words"), TABLES["wrong"])
def test_wrong_quotas_are_refused_in_one_line(
    tmp_path: Path, tenants: dict[str, Any], words: str
) -> None:
    """Each message names the key or the tenant."""
    with pytest.raises(UserError, match=words) as refused:
        lo.simulate(scenario(tmp_path, tenants))
    assert "\n" not in str(refused.value)
