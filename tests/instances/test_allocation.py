"""The allocation families: pinned bytes, and the structure that each promises."""

import math

import pytest

import lyra_opt as lo
from lyra_opt.allocation import Objective
from lyra_opt.core.documents import format_document
from lyra_opt.core.problem import find_problem
from lyra_opt.instances.family import family_names, find_family, generate

FAMILIES = ["light", "load", "worst-case"]


def content(instance):
    return format_document(find_problem("allocation").instance_document(instance))


def test_every_family_is_covered_here():
    assert set(FAMILIES) == set(family_names("allocation"))


@pytest.mark.parametrize("jobs", [1, 2, 3, 8, 50])
@pytest.mark.parametrize("share", [2, None, 5])
def test_light_lies_between_base_and_largest_demands(jobs, share):
    for seed in range(5):
        gpus = None if share is None else share * jobs
        instance = generate("allocation", "light", jobs=jobs, gpus=gpus, seed=seed)
        assert len(instance.jobs) == jobs
        assert instance.gpus == (16 * jobs // 5 if gpus is None else gpus)
        least = sum(job.min_gpus for job in instance.jobs)
        assert least <= instance.gpus <= sum(job.max_gpus for job in instance.jobs)
        assert all(job.running and job.scaling_loss == 0 for job in instance.jobs)
        reduction = generate(
            "allocation", "light", jobs=jobs, gpus=gpus, seed=seed, objective="jct_reduction"
        )
        assert reduction.jobs == instance.jobs
        assert reduction.gpus == instance.gpus - least


@pytest.mark.parametrize("load_percent", [25, 100, 400])
def test_load_is_what_was_asked_for(load_percent):
    reduction, *others = (
        generate("allocation", "load", jobs=60, load_percent=load_percent, objective=objective)
        for objective in ("jct_reduction", "mean_jct", "joint", "two_phase")
    )
    for instance in others:
        base = sum(job.min_gpus for job in instance.jobs)
        assert instance.gpus == math.ceil(100 * base / load_percent)
        assert reduction.jobs == instance.jobs
    extra = sum(job.max_gpus - job.min_gpus for job in reduction.jobs)
    assert reduction.gpus == math.ceil(100 * extra / load_percent)
    assert [each.objective for each in others] == ["mean_jct", "joint", "two_phase"]


@pytest.mark.parametrize("seed", range(20))
def test_load_of_few_jobs_leaves_room_for_the_widest(seed):
    instance = generate(
        "allocation", "load", jobs=2, load_percent=400, gpus_per_worker="mixed", seed=seed
    )
    assert instance.gpus >= max(job.min_gpus for job in instance.jobs)


@pytest.mark.parametrize(
    ("jobs", "extra", "ratio"), [(21, 10, 1.65), (61, 54, 1.83), (201, 180, 1.85)]
)
def test_worst_case_reaches_the_ratio_of_the_note(jobs, extra, ratio):
    """Ratios that this project measured with an earlier program, to the digits kept."""
    instance = generate("allocation", "worst-case", jobs=jobs, extra_workers=extra)
    long, *short = instance.jobs
    assert instance.gpus == jobs + extra
    # The knapsack takes the long job's last extra worker rather than the first of a short one.
    last = long.duration_s(extra) - long.duration_s(extra + 1)
    assert last > short[0].duration_s(1) - short[0].duration_s(2)
    # So the short jobs end together, and the long one runs at full width to the end.
    lyra, srw = (lo.solve(instance, name).objective for name in ("lyra", "srw"))
    assert lyra * jobs == pytest.approx((jobs - 1) * 100 + float(long.duration_s(extra + 1)))
    assert lyra / srw == pytest.approx(ratio, abs=0.005)


def test_worst_case_of_the_default_is_near_its_limit():
    instance = generate("allocation", "worst-case", jobs=201)
    assert instance.name == "worst-case-v1-n201-extra180"
    assert not find_family("allocation", "worst-case").is_seeded({"jobs": 9})


def test_objectives_that_can_be_asked_for_are_all_there_are():
    from lyra_opt.instances.family_parameters import AllocationParameters
    from lyra_opt.instances.parameters import parameters_of

    assert set(parameters_of(AllocationParameters)["objective"].choices) == set(map(str, Objective))
