"""Small questions with a horizon: same seed, same bytes, and within what is documented."""

import pytest

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.instances.family import generate
from lyra_opt.instances.heterogeneous.clusters import cluster_of
from lyra_opt.instances.heterogeneous.offline import OFFLINE, offline_instance
from tests.tables import tables

TABLES = tables(__file__)


CLUSTER = cluster_of({"v100": 4, "p100": 4, "k80": 4})


@pytest.mark.parametrize(("changes", "field"), TABLES["bad_input"])
def test_bad_input(changes, field):
    """The field and its rule are named."""
    with pytest.raises(FieldError, match=field):
        offline_instance(CLUSTER, **{"jobs": 3, "rounds": 5, "seed": 0} | changes)


def test_family_makes_what_is_documented():
    """Its names tell the parameters, and its jobs are those of `offline_instance`."""
    instance = generate(problem="heterogeneous", family="offline", jobs=8, seed=4)
    assert instance.name == "offline-v1-n8-rounds10-gpus4of4-release50-seed4"
    assert instance.jobs == offline_instance(CLUSTER, jobs=8, rounds=10, seed=4).jobs
    forked = OFFLINE.generate(
        {"jobs": 2, "forking": "yes", "objective": "makespan", "gpus_of_server": 1}, 0
    )
    assert forked.name == "offline-v1-n2-rounds10-gpus4of1-release50-makespan-forking-seed0"
    assert forked.forking
    assert len(forked.servers) == 12


def test_family_takes_types_and_tables_of_ones_own(tmp_path):
    """They are in its name, and jobs have their rates."""
    table, types = tmp_path / "mine.csv", tmp_path / "own types.toml"
    table.write_text("model,batch_size,gpus,h100,chip\nGPT,4,1,10,30\n")
    types.write_text("[slow]\nrelative_speed = 1\n")
    parameters = {"jobs": 3, "gpu_types": "chip,slow", "throughputs": table}
    instance = OFFLINE.generate(parameters | {"type_definitions": types}, 0)
    assert instance.name == (
        "offline-v1-n3-rounds10-gpus4of4-release50-chip-slow-mine-own-types-seed0"
    )
    for job in instance.jobs:
        assert dict(job.throughput) == {
            "chip": 30 * job.gang,
            "slow": pytest.approx(10 * job.gang * 900 / 3350),
        }
    with pytest.raises(FieldError, match='gpus is "slow": unknown GPU type; known: v100.*, chip'):
        OFFLINE.generate(parameters, 0)
    with pytest.raises(UserError, match="none.csv"):
        OFFLINE.generate({"jobs": 3, "throughputs": str(tmp_path / "none.csv")}, 0)


def test_horizon_that_is_too_short_is_remarked():
    """For utility there is always a solution, for makespan not."""
    assert OFFLINE.remarks({"jobs": 2}) == ()
    assert "no solution" in OFFLINE.remarks({"jobs": 2, "objective": "makespan"})[0]


PACKED = {"jobs": 12, "objective": "max_min_share", "packing": "drawn"}


def test_packing_is_measured_or_refused(tmp_path):
    """A table of pairs has their rates; schedules have no packing."""
    with pytest.raises(UserError, match="must be no for the objective makespan"):
        OFFLINE.generate(PACKED | {"objective": "makespan"}, 0)
    with pytest.raises(FieldError, match="table gavel has no rates of pairs"):
        OFFLINE.generate(PACKED | {"packing": "measured"}, 0)
    table = tmp_path / "mine.csv"
    table.write_text(
        "model,batch_size,gpus,beside_model,beside_batch_size,v100\nA,,1,,,4\nA,,1,A,,3\n"
    )
    own = {"throughputs": table, "gpu_types": "v100", "largest_gang": 1, "packing": "measured"}
    measured = OFFLINE.generate(PACKED | own, 0)
    assert [dict(entry.throughput) for entry in measured.packed] == [{"v100": 3.0}]
