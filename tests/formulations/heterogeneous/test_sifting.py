"""Sifting: it finds the optimum of the whole programme, or says that it did not."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import lyra_opt as lo
from lyra_opt.heterogeneous.exact.shares import highs_model, sifting
from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays
from lyra_opt.heterogeneous.exact.shares.highs_model import LpHighs, LpSifting
from lyra_opt.heterogeneous.exact.shares.programme import JobSets, ShareProgramme
from lyra_opt.heterogeneous.exact.shares.sifting import (
    is_for_sifting,
    is_sum_for_sifting,
    limited,
    sifted,
    sifted_sum,
)
from lyra_opt.heterogeneous.exact.shares.vertices import JobVertices
from lyra_opt.heterogeneous.instance import Objective
from tests.draws import draws
from tests.formulations.heterogeneous.share_instances import drawn

WHOLE = LpHighs().merged_point_of
"""Solves a programme as it is."""
SCARCE = 2
"""The seed of a programme of which no single job limits the level."""
KINDS = st.sampled_from(["unlike", "families", "needs", "few types", "idle"])


def programme_of(seed, kind, jobs=150):
    """Return jobs with random rates, needs and gangs, and too few GPUs or enough of them."""
    rng = np.random.default_rng(seed)
    types = 2 if kind == "few types" else int(rng.integers(1, 6))
    value = 10 ** rng.uniform(-0.5, 0.5, (jobs, types))
    if kind == "families":
        value = value[rng.integers(0, 12, jobs)] * 10 ** rng.uniform(-0.3, 0.3, (jobs, 1))
    usable = rng.random((jobs, types)) < 0.8
    usable[np.arange(jobs), rng.integers(0, types, jobs)] = True
    gang = rng.choice([1.0, 2.0, 4.0, 8.0], jobs)
    level = 10 ** rng.uniform(-0.3, 0.3, jobs)
    need = rng.exponential(1e-2, jobs) if kind == "needs" else np.zeros(jobs)
    if kind == "idle":
        level[rng.random(jobs) < 0.3] = 0.0
    return ShareProgramme(
        sets=JobSets.of(jobs),
        usable=usable,
        gain=np.zeros(value.shape),
        value=np.where(usable, value, 0.0),
        level=level,
        need=need,
        has_need=(level > 0) | (need > 0),
        gang=gang,
        gpus=8 + np.ceil(gang.sum() * rng.dirichlet(np.ones(types)) * 10 ** rng.uniform(-2.5, 0)),
        has_level=True,
        group=np.zeros(types, dtype=np.int64),
        limit=np.ones(1),
        kind=np.full(jobs, -1),
    )


def attained(programme, point):
    """Return the level that the shares of a point attain once they are feasible."""
    got = programme.got(programme.repaired(point.shares, point.level)) - programme.need
    asked = programme.level > 0
    return float((got[asked] / programme.level[asked]).min())


@draws(60)
@given(st.integers(0, 2**32 - 1), KINDS)
def test_what_is_found_is_the_optimum_of_all(seed, kind):
    """Shares, prices and level are those of the whole programme, whichever way they were found."""
    programme = programme_of(seed, kind)
    assert is_for_sifting(programme)
    best = WHOLE(programme).level
    for point in (limited(programme), sifted(programme, WHOLE)):
        if point is None:
            continue
        assert point.level == pytest.approx(best, rel=1e-8)
        assert attained(programme, point) == pytest.approx(best, rel=1e-8)
        bound = programme.dual_bound(point.prices, tolerance=0.0)
        assert bound == pytest.approx(best, rel=1e-8)


@draws(20)
@given(st.integers(0, 2**32 - 1), KINDS)
def test_descent_on_prices_changes_no_optimum(seed, kind):
    """With the descent, which else only many jobs get, the level is still that of the whole."""
    programme = programme_of(seed, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sifting, "MANY_JOBS", 1)
        point = sifted(programme, WHOLE)
    if point is not None:
        assert attained(programme, point) == pytest.approx(WHOLE(programme).level, rel=1e-8)


def test_with_descent_two_small_programmes_suffice():
    """Of 10,000 unlike jobs, only those enter a programme whose types are uncertain."""
    sizes = []
    assert sifted(programme_of(SCARCE, "unlike", 10_000), noting(sizes)) is not None
    assert len(sizes) <= 3
    assert max(sizes) <= 100


def sum_of(seed, jobs):
    """Return the same jobs with random gains and nothing that they need."""
    programme = programme_of(seed, "idle", jobs)
    rng = np.random.default_rng(seed)
    return replace(
        programme,
        gain=np.where(programme.usable, rng.exponential(size=programme.value.shape), 0.0),
        level=np.zeros(jobs),
        has_need=np.zeros(jobs, dtype=np.bool_),
        has_level=False,
    )


@draws(40)
@given(st.integers(0, 2**32 - 1), st.integers(2, 150))
def test_sums_of_few_jobs_are_those_of_all(seed, jobs):
    """Who is left out gets nothing in the whole programme either, by prices that prove it."""
    programme = sum_of(seed, jobs)
    assert is_sum_for_sifting(programme)
    whole = WHOLE(programme)
    best = float((programme.gain * programme.repaired(whole.shares)).sum())
    point = sifted_sum(programme, WHOLE)
    if point is None:
        return
    found = float((programme.gain * programme.repaired(point.shares)).sum())
    assert found == pytest.approx(best, rel=1e-9)
    assert programme.dual_bound(point.prices, tolerance=0.0) == pytest.approx(best, rel=1e-8)


def noting(sizes):
    """Return an engine that notes how many jobs each programme has."""

    def engine(part):
        sizes.append(part.sets.jobs)
        return WHOLE(part)

    return engine


def test_sums_need_few_jobs(monkeypatch):
    """Of many jobs a part is enough; those that pay and were not tried are found by the prices."""
    programme = sum_of(SCARCE, 600)
    best = float((programme.gain * WHOLE(programme).shares).sum())
    sizes = []
    assert sifted_sum(programme, noting(sizes)) is not None
    assert max(sizes) < 500
    # With fewer at first, only prices bring in who is missing.
    monkeypatch.setattr(sifting, "TRIED", 0.3)
    sizes.clear()
    point = sifted_sum(programme, noting(sizes))
    assert len(sizes) > 1
    assert float((programme.gain * point.shares).sum()) == pytest.approx(best, rel=1e-9)


def test_it_is_found_as_a_rule():
    """None is an honest answer, but a rare one: else nothing would be tested here, nor gained."""
    programmes = [programme_of(seed, kind) for seed in range(8) for kind in ("unlike", "families")]
    found = [sifted(programme, WHOLE) is not None for programme in programmes]
    assert sum(found) >= 0.9 * len(found)
    assert any(limited(programme) is not None for programme in programmes)
    assert any(limited(programme) is None for programme in programmes)


def test_programmes_stay_small():
    """Of many jobs that all differ, a small part is in doubt."""
    sizes = []
    programme = programme_of(SCARCE, "unlike", jobs=1_000)
    assert limited(programme) is None
    assert sifted(programme, noting(sizes)) is not None
    assert 2 <= len(sizes) <= 8
    assert max(sizes) < 500


@draws(60)
@given(st.integers(0, 2**32 - 1), KINDS)
def test_vertices_are_the_cheapest_shares(seed, kind):
    """Against a programme for each job: least cost of what it needs within its time."""
    programme = programme_of(seed, kind, jobs=12)
    rng = np.random.default_rng(seed)
    prices = rng.exponential(size=len(programme.gpus))
    jobs = JobVertices(programme)
    level = float(jobs.highest.min()) * rng.uniform(0, 1.5)
    now = jobs.at(prices, level)
    for job in range(12):
        where = programme.usable[job]
        best = linprog(
            programme.gang[job] * prices[where],
            A_ub=[-programme.value[job, where], np.ones(where.sum())],
            b_ub=[-(programme.level[job] * level + programme.need[job]), 1.0],
        )
        if best.status == 2:  # infeasible
            assert np.isinf(now.cost[job])
            continue
        assert now.cost[job] == pytest.approx(best.fun, rel=1e-7, abs=1e-9)
        rest = 1 - now.share[job] if now.second[job] >= 0 else 0.0
        given_ = now.share[job] * programme.value[job, now.first[job]]
        assert given_ + rest * programme.value[job, now.second[job]] == pytest.approx(
            now.need[job], rel=1e-9, abs=1e-12
        )


def wrong(point):
    """Return a point with other prices, and a level that nobody attains."""
    return replace(point, prices=point.prices.times(2.0), level=point.level * 1.01)


@pytest.mark.parametrize(
    "spoil",
    [lambda point: replace(point, shares=None), lambda point: replace(point, prices=None), wrong],
)
def test_an_engine_that_fails_is_not_believed(spoil):
    """No answer at all rather than one that its prices do not prove."""
    assert sifted(programme_of(1, "unlike"), lambda part: spoil(WHOLE(part))) is None


@pytest.mark.parametrize("objective", ["max_min_share", "makespan_share", "finish_time_fairness"])
@pytest.mark.parametrize("seed", range(2))
def test_many_jobs_of_measured_rates(objective, seed):
    """The solver proves the same optimum as another engine where it sifts."""
    instance = drawn(400, objective, seed=seed, servers=9)
    ours, other = (lo.solve(instance, name) for name in ("lp-sifting", "lp-glop"))
    assert ours.status is other.status is lo.Status.OPTIMAL
    assert ours.objective == pytest.approx(other.objective, rel=2e-9)


def test_what_is_not_found_is_solved_as_it_is(monkeypatch):
    """Sifting that gives up costs time and no answer."""
    monkeypatch.setattr(highs_model, "limited", lambda _: None)
    monkeypatch.setattr(highs_model, "sifted", lambda *_: None)
    monkeypatch.setattr(highs_model, "sifted_sum", lambda *_: None)
    monkeypatch.setattr(highs_model, "SIFTED_FROM", 1)
    programme = programme_of(5, "unlike", jobs=40)
    assert LpSifting().merged_point_of(programme).level == pytest.approx(
        WHOLE(programme).level, rel=1e-9
    )
    total = sum_of(5, 40)
    ours, whole = LpSifting().merged_point_of(total).shares, WHOLE(total).shares
    assert (total.gain * ours).sum() == pytest.approx((total.gain * whole).sum(), rel=1e-9)


def test_what_has_another_form_is_not_sifted():
    """Sums have no level; groups and pairs are not in the proof."""
    arrays = ShareArrays.of(drawn(5))
    assert is_for_sifting(arrays.max_min_share())
    assert not is_for_sifting(arrays.total(Objective.THROUGHPUT))
    assert is_sum_for_sifting(arrays.total(Objective.THROUGHPUT))
    assert not is_sum_for_sifting(arrays.max_min_share())
    late = ShareArrays.of(drawn(20, "cost", with_deadlines=True)).total(Objective.COST)
    assert late.has_need.any()
    assert not is_sum_for_sifting(late)
    whole = arrays.max_min_share()
    grouped = replace(whole, group=np.array([0, 1, 1]), limit=np.ones(2))
    paired = replace(whole, sets=JobSets.of(5, np.array([[0, 1]])))
    nowhere = replace(whole, usable=whole.usable & (np.arange(5) > 0)[:, None])
    assert not any(map(is_for_sifting, (grouped, paired, nowhere)))
