"""Single decisions beside a busy cluster: same seed, same bytes, and within what is documented."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.instances.family import generate
from lyra_opt.instances.network.epoch import EPOCH, busy_machines, epoch_instance
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.network.links import LINK_SETS
from lyra_opt.simulation.communication import ClosedForm
from lyra_opt.simulation.topology import Rack, Topology

TOPOLOGY = Topology.uniform(racks=4, machines_per_rack=4)


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
