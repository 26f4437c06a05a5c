"""Quotas that divide the GPUs of a cluster among the tenants of a workload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.quotas import BY_REQUEST, EQUALLY, divided, whole_shares
from tests.lyra_opt.simulation.replays import job_of, workload_of

WEIGHTS = st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 100), min_size=1)


@given(st.integers(0, 1000), WEIGHTS)
def test_whole_shares_add_up_and_are_within_one_gpu(gpus, weights):
    """Hamilton's method: nobody is a whole GPU away from its exact share."""
    found = whole_shares(gpus, weights)
    assert sum(found.values()) == gpus
    whole = sum(weights.values())
    assert all(abs(found[name] - gpus * weights[name] / whole) < 1 for name in weights)


@pytest.mark.parametrize(
    ("division", "expected"),
    [(EQUALLY, {"a": 4, "b": 8, "c": 4}), (BY_REQUEST, {"a": 1, "b": 14, "c": 1})],
)
def test_each_tenant_gets_at_least_its_largest_job(division, expected):
    """The others divide what is left, in proportion."""
    jobs = [
        job_of("a", 0, 10, 1, tenant="a"),
        job_of("b", 0, 1000, 8, tenant="b"),
        job_of("c", 0, 10, 1, tenant="c"),
    ]
    quotas = divided(workload_of(*jobs), 16, division, limit=1.5)
    assert {quota.name: quota.gpus for quota in quotas.quotas} == expected
    assert [quota.most_gpus for quota in quotas.quotas] == [
        int(1.5 * gpus) for gpus in expected.values()
    ]


def test_what_cannot_be_divided_is_refused():
    """Jobs without a tenant, and too few GPUs for the largest jobs."""
    with pytest.raises(FieldError, match="job a names none"):
        divided(workload_of(job_of("a", 0, 10)), 8, EQUALLY)
    jobs = [job_of(name, 0, 10, 5, tenant=name) for name in "ab"]
    with pytest.raises(FieldError, match="needs 10 GPUs for the largest job of each tenant"):
        divided(workload_of(*jobs), 8, EQUALLY)
