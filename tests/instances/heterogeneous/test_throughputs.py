"""Tables of throughput, and the gangs made of them."""

from dataclasses import replace

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.instances.heterogeneous.clusters import types_of
from lyra_opt.instances.heterogeneous.throughput_files import gavel_throughputs
from lyra_opt.instances.heterogeneous.throughputs import JobType, ThroughputTable
from lyra_opt.simulation.cluster import GpuType

GAVEL = gavel_throughputs()
MEASURED = types_of(GAVEL.gpu_types)

SMALL = ThroughputTable(
    name="small",
    reference="slow",
    reference_speed=0.5,
    gpu_types=("slow", "fast"),
    job_types=tuple(
        JobType(model="Net", batch_size=batch, gang=2, throughput=rates, spread_throughput=spread)
        for batch, rates, spread in (
            (8, {"slow": 1.0, "fast": 6.0}, {"slow": 0.8}),
            (16, {"slow": 2.0}, None),
        )
    ),
    source="of a test",
)


class TestGavel:
    """The data as published."""

    def test_how_many(self):
        """83 kinds: 26 of one GPU, and 19 each of 2, 4 and 8."""
        assert len(GAVEL.job_types) == 83
        assert GAVEL.gpu_types == ("v100", "p100", "k80")
        assert GAVEL.measured_gangs == (1, 2, 4, 8)
        assert [len(GAVEL.types_for(gang, MEASURED)) for gang in (1, 2, 4, 8)] == [26, 19, 19, 19]

    def test_unknown(self):
        """One error that says what was not measured."""
        with pytest.raises(FieldError, match="GPT-3"):
            GAVEL.find_type("GPT-3", None, 1)
        with pytest.raises(FieldError, match="gpu_types"):
            GAVEL.types_for(1, [])


class TestNames:
    """What jobs say of their models is understood, and not guessed."""

    @pytest.mark.parametrize(
        "name", ["ResNet-18-128", "resnet-18-128", " ResNet-18 (batch size 128) ", "RESNET-18-128"]
    )
    def test_model_with_batch_size(self, name):
        """In letters of any case, and as Gavel's traces write it; on as many GPUs."""
        (found,) = GAVEL.types_named(name, 4)
        assert found == GAVEL.find_type("ResNet-18", 128, 4)

    def test_model_without_batch_size(self):
        """All its batch sizes, where it has several; each once."""
        found = GAVEL.types_named("resnet-18", 8)
        assert [job_type.name for job_type in found] == [
            f"ResNet-18-{batch}" for batch in (16, 32, 64, 128, 256)
        ]
        assert {job_type.gang for job_type in found} == {8}
        assert [job_type.name for job_type in GAVEL.types_named("a3c", 1)] == ["A3C"]

    def test_next_smaller_number_of_gpus_of_the_kind(self):
        """Three GPUs are as two, and a kind that was measured on one alone as that one."""
        assert [found.gang for found in GAVEL.types_named("LM-5", 3)] == [2]
        assert [found.gang for found in GAVEL.types_named("A3C", 8)] == [1]

    @pytest.mark.parametrize("name", ["ResNet-1", "ResNet-18-129", "ResNet-18-", "GPT-3", "18"])
    def test_others_are_not_known(self, name):
        """A name that is nearly one is none."""
        assert GAVEL.types_named(name, 1) == ()

    def test_too_few_gpus(self):
        """What was measured on two GPUs says nothing of one."""
        assert SMALL.types_named("net-8", 1) == ()
        with pytest.raises(FieldError, match="gang is 1: must be at least 2"):
            SMALL.types_for(1, [GpuType(name="slow")])


def gang_of(kind, gang, gpu_types, reference_s, release_s, **more):
    """Return a gang of a kind of Gavel's."""
    times = {"reference_s": reference_s, "release_s": release_s, **more}
    return GAVEL.gang_of("x", GAVEL.find_type(*kind), gang=gang, gpu_types=gpu_types, **times)


