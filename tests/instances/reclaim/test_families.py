"""The synthetic reclaim families with a known optimum; `tests.instances.test_family` pins bytes."""

import pytest

from lyra_opt.instances.family import find_family, generate
from lyra_opt.instances.family_parameters import LARGEST_FLEET
from lyra_opt.instances.reclaim.solved import LARGEST_RECLAIM
from lyra_opt.reclaim import check
from tests.tables import tables

TABLES = tables(__file__)


@pytest.mark.parametrize(("family", "reclaim", "servers", "optimal"), TABLES["known_optimum"])
def test_known_optimum_is_reached(family, reclaim, servers, optimal):
    instance = generate("reclaim", family, reclaim=reclaim)
    solution, objective = find_family("reclaim", family).known_optimum({"reclaim": reclaim})
    report = check(instance, solution)
    assert (report.violations, report.objective, objective) == ((), optimal, optimal)
    assert len(instance.servers) == servers
    hosts = {group.server for job in instance.jobs for group in job.workers}
    assert len(hosts) == servers  # so that nothing is free of charge


def test_largest_decoy_is_the_largest_fleet():
    def servers(k):
        return 2 * k - (-64 * k**2 // 7)

    assert servers(LARGEST_RECLAIM) <= LARGEST_FLEET < servers(LARGEST_RECLAIM + 1)
