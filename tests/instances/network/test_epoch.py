"""Single decisions beside a busy cluster: same seed, same bytes, and within what is documented."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.instances.family import generate
from lyra_opt.instances.network.epoch import (
    EPOCH,
    LEAST_TIMERS_S,
    LONGEST_WAIT_S,
    busy_machines,
    epoch_instance,
)
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.network.instance import Objective
from lyra_opt.network.links import LINK_SETS
from lyra_opt.network.problem import PROBLEM
from lyra_opt.simulation.communication import SCATTERED_MODELS, ClosedForm
from lyra_opt.simulation.topology import Rack, Topology

TOPOLOGY = Topology.uniform(racks=4, machines_per_rack=4)

GOLDEN = "03e7ad23372e"


def test_golden():
    """A seed gives the same instance on any machine; a change of it is a new version."""
    document = PROBLEM.instance_document(generate("network", "epoch", jobs=20, seed=0))
    assert hashlib.sha256(json.dumps(document).encode()).hexdigest()[:12] == GOLDEN


@pytest.mark.parametrize("seed", range(20))
def test_jobs_are_as_documented(seed):
    """New gangs have no score and have had nothing; the others are between worst and best."""
    instance = epoch_instance(TOPOLOGY, jobs=30, seed=seed)
    for job in instance.jobs:
        model = job.id.partition("-")[2]
        assert dict(job.efficiency) == {
            tier: share
            for tier, share in zip(
                ("machine", "rack", "network"),
                ClosedForm().tier_efficiency(model, job.gang, TOPOLOGY),
                strict=True,
            )
            if share
        }
        if job.attained_gpu_s:
            worst, best = min(job.efficiency.values()), max(job.efficiency.values())
            assert worst <= job.score <= best
        else:
            assert job.score == 0
        assert 0 <= job.waiting_s <= LONGEST_WAIT_S
        assert (job.rack_timer_s, job.network_timer_s) == LEAST_TIMERS_S
        assert job.needs_consolidation == (model not in SCATTERED_MODELS)
    new = sum(not job.attained_gpu_s for job in instance.jobs)
    assert 5 <= new <= 25


def test_objective_timers_and_links_change_nothing_else():
    """The same gangs and machines, whatever is asked of them; links change what they do."""
    first = epoch_instance(TOPOLOGY, jobs=9, seed=1)
    other = epoch_instance(TOPOLOGY, jobs=9, seed=1, objective=Objective.WORK_RATE, timers_s=None)
    assert other == replace(
        first,
        name=other.name,
        objective=Objective.WORK_RATE,
        jobs=tuple(replace(job, rack_timer_s=0.0, network_timer_s=0.0) for job in first.jobs),
    )
    slow = epoch_instance(
        TOPOLOGY, jobs=9, seed=1, communication=ClosedForm(links=LINK_SETS["congested-3"])
    )
    assert slow.machines == first.machines
    for job, slower in zip(first.jobs, slow.jobs, strict=True):
        assert (job.id, job.gang, job.waiting_s) == (slower.id, slower.gang, slower.waiting_s)
        assert all(slower.efficiency[tier] <= job.efficiency[tier] for tier in job.efficiency)


@given(
    racks=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 8)), min_size=1, max_size=4),
    percent=st.integers(0, 100),
    seed=st.integers(0, 100),
)
def test_busy_machines(racks, percent, seed):
    """Never busier than asked for; a machine is kept for a size if and only if it is in use."""
    topology = Topology(
        name="t", racks=tuple(Rack(machines=m, gpus_per_machine=g) for m, g in racks)
    )
    machines = busy_machines(topology, busy_percent=percent, stream=IntegerStream(seed=seed))
    free = [machine.free_gpus for machine in machines]
    sizes = topology.gpus_of_machine.tolist()
    assert all(0 <= count <= size for count, size in zip(free, sizes, strict=True))
    assert 100 * (sum(sizes) - sum(free)) <= percent * sum(sizes)
    for machine, size in zip(machines, sizes, strict=True):
        assert (machine.affinity is None) == (machine.free_gpus == size)


def test_clusters_are_in_pieces():
    """Gangs of a single GPU, which are the most, leave machines partly free."""
    partly = [
        sum(0 < machine.free_gpus < machine.gpus for machine in instance.machines)
        for instance in (epoch_instance(TOPOLOGY, jobs=1, seed=seed) for seed in range(20))
    ]
    assert sum(partly) > 20


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"jobs": 0}, "jobs"), ({"seed": -1}, "seed"), ({"busy_percent": 101}, "busy_percent")],
)
def test_bad_input(changes, field):
    """The field and its rule are named."""
    with pytest.raises(FieldError, match=field):
        epoch_instance(TOPOLOGY, **{"jobs": 3, "seed": 0} | changes)


def test_family_makes_what_is_documented():
    """Its names tell the parameters, and its gangs are those of `epoch_instance`."""
    instance = generate("network", "epoch", jobs=8, seed=4)
    assert instance.name == "epoch-v1-n8-4x4x8-busy60-congested-2-seed4"
    links = ClosedForm(links=LINK_SETS["congested-2"])
    assert instance == epoch_instance(
        TOPOLOGY, jobs=8, seed=4, communication=links, name=instance.name
    )
    other = EPOCH.generate(
        {"jobs": 2, "racks": 1, "objective": "fewest_tiers", "timers": "none", "busy_percent": 0}, 0
    )
    assert other.name == "epoch-v1-n2-1x4x8-busy0-congested-2-fewest_tiers-no-timers-seed0"
    assert other.free_gpus == 32
    assert {job.rack_timer_s for job in other.jobs} == {0.0}


def test_largest_instance():
    """A cluster of the largest size is made in a moment, gangs that do not fit left out."""
    instance = EPOCH.generate({"jobs": 500, "racks": 64, "machines_per_rack": 8}, 0)
    assert (len(instance.machines), len(instance.jobs)) == (512, 500)
    single = EPOCH.generate(
        {"jobs": 50, "racks": 1, "machines_per_rack": 1, "gpus_per_machine": 1}, 0
    )
    assert {job.gang for job in single.jobs} == {1}
    assert all(set(job.efficiency) == {"machine"} for job in single.jobs)