class TestGangs:
    """Jobs with rates."""

    def test_steps_are_what_the_reference_does(self):
        """An hour on V100 is an hour, and slower on others."""
        job = gang_of(("LM", 20, 4), 4, types_of(["v100", "k80"]), 3600, 7)
        assert job.steps == 3600 * 111
        assert dict(job.throughput) == {"v100": 111, "k80": 35.7}
        assert dict(job.spread_throughput) == {"v100": 33.4, "k80": 30}
        assert job.release_s == 7

    def test_own_steps(self):
        """They win over the running time."""
        job = gang_of(("LM", 20, 4), 4, MEASURED, 3600, 0, steps=12.5)
        assert job.steps == 12.5

    def test_gangs_between_those_measured(self):
        """They are as fast as the next smaller one, for each GPU."""
        job = gang_of(("LM", 20, 6), 6, types_of(["v100"]), 10, 0)
        assert job.rate(("v100",), is_spread=False) == pytest.approx(111 * 6 / 4)
        assert job.steps / job.throughput["v100"] == pytest.approx(10)

    def test_types_that_were_not_measured(self):
        """They follow the reference, slower or faster than it, and results say so."""
        types = types_of(["k80", "t4", "h100"])
        job = gang_of(("LM", 20, 1), 1, types, 10, 0)
        assert job.throughput == {
            "k80": 17.1,
            "t4": pytest.approx(64.7 / 3),
            "h100": pytest.approx(64.7 * 3350 / 900),
        }
        (sentence,) = GAVEL.remarks(types)
        assert "t4 0.33 (three do what" in sentence
        assert "h100 3.72 (memory bandwidth" in sentence
        assert "k80" not in sentence.split("(")[0]
        assert GAVEL.remarks(MEASURED) == ()

    def test_types_by_any_case_and_on_loan(self):
        """What the cluster calls V100, or has twice, is what was measured all the same."""
        kind = GAVEL.find_type("LM", 20, 1)
        types = [GpuType(name="V100"), GpuType(name="k80 (lent)", relative_speed=0.9)]
        job = GAVEL.gang_of("x", kind, gang=1, reference_s=1, release_s=0, gpu_types=types)
        assert job.throughput == {"V100": 64.7, "k80 (lent)": 17.1}
        assert GAVEL.remarks(types) == ()

    def test_another_reference(self):
        """Speeds of types are taken beside that of the table's reference."""
        kind, _ = SMALL.job_types
        types = [GpuType(name="other", relative_speed=2.0), GpuType(name="fast")]
        job = SMALL.gang_of("x", kind, gang=4, reference_s=10, release_s=0, gpu_types=types)
        assert job.steps == 20
        assert job.throughput == {"other": 8.0, "fast": 12.0}
        assert job.spread_throughput == {"other": 0.8 * 4 * 2}
        nameless = replace(SMALL, reference_speed=None)
        with pytest.raises(FieldError, match="gpu_types is .other.: must be a column of table sma"):
            nameless.gang_of("x", kind, gang=4, reference_s=10, release_s=0, gpu_types=types)

    def test_where_it_makes_no_difference(self):
        """A table that does not tell servers apart makes gangs that do not."""
        kind = SMALL.job_types[1]
        types = [GpuType(name="slow"), GpuType(name="fast")]
        job = SMALL.gang_of("x", kind, gang=2, reference_s=10, release_s=0, gpu_types=types)
        assert job.spread_throughput is None
        assert job.throughput == {"slow": 2.0}

    def test_a_job_that_runs_nowhere_is_one_all_the_same(self):
        """Whoever places it finds that nothing can run it."""
        kind, fast = SMALL.job_types[1], [GpuType(name="fast")]
        assert not SMALL.runs_on(kind, fast)
        job = SMALL.gang_of("x", kind, gang=2, reference_s=10, release_s=0, gpu_types=fast)
        assert job.throughput == {"fast": 0.0, "slow": 2.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": "other"}, "reference is .other.: must be one of the table's types: slow"),
        ({"reference_speed": 0.0}, "reference_speed is 0"),
        ({"job_types": ()}, "job_types"),
        ({"job_types": SMALL.job_types[:1] * 2}, r"job_types\[1\] is .Net-8.: must not occur"),
        ({"reference": "fast"}, r"job_types\[1\] is .Net-16.: must have a rate above 0 on fast"),
    ],
)
def test_bad_tables(changes, message):
    """The field, its value and the rule are named."""
    with pytest.raises(FieldError, match=message):
        replace(SMALL, **changes)
