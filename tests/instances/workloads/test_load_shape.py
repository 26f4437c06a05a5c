"""Jobs that are spread evenly: every share is kept, and a seed only shifts them."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.core.numbers import DAY_MS, HOUR_MS
from lyra_opt.instances.workloads.load_shape import LoadShape, ShapedClass, shaped_jobs
from lyra_opt.instances.workloads.lyra_like import lyra_like, lyra_shaped
from lyra_opt.instances.workloads.named import LYRA_LIKE
from lyra_opt.simulation.cluster import Cluster
from tests.draws import draws
from tests.tables import tables

SHAPE = LoadShape(stand_ins_per_100000=200)


def drawn(shape=SHAPE, **changed):
    """Return jobs of two classes, short ones even and long ones in working hours."""
    classes = [
        ShapedClass(3, ((0, 60), (500, 100), (1000, 300)), (1, 1)),
        ShapedClass(1, ((0, 1000), (1000, 2000)), (1, 3), True, shape.light_percent),
    ]
    asked = {"jobs": 8016, "days": 14, "training_gpus": 100, "seed": 0, **changed}
    return shaped_jobs(classes, (1, 4), shape, **asked)


def test_hours_get_their_weights():
    """Long jobs come as the hour of the day and the day of the week say; the others evenly."""
    shape = replace(SHAPE, light_percent=20, weekend_percent=50, first_weekday=5)
    found = drawn(shape)
    hour = found.submit_ms[found.mark] // HOUR_MS
    is_weekend = hour // 24 % 7 < 2  # the first day is the sixth of the week
    works = (hour % 24 >= 9) & (hour % 24 < 19)
    whole = (5 * 1.0 + 2 * 0.5) * (10 + 14 * 0.2)
    for weekend, working, weight in (
        (False, True, 5 * 10),
        (False, False, 5 * 14 * 0.2),
        (True, True, 10),
        (True, False, 14 * 0.2),
    ):
        share = np.mean((is_weekend == weekend) & (works == working))
        assert share == pytest.approx(weight / whole, abs=0.005)
    of_days = np.bincount(found.submit_ms[~found.mark] // DAY_MS)
    assert len(of_days) == 14
    weekday = np.where(np.arange(14) % 7 < 2, 0.5, 1.0)
    assert of_days / of_days.sum() == pytest.approx(weekday / weekday.sum(), abs=0.003)


def test_jobs_of_a_size_come_evenly():
    """The few widest do not come together: any tenth of them is spread over the whole time."""
    found = drawn(replace(SHAPE, light_percent=100, weekend_percent=100))
    widest = np.sort(found.submit_ms[(found.gpus == 4) & found.mark])
    assert np.diff(widest).max() < 5 * 14 * DAY_MS / len(widest)


@given(st.integers(1, 30), st.integers(0, 2**40), st.integers(1, 300), st.integers(1, 400))
@draws(25)
def test_any_size_is_valid(days, seed, training_gpus, jobs):
    """As without a shape; and arrays are the workload."""
    asked = {"days": days, "seed": seed, "training_gpus": training_gpus, "jobs": jobs}
    workload = lyra_like(shape=SHAPE, **asked)
    arrays = lyra_shaped(SHAPE, **asked)
    assert len(workload.jobs) == jobs
    for job, submit_ms, duration_ms, gpus in zip(workload.jobs, *arrays[:3], strict=True):
        assert (job.submit_s, job.min_workers) == (submit_ms / 1000, gpus)
        assert job.duration_s == pytest.approx(duration_ms / 1000, rel=1e-12)
        assert 0 <= job.submit_s < days * 86_400
        assert job.min_gpus <= training_gpus


def test_same_seed_same_bytes():
    """On any machine: draws and calculations are in integers; two of the days are a weekend."""
    shape = replace(SHAPE, light_percent=20, weekend_percent=50, first_weekday=5)
    found = lyra_shaped(replace(shape, wide_per_mille=100), days=9, training_gpus=256)
    told = repr([column.tolist() for column in found])
    assert hashlib.sha256(told.encode()).hexdigest()[:16] == "1313c015a91a18bb"


def test_long_jobs_run_as_long_as_their_bands_say():
    """With the published share of each band."""
    shape = LoadShape(half_a_day_s=20_000, a_day_s=50_000, days_s=200_000)
    run_s = lyra_shaped(shape, days=15, training_gpus=256).duration_ms / 1000
    for least_s, width_s, share in ((20_000, 1500, 0.2184), (50_000, 4000, 0.0416)):
        within = (least_s <= run_s) & (run_s <= least_s + width_s)
        assert np.mean(within) == pytest.approx(share, abs=0.001)
    assert run_s.max() == pytest.approx(224_000, rel=0.01)


def test_gangs_are_the_jobs():
    """What a calibration tries is what a replay gets, with a shape and without."""
    cluster = Cluster.of_servers(20)
    for parameters in ({"days": 1}, {"days": 1, "shape": {"wide_per_mille": 100}}):
        gangs = LYRA_LIKE.gangs(cluster, 3, **parameters)
        jobs = LYRA_LIKE.make(cluster, 3, **parameters).jobs
        assert gangs.release_s.tolist() == [job.submit_s for job in jobs]
        assert gangs.run_s == pytest.approx([job.duration_s for job in jobs], rel=1e-12)
        assert gangs.gpus.tolist() == [job.min_gpus for job in jobs]


def test_stand_ins_are_said():
    """Whoever looks at the assumptions sees that some jobs are no part of what is known."""
    sentence = "Assumed for an unknown cause: 200 of 100,000 jobs"
    assert any(each.startswith(sentence) for each in lyra_like(days=1, shape=SHAPE).assumptions)
    plain = lyra_like(days=1, training_gpus=80, shape=LoadShape())
    assert not any("unknown cause" in each for each in plain.assumptions)


@pytest.mark.parametrize(("fields", "named"), tables(__file__)["bad_shapes"])
def test_bad_shapes_are_refused(fields, named):
    """With the field that is wrong; also where a scenario has it."""
    with pytest.raises(FieldError, match=named):
        LoadShape(**fields)
    with pytest.raises(UserError, match=f"shape.{named}"):
        LYRA_LIKE.make(Cluster.of_servers(1), 0, shape=fields)
    with pytest.raises(UserError, match="shape.hours"):
        LYRA_LIKE.make(Cluster.of_servers(1), 0, shape={"hours": 3})
