"""No schedule of a few jobs, however clever, is below the bound, whatever the prices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.pricing.ascent import safe_value
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import whole_bound
from lyra_opt.simulation.cluster import Cluster, LoanPlan
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Workload
from tests.lyra_opt.simulation.bounds.small import Small, draw, safe_values
from tests.lyra_opt.simulation.replays import borrowing, job_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lyra_opt.simulation.workload import Job

TOLERANCE = 1e-6
"""Of the linear programmes."""

QUICK, SLOW = range(25), range(1000, 11_000)


def require_below_optimum(seed: int, reading: Reading) -> tuple[float, float]:
    """Check all bounds of a case; return the bound on JCT with prices that were looked for."""
    small = draw(seed, reading)
    found = whole_bound(
        small.workload,
        small.cluster,
        reading=reading,
        plan=small.plan,
        speed=small.speed,
        copy_efficiency=small.copy_efficiency,
        weight=small.weight,
        passes=25,
    )
    total = float(small.weight.sum())
    mean_s = {False: found.jct_mean_bound_s, True: found.queue_mean_bound_s}
    least = {}
    for is_queue in (False, True):
        problem = small.problem(reading, is_queue=is_queue)
        least[is_queue] = problem.least()
        proved = [mean_s[is_queue] * total, *safe_values(small, reading, is_queue=is_queue)]
        most = least[is_queue] + TOLERANCE * (1 + abs(least[is_queue]))
        assert max(proved) <= most, f"seed {seed}, queue {is_queue}: {proved} above {most}: {small}"
    return mean_s[False] * total, least[False]


def check_all(seeds: Iterable[int], reading: Reading) -> None:
    found = np.array([require_below_optimum(seed, reading) for seed in seeds])
    bound, least = found[found[:, 1] > 0].T
    # A bound that is always far away would be below anything.
    assert np.median(bound / least) > 0.9


@pytest.mark.parametrize("reading", Reading)
def test_no_bound_is_above_the_optimum(reading):
    """Protects the bound itself: against the optimum over all that a reading permits.

    Loans that change, speeds other than 1, replicas, sublinear scaling, measured gangs near and
    far, racks, copies, wide workers, weights, releases anywhere.
    """
    check_all(QUICK, reading)


@pytest.mark.slow
@pytest.mark.parametrize("reading", Reading)
def test_no_bound_of_many_is_above_the_optimum(reading):
    """The same in 10,000 cases of each reading."""
    check_all(SLOW, reading)


# By hand.

TWO = Cluster.of_servers(1, gpus_per_server=2)


def small_of(*jobs: Job, cluster: Cluster = TWO, plan: LoanPlan | None = None) -> Small:
    return Small(
        seed=0,
        workload=Workload(name="small", jobs=jobs),
        speed=Speed(cluster),
        plan=plan,
        copy_efficiency=None,
        weight=np.ones(len(jobs)),
    )


@pytest.mark.parametrize("reading", Reading)
def test_an_elastic_job_may_shrink_in_the_middle(reading):
    """Protects from pricing elastic jobs in one piece at most workers: 4 would be proved of 3.5."""
    small = small_of(job_of("a", 0, 4, max_workers=2), job_of("b", 1, 1))
    assert small.problem(reading, is_queue=False).least() == pytest.approx(3.5)
    pricer = small.pricer(reading, is_queue=False, cell_s=1.0)
    price = np.zeros_like(pricer.room.gpu_s)
    price[0, 1] = 1.0
    assert safe_value(pricer, price) == pytest.approx(3)


@pytest.mark.parametrize("reading", Reading)
def test_one_job_runs_at_once(reading):
    """Protects the least: what is proved of a job that nothing delays is its least run time."""
    found = whole_bound(
        Workload(name="one", jobs=(job_of("a", 5, 3, 2),)), TWO, reading=reading, passes=30
    )
    assert found.jct_mean_bound_s == pytest.approx(3, rel=1e-9)
    assert found.jct_mean_bound_s <= 3
    assert found.excess_mean_bound_s == found.queue_mean_bound_s == 0


@pytest.mark.parametrize("reading", Reading)
@pytest.mark.parametrize("is_queue", [False, True])
def test_lying_prices_prove_nothing_false(reading, is_queue):
    """Protects validity whatever the prices: none, one everywhere, far too high everywhere."""
    small = small_of(*(job_of(name, 0, 2, 2) for name in "abc"))
    least = small.problem(reading, is_queue=is_queue).least()
    # One after the other; to share 2 s in turns makes nobody sooner.
    assert least == pytest.approx(6 if is_queue else 12)
    pricer = small.pricer(reading, is_queue=is_queue)
    for price in (0.0, 1.0, 1e3, 1e9):
        assert safe_value(pricer, np.full_like(pricer.room.gpu_s, price)) <= least
    assert safe_value(pricer, np.zeros_like(pricer.room.gpu_s)) == pytest.approx(
        0 if is_queue else 6
    )


@pytest.mark.parametrize(("on_loan", "least_s"), [((0,), 6.0), ((1,), 4.0), ((1, 0), 5.0)])
def test_loans_count_while_they_last(on_loan, least_s):
    """Protects the capacity: none lent, one server for ever, one that is called back after 1 s.

    A job of two seconds has the server's own GPU; another one waits for it, borrows, or does so for
    a second.
    """
    cluster = borrowing(1, 1, 1)
    plan = LoanPlan(interval_s=1.0, on_loan=on_loan, busy_share=(0.5,))
    jobs = [job_of("a", 0, 2), job_of("b", 0, 2, fungible=True, checkpoints=True)]
    small = small_of(*jobs, cluster=cluster, plan=plan)
    assert small.problem(Reading.CONSERVED, is_queue=False).least() == pytest.approx(least_s)
    found = whole_bound(
        small.workload, cluster, reading=Reading.CONSERVED, plan=plan, passes=200, cell_s=0.125
    )
    assert 0.85 * least_s < 2 * found.jct_mean_bound_s <= least_s


def test_a_class_is_bounded_beside_all_others():
    """Protects bounds of a class: jobs of weight 0 give way, and count for nothing."""
    jobs = Workload(name="two", jobs=(job_of("a", 0, 9, 2), job_of("b", 0, 3, 2)))
    for weight, least_s in (([1.0, 0.0], 9.0), ([0.0, 1.0], 3.0)):
        found = whole_bound(jobs, TWO, reading=Reading.RESTART, weight=np.array(weight), passes=20)
        assert found.least_run_mean_s == least_s
        assert found.jct_mean_bound_s == pytest.approx(least_s, rel=1e-9)


@pytest.mark.parametrize("weight", [[1.0], [0.0, 0.0], [-1.0, 2.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_weights_are_checked(weight):
    """Protects from a mean over nothing, and from numbers that are none."""
    jobs = Workload(name="two", jobs=(job_of("a", 0, 9, 2), job_of("b", 0, 3, 2)))
    with pytest.raises(FieldError, match="weight"):
        whole_bound(jobs, TWO, reading=Reading.RESTART, weight=np.array(weight))


@pytest.mark.parametrize("cell_s", [0.0, -1.0, np.nan, np.inf, 1e-9])
def test_cells_are_checked(cell_s):
    """Protects from cells without a length, and from more of them than there is room for."""
    jobs = Workload(name="one", jobs=(job_of("a", 0, 9, 2),))
    with pytest.raises(FieldError, match="cell_s"):
        whole_bound(jobs, TWO, reading=Reading.RESTART, cell_s=cell_s)
