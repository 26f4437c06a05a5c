"""Two machines for all tests of a module, or for one that damages them."""

import pytest

from lyra_opt.experiments.bench.cluster import LONGEST_START_S, Cluster
from lyra_opt.experiments.machines import engine


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Wait for schedulers as long as it takes: no test may fail because the machine is busy."""
    monkeypatch.setattr(engine, "FIRST_ANSWER_S", LONGEST_START_S)


def two_machines(tmp_path_factory):
    """Return two machines, which end with the test or the session."""
    cluster = Cluster(tmp_path_factory.mktemp("machines"))
    try:
        cluster.start(workers=2)
        yield cluster
    finally:
        cluster.stop()


# Most tests leave their machines as they are; others may kill them.
machines = pytest.fixture(two_machines, scope="session", name="machines")
frail_machines = pytest.fixture(two_machines, name="frail_machines")
