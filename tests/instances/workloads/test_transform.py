"""Transformations: what they change, what they keep, and that they say so."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.core.numbers import DAY_S
from lyra_opt.instances.workloads import transform
from lyra_opt.instances.workloads.transform import (
    JobAssumptions,
    assigned,
    demand_in_words,
    limited,
    merged,
    on_whole_gpus,
    rescaled,
    sampled,
    window,
    without_oversized,
)
from lyra_opt.simulation.workload import Job, Workload
from tests.tables import tables

TABLES = tables(__file__)


percents = st.integers(0, 100)


def jobs_of(count):
    return [
        Job(id=f"j{n}", submit_s=n, work_worker_s=100, min_workers=1 + n % 3, max_workers=3)
        for n in range(count)
    ]


def chosen(jobs, property_):
    return {job.id for job in jobs if property_(job)}


SHARES = {
    "fungible_percent": lambda job: job.fungible,
    "elastic_percent": lambda job: job.is_elastic,
    "heterogeneous_percent": lambda job: job.heterogeneous,
    "checkpoint_percent": lambda job: job.checkpoints,
    "wrong_estimate_percent": lambda job: job.estimated_work_worker_s is not None,
}


@given(st.integers(1, 200), st.sampled_from(sorted(SHARES)), percents, percents, st.integers(0, 9))
def test_shares_are_exact_nested_and_independent(count, share, percent, other, seed):
    jobs, low, high = jobs_of(count), *sorted((percent, other))
    few = assigned(jobs, JobAssumptions(**{share: low}), seed=seed)
    many = assigned(jobs, JobAssumptions(**{share: high}), seed=seed)
    assert len(chosen(few, SHARES[share])) == (count * low + 50) // 100
    assert chosen(few, SHARES[share]) <= chosen(many, SHARES[share])
    for name, property_ in SHARES.items():
        if name != share:
            assert chosen(few, property_) == chosen(many, property_)


@given(st.integers(1, 60), percents, st.data())
def test_jobs_of_the_elastic_kind_come_first(count, percent, data):
    first = data.draw(st.lists(st.integers(0, count - 1), unique=True))
    assumptions = JobAssumptions(elastic_percent=percent)
    jobs = assigned(jobs_of(count), assumptions, seed=1, elastic_first=first)
    elastic = {position for position, job in enumerate(jobs) if job.is_elastic}
    assert elastic <= set(first) or set(first) <= elastic


def test_what_is_assigned():
    assumptions = JobAssumptions(
        elastic_percent=50, scaling_loss_percent=20, wrong_estimate_percent=40
    )
    before = jobs_of(1000)
    after = assigned(before, assumptions, seed=3)
    for old, new in zip(before, after, strict=True):
        assert (new.id, new.submit_s, new.work_worker_s) == (old.id, old.submit_s, 100)
        assert new.min_workers == old.min_workers  # the base demand is what was requested
        assert new.max_workers == new.min_workers * (2 if new.is_elastic else 1)
        assert new.scaling_loss == (0.2 if new.is_elastic else 0)
    estimates = [job.estimated_work_worker_s for job in after if job.estimated_work_worker_s]
    assert 75 <= min(estimates) < 80 < 120 < max(estimates) <= 125
    assert len(estimates) == 400


def test_estimates_are_off_by_as_much_as_is_said():
    """Never by all of the work, which would leave nothing to do."""
    before = jobs_of(1000)
    for percent in (0, 50, 99):
        assumptions = JobAssumptions(wrong_estimate_percent=100, estimate_error_percent=percent)
        estimates = [job.estimated_work_worker_s for job in assigned(before, assumptions, seed=3)]
        assert 100 - percent <= min(estimates) <= 101 - percent
        assert 99 + percent <= max(estimates) <= 100 + percent
        assert f"off by up to {percent} %" in assumptions.in_words


def test_an_estimate_does_not_depend_on_how_many_are_wrong():
    few, all_ = (
        assigned(jobs_of(50), JobAssumptions(wrong_estimate_percent=percent), seed=0)
        for percent in (20, 100)
    )
    for job, other in zip(few, all_, strict=True):
        assert job.estimated_work_worker_s in (None, other.estimated_work_worker_s)


@given(st.integers(1, 200), percents, percents, st.integers(0, 9))
def test_shares_of_priorities_are_exact_nested_and_independent(count, percent, other, seed):
    """The jobs of the highest priority are among those of a larger share of it."""
    jobs, (low, high) = jobs_of(count), sorted((percent, other))
    few = assigned(jobs, JobAssumptions(priority_percent=(100 - low, 0, low)), seed=seed)
    many = assigned(jobs, JobAssumptions(priority_percent=(0, 100 - high, high)), seed=seed)
    highest = [chosen(each, lambda job: job.priority == 3) for each in (few, many)]
    assert highest[0] <= highest[1]
    assert list(map(len, highest)) == [(count * share + 50) // 100 for share in (low, high)]
    assert {job.priority for job in few} <= {1, 3}
    assert {job.priority for job in many} <= {2, 3}
    # A trace may state priorities, which stay as they are without shares.
    none = assigned([replace(job, priority=-7) for job in jobs], JobAssumptions(), seed=seed)
    assert {job.priority for job in none} == {-7}
    assert [replace(job, priority=0) for job in few] == [replace(job, priority=0) for job in none]


def test_wide_workers_hold_the_same_gpus_and_work():
    """8 GPUs are one worker, 12 two, 7 one, and 11 have no divisor of at most 8 but 1."""
    jobs = [
        Job(id=f"j{gpus}", submit_s=0, work_worker_s=60 * gpus, min_workers=gpus, max_workers=gpus)
        for gpus in (1, 4, 7, 8, 11, 12, 16)
    ]
    wide = assigned(jobs, JobAssumptions(most_gpus_per_worker=8, elastic_percent=100), seed=1)
    assert [job.gpus_per_worker for job in wide] == [1, 4, 7, 8, 1, 6, 8]
    for before, after in zip(jobs, wide, strict=True):
        assert (after.min_gpus, after.duration_s) == (before.min_gpus, before.duration_s)
        assert after.max_workers == 2 * after.min_workers


def test_ideal():
    jobs = assigned(jobs_of(40), JobAssumptions(all_elastic=True), seed=0)
    assert all(job.is_elastic and job.heterogeneous for job in jobs)
    assert "100 % elastic" in JobAssumptions(all_elastic=True).in_words


def test_labels_tell_scenarios_apart():
    assert JobAssumptions().label == ""
    labels = {replace(JobAssumptions(), **{name: 77}).label for name in SHARES}
    labels |= {
        JobAssumptions(all_elastic=True).label,
        JobAssumptions(scaling_loss_percent=77).label,
        JobAssumptions(estimate_error_percent=77).label,
        JobAssumptions(most_gpus_per_worker=8).label,
        JobAssumptions(priority_percent=(40, 60)).label,
    }
    assert len(labels) == len(fields(JobAssumptions))
    assert JobAssumptions(all_elastic=True, fungible_percent=0).label == "-fungible0-ideal"


@pytest.mark.parametrize(("field", "value", "rule"), TABLES["bad_assumptions"])
def test_bad_assumptions(field, value, rule):
    with pytest.raises(FieldError, match=rule) as caught:
        JobAssumptions(**{field.partition("[")[0]: value})
    assert caught.value.field == field


def workload_of(*rows, name="made-up"):
    """Return a workload of (submission, running time, GPUs)."""
    jobs = tuple(
        Job(id=f"j{n}", submit_s=s, work_worker_s=d * gpus, min_workers=gpus, max_workers=gpus)
        for n, (s, d, gpus) in enumerate(rows)
    )
    return Workload(name=name, jobs=jobs, assumptions=("Made up.",))


@st.composite
def workloads(draw, **options):
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 10 * DAY_S), st.integers(1, 9 * DAY_S), st.integers(1, 64)),
            min_size=1,
            max_size=30,
        )
    )
    return workload_of(*sorted(rows), **options)


@given(workloads(), st.floats(0.01, 20), st.integers(1, 4000))
def test_rescaled_reaches_the_load(workload, load, gpus):
    if workload.submission_span_s == 0:
        with pytest.raises(FieldError, match="all jobs are submitted at one moment"):
            rescaled(workload, load=load, gpus=gpus)
        return
    result = rescaled(workload, load=load, gpus=gpus)
    assert result.load(gpus) == pytest.approx(load, rel=1e-6)
    assert result.gpu_work_s == workload.gpu_work_s
    assert result.jobs[0].submit_s == workload.jobs[0].submit_s
    assert [job.id for job in result.jobs] == [job.id for job in workload.jobs]


def test_rescaled_by_hand():
    # 8 GPUs for 10 s and 4 for 30 s are 200 GPU-seconds; 10 GPUs have that in 20 s.
    workload = workload_of((5, 10, 8), (30, 15, 4), (105, 15, 4))
    result = rescaled(workload, load=0.5, gpus=10)
    assert [job.submit_s for job in result.jobs] == [5, 15, 45]
    assert result.assumptions == (
        "Made up.",
        "Times between submissions are multiplied by 0.4: the load on 10 GPUs is "
        "50 % instead of 20 %.",
    )


def test_merged_by_hand():
    first, second = workload_of((3, 1, 1), (9, 1, 1)), workload_of((3, 2, 1), name="second")
    result = merged([first, second])
    assert [job.id for job in result.jobs] == ["1-j0", "2-j0", "1-j1"]
    assert result.name == "made-up+second"
    assert result.assumptions == ("Made up.", "Merged from 2 workloads: made-up, second.")
    assert merged([first], name="own").name == "own"
    assert [job.id for job in merged([first]).jobs] == ["j0", "j1"]
    with pytest.raises(FieldError, match="must not be empty"):
        merged([])


@pytest.mark.parametrize(("asked", "submitted", "sentence"), TABLES["windows"])
def test_window(asked, submitted, sentence):
    """Whole days are cut out; times are counted from the first of them."""
    workload = workload_of(*((DAY_S * day, 1, 1) for day in (0.5, 1.4, 1.5, 3.5)))
    found = window(workload, **{"days": None, **asked})
    assert [job.submit_s / DAY_S for job in found.jobs] == submitted
    assert found.assumptions[-1] == sentence


def test_limited():
    workload = workload_of(*((n, 1, 1) for n in range(5)))
    assert [job.id for job in limited(workload, 2).jobs] == ["j0", "j1"]
    assert limited(workload, 2).assumptions[-1] == "Only the first 2 jobs of 5."


def test_sampled():
    workload = workload_of(*((n, 1, 1) for n in range(5)))
    assert [job.id for job in sampled(workload, 2).jobs] == ["j0", "j2"]
    assert sampled(workload, 2).assumptions[-1] == "Only one in 2 jobs."
    assert sampled(workload, 4).assumptions[-1] == "Only the first 4 jobs of 5."


@pytest.mark.parametrize("cut", [limited, sampled, lambda *given: without_oversized(*given)[0]])
def test_nothing_is_cut(cut):
    """A workload that stays as it is gets no sentence."""
    workload = workload_of(*((n, 1, 1) for n in range(5)))
    assert cut(workload, 5) == workload


@given(workloads(), st.integers(1, 64))
def test_without_oversized(workload, gpus):
    widest = min(job.min_gpus for job in workload.jobs)
    if gpus < widest:
        with pytest.raises(FieldError, match="must be enough for at least one job"):
            without_oversized(workload, gpus)
        return
    result, dropped = without_oversized(workload, gpus)
    assert dropped == len(workload.jobs) - len(result.jobs)
    assert max(job.min_gpus for job in result.jobs) <= gpus
    assert set(result.jobs) == {job for job in workload.jobs if job.min_gpus <= gpus}
    assert (f"larger than {gpus} GPUs left out." in result.assumptions[-1]) is (dropped > 0)


def test_on_whole_gpus():
    """Whole jobs stay as they are, and a workload without slices is not changed."""
    whole, half = (Job(id=name, submit_s=0, work_worker_s=9) for name in ("whole", "half"))
    sliced = Workload(name="w", jobs=(whole, replace(half, gpu_thousandths=500)))
    found = on_whole_gpus(sliced)
    assert found.jobs == (whole, half)
    assert found.assumptions[-1] == "Jobs that ask for part of a GPU get a whole GPU (1 job)."
    assert on_whole_gpus(found) is found


def test_demand_in_words():
    workload = workload_of((0, DAY_S, 8), (2 * DAY_S, DAY_S, 8))
    assert demand_in_words(workload, 16) == "2 jobs over 2.0 days ask for 50.0 % of 16 GPUs"
    alone = workload_of((0, 7200, 8))
    assert demand_in_words(alone, 16) == "1 job at one moment asks for 16.0 GPU hours of 16 GPUs"


@pytest.mark.parametrize(
    ("function", "given", "field"),
    [
        *TABLES["bad_values"],
        ("with_assumptions", {"assumptions": JobAssumptions(), "seed": -1}, "seed"),
    ],
)
def test_bad_values(function, given, field):
    with pytest.raises(FieldError) as caught:
        getattr(transform, function)(workload_of((0, 1, 1), (1, 1, 1)), **given)
    assert caught.value.field == field
