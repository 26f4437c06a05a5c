"""Small questions with a horizon: same seed, same bytes, and within what is documented."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.heterogeneous.instance import Objective
from lyra_opt.heterogeneous.utility import Deadline, InverseJct
from lyra_opt.instances.family import generate
from lyra_opt.instances.heterogeneous.clusters import cluster_of
from lyra_opt.instances.heterogeneous.offline import OFFLINE, offline_instance
from tests.tables import tables

TABLES = tables(__file__)


CLUSTER = cluster_of({"v100": 4, "p100": 4, "k80": 4})

GOLDEN = "0f30a0e734bd15b9ce6848bd139475cc0235bd5b5a376c96ea1f79a50f96be2b"


def test_golden():
    """A seed gives the same instance on any machine; a change of it is a new version."""
    drawn = repr(offline_instance(CLUSTER, jobs=20, rounds=10, seed=0).jobs)
    assert hashlib.sha256(drawn.encode()).hexdigest() == GOLDEN


@pytest.mark.parametrize("seed", range(20))
def test_jobs_are_as_documented(seed):
    """Gangs fit a type, times and releases are within their ranges, utilities are comparable."""
    instance = offline_instance(CLUSTER, jobs=8, rounds=10, seed=seed)
    for job in instance.jobs:
        v100_s = job.steps / job.throughput["v100"]
        assert job.gang in (1, 2, 4)
        assert v100_s * (1 + 1e-9) >= 0.5 * 360
        assert v100_s <= 5 * 360 * (1 + 1e-9)
        assert 0 <= job.release_s <= 5 * 360
        assert job.release_s % 360 == 0
        best = max(v100_s, 360.0)
        if isinstance(job.utility, InverseJct):
            assert job.utility.scale == pytest.approx(job.gang * v100_s)
        else:
            assert isinstance(job.utility, Deadline)
            assert job.utility.at(1e9) == pytest.approx(job.utility.at(best) / 5)
        assert 0 < job.utility.at(best) <= job.gang * (1 + 1e-9)
    assert {
        type(job.utility) for job in offline_instance(CLUSTER, jobs=30, rounds=10, seed=seed).jobs
    } == {InverseJct, Deadline}


def test_objective_and_forking_change_nothing_else():
    """The same jobs, whatever is asked of them."""
    first = offline_instance(CLUSTER, jobs=5, rounds=6, seed=1)
    other = offline_instance(
        CLUSTER, jobs=5, rounds=6, seed=1, objective=Objective.MAKESPAN, forking=True
    )
    assert other == replace(first, name=other.name, objective=Objective.MAKESPAN, forking=True)


def test_shares_are_promised_at_rates_that_gangs_can_have():
    """On servers of 4 a gang of 8 has one rate, that on two of them; others have all of theirs."""
    parameters = {"jobs": 60, "gpus_of_type": 8, "gpus_of_server": 4}
    in_rounds = OFFLINE.generate(parameters, 0)
    shares = OFFLINE.generate({**parameters, "objective": "max_min_share"}, 0)
    assert {job.gang for job in shares.jobs} == {1, 2, 4, 8}
    for job, same in zip(shares.jobs, in_rounds.jobs, strict=True):
        if job.gang == 8:
            assert job.throughput == same.spread_throughput != same.throughput
        else:
            assert job == same


def test_larger_gangs_are_drawn_again():
    """And only where that is asked for."""
    instance = OFFLINE.generate({"jobs": 40, "gpus_of_type": 8, "largest_gang": 2}, 0)
    assert instance.name.endswith("-gangs2-seed0")
    assert {job.gang for job in instance.jobs} == {1, 2}


def test_no_releases():
    """All jobs are there at once where that is asked for."""
    instance = offline_instance(CLUSTER, jobs=9, rounds=6, seed=3, latest_release_percent=0)
    assert {job.release_s for job in instance.jobs} == {0.0}


@pytest.mark.parametrize(("changes", "field"), TABLES["bad_input"])
def test_bad_input(changes, field):
    """The field and its rule are named."""
    with pytest.raises(FieldError, match=field):
        offline_instance(CLUSTER, **{"jobs": 3, "rounds": 5, "seed": 0} | changes)  # type: ignore[arg-type]


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


def test_drawn_packing_changes_nothing_else():
    """The same jobs, with kinds and rates of 30 to 100 % beside one another."""
    instance, plain = (OFFLINE.generate({**PACKED, "packing": each}, 0) for each in ("drawn", "no"))
    assert "-max_min_share-packed-drawn-" in instance.name
    assert tuple(replace(job, kind=None) for job in instance.jobs) == plain.jobs
    rate_of = {job.kind: job.throughput for job in instance.jobs}
    gangs = {job.kind: job.gang for job in instance.jobs}
    pairs = [(a, b) for a in gangs for b in gangs if gangs[a] == gangs[b]]
    assert sorted((entry.kind, entry.beside) for entry in instance.packed) == sorted(pairs)
    for entry in instance.packed:
        for name, rate in entry.throughput.items():
            alone = rate_of[entry.kind][name]
            assert 0.3 * alone <= rate <= alone


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
