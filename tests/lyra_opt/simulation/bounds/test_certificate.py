"""What prices prove in exact arithmetic, and saved prices, of which lies are found out."""

import json
from fractions import Fraction

import pytest

from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.pricing.ascent import safe_value
from lyra_opt.simulation.bounds.certificate import (
    JCT,
    QUEUE,
    document_of,
    holds,
    proved_mean_s,
    read_certificate,
)
from lyra_opt.simulation.bounds.checker import Checker
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import whole_bound
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.speed import Speed
from tests.draws import sampled
from tests.lyra_opt.simulation.bounds.small import draw, prices_for
from tests.lyra_opt.simulation.replays import job_of, workload_of
from tests.tables import tables

TABLES = tables(__file__)


CLUSTER = Cluster.of_servers(1, gpus_per_server=4)
JOBS = workload_of(
    *(job_of(f"j{n}", 7.3 * n, 10.0 + 13 * n, max_workers=1 + n % 3) for n in range(9))
)


@pytest.fixture
def documents():
    """Return the certificates of both objectives."""
    bound = whole_bound(JOBS, CLUSTER, reading=Reading.RESTART)
    assert bound.queue is not None
    certificates = {JCT: bound.jct, QUEUE: bound.queue}
    return {
        objective: document_of(each, reading=bound.reading, objective=objective, jobs=bound.jobs)
        for objective, each in certificates.items()
    }


def written(tmp_path, document):
    """Return where a document is written."""
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("objective", [JCT, QUEUE])
def test_what_is_read_proves_what_was_claimed(tmp_path, documents, objective):
    """Nothing is lost in the file: prices are whole parts of 2^20."""
    table = read_certificate(written(tmp_path, documents[objective]))
    proved_s = proved_mean_s(table, JOBS, Speed(CLUSTER), plan=None)
    assert holds(table, proved_s)
    assert proved_s == pytest.approx(table.value_s, rel=1e-6, abs=1e-6)


def test_a_lie_is_found_out(tmp_path, documents):
    """In the value, and in prices that are other than those that prove it."""
    honest = documents[JCT]
    # As if every GPU-second had a price: the rent is far more than anybody saves.
    dear = [[2**20 * 1000 for _ in row] for row in honest["price"]]
    for lie in ({"value_s": honest["value_s"] * 1.001}, {"price": dear}):
        table = read_certificate(written(tmp_path, honest | lie))
        assert not holds(table, proved_mean_s(table, JOBS, Speed(CLUSTER), plan=None))


@pytest.mark.parametrize(("change", "told"), TABLES["refused"])
def test_what_is_no_certificate_is_refused(tmp_path, documents, change, told):
    """With the field."""
    with pytest.raises(InputError, match=told):
        read_certificate(written(tmp_path, documents[JCT] | change))


@pytest.mark.parametrize(
    ("change", "told"), [({"jobs": 8}, "jobs"), ({"price": [[0], [0]]}, "price")]
)
def test_one_of_other_jobs_or_pools_is_refused(tmp_path, documents, change, told):
    """It would say nothing of these."""
    table = read_certificate(written(tmp_path, documents[JCT] | change))
    with pytest.raises(FieldError, match=told):
        proved_mean_s(table, JOBS, Speed(CLUSTER), plan=None)


NEAR = 1e-6
"""How far the safe value may be below the exact one, beside the sums that it is made of."""


def exact(small, pricer, price, *, is_queue):
    """Return what prices prove of the weighted sum over jobs."""
    border_s = pricer.room.border_s.tolist()
    checker = Checker(pricer.jobs, border_s, price.tolist(), is_queue=is_queue)
    return checker.proved(small.cluster, small.plan)


@pytest.mark.parametrize("reading", Reading)
@pytest.mark.parametrize("seeds", sampled([(range(8),), (range(1000, 2000),)], 2))
def test_the_bound_is_no_more_than_prices_prove_exactly(reading, seeds):
    """Protects the rounding: floats and their margin against integers that share no code."""
    for seed in seeds:
        small = draw(seed, reading)
        total_s = sum(job.work_worker_s for job in small.workload.jobs)
        for is_queue in (False, True):
            pricer = small.pricer(reading, is_queue=is_queue, cell_s=total_s / 23)
            for price in prices_for(small, pricer):
                safe = safe_value(pricer, price)
                proved = exact(small, pricer, price, is_queue=is_queue)
                of = f"seed {seed}, {reading}, queue {is_queue}: {safe} of {float(proved)}"
                assert Fraction(safe) <= proved, of
                size = float(abs(proved)) + float((price * pricer.room.gpu_s).sum())
                assert float(proved) - safe <= NEAR * (1 + size), of
