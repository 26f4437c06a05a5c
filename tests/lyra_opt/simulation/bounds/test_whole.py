"""No schedule of a few jobs, however clever, is below the bound, whatever the prices."""

import numpy as np
import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.pricing.ascent import safe_value
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import whole_bound
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.speed import Speed
from tests.draws import sampled
from tests.lyra_opt.simulation.bounds.small import Small, draw, safe_values
from tests.lyra_opt.simulation.replays import borrowing, job_of, lending, workload_of

TOLERANCE = 1e-6
"""Of the linear programmes."""


def require_below_optimum(seed, reading):
    """Check all bounds of a case; return the bound on JCT with prices that were looked for."""
    small = draw(seed, reading)
    found = small.bound(reading, passes=25)
    total = float(small.weight.sum())
    mean_s = {False: found.jct_mean_bound_s, True: found.queue_mean_bound_s}
    least = {}
    for is_queue in (False, True):
        least[is_queue] = small.problem(reading, is_queue=is_queue).least()
        proved = [mean_s[is_queue] * total, *safe_values(small, reading, is_queue=is_queue)]
        most = least[is_queue] + TOLERANCE * (1 + abs(least[is_queue]))
        assert max(proved) <= most, f"seed {seed}, queue {is_queue}: {proved} above {most}: {small}"
    return mean_s[False] * total, least[False]


@pytest.mark.parametrize("reading", Reading)
@pytest.mark.parametrize("seeds", sampled([(range(25),), (range(1000, 11_000),)], 2))
def test_no_bound_is_above_the_optimum(reading, seeds):
    """Protects the bound itself: against the optimum over all that a reading permits.

    Loans that change, speeds other than 1, replicas, sublinear scaling, measured gangs near and
    far, racks, copies, wide workers, weights, releases anywhere.
    """
    found = np.array([require_below_optimum(seed, reading) for seed in seeds])
    bound, least = found[found[:, 1] > 0].T
    # A bound that is always far away would be below anything.
    assert np.median(bound / least) > 0.9


# By hand.

TWO = Cluster.of_servers(1, gpus_per_server=2)


def small_of(*jobs, cluster=TWO, plan=None):
    return Small(
        seed=0,
        workload=workload_of(*jobs),
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
    found = small_of(job_of("a", 5, 3, 2)).bound(reading, passes=30)
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
    nothing = np.zeros_like(pricer.room.gpu_s)
    assert safe_value(pricer, nothing) == pytest.approx(0 if is_queue else 6)


@pytest.mark.parametrize(("on_loan", "least_s"), [((0,), 6.0), ((1,), 4.0), ((1, 0), 5.0)])
def test_loans_count_while_they_last(on_loan, least_s):
    """Protects the capacity: none lent, one server for ever, one that is called back after 1 s.

    A job of two seconds has the server's own GPU; another one waits for it, borrows, or does so for
    a second.
    """
    cluster = borrowing(1, 1, 1)
    plan = lending(*on_loan, interval_s=1.0)
    jobs = [job_of("a", 0, 2), job_of("b", 0, 2, fungible=True, checkpoints=True)]
    small = small_of(*jobs, cluster=cluster, plan=plan)
    assert small.problem(Reading.CONSERVED, is_queue=False).least() == pytest.approx(least_s)
    found = small.bound(Reading.CONSERVED, passes=200, cell_s=0.125)
    assert 0.85 * least_s < 2 * found.jct_mean_bound_s <= least_s


TWO_JOBS = workload_of(job_of("a", 0, 9, 2), job_of("b", 0, 3, 2))


def test_a_class_is_bounded_beside_all_others():
    """Protects bounds of a class: jobs of weight 0 give way, and count for nothing."""
    for weight, least_s in (([1.0, 0.0], 9.0), ([0.0, 1.0], 3.0)):
        given = {"weight": np.array(weight), "passes": 20}
        found = whole_bound(TWO_JOBS, TWO, reading=Reading.RESTART, **given)
        assert found.least_run_mean_s == least_s
        assert found.jct_mean_bound_s == pytest.approx(least_s, rel=1e-9)


WEIGHTS = [[1.0], [0.0, 0.0], [-1.0, 2.0], [np.nan, 1.0], [np.inf, 1.0]]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("weight", np.array(weight)) for weight in WEIGHTS),
        *(("cell_s", cell_s) for cell_s in (0.0, -1.0, np.nan, np.inf, 1e-9)),
    ],
)
def test_weights_and_cells_are_checked(field, value):
    """Protects from a mean over nothing, and from numbers that are none.

    And from cells without a length, and from more of them than there is room for.
    """
    with pytest.raises(FieldError, match=field):
        whole_bound(TWO_JOBS, TWO, reading=Reading.RESTART, **{field: value})
