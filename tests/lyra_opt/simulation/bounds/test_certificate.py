"""Saved prices: what they prove does not depend on who made them, and lies are found out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.simulation.bounds.certificate import (
    JCT,
    QUEUE,
    document_of,
    holds,
    proved_mean_s,
    read_certificate,
)
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import whole_bound
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Job, Workload

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = Cluster.of_servers(1, gpus_per_server=4)
JOBS = Workload(
    name="few",
    jobs=tuple(
        Job(
            id=f"j{number}",
            submit_s=7.3 * number,
            work_worker_s=10.0 + 13 * number,
            min_workers=1,
            max_workers=1 + number % 3,
        )
        for number in range(9)
    ),
)


@pytest.fixture
def documents() -> dict[str, dict[str, Any]]:
    """Return the certificates of both objectives."""
    bound = whole_bound(JOBS, CLUSTER, reading=Reading.RESTART)
    assert bound.queue is not None
    return {
        objective: document_of(
            certificate, reading=bound.reading, objective=objective, jobs=bound.jobs
        )
        for objective, certificate in ((JCT, bound.jct), (QUEUE, bound.queue))
    }


def written(tmp_path: Path, document: dict[str, Any]) -> Path:
    """Return where a document is written."""
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("objective", [JCT, QUEUE])
def test_what_is_read_proves_what_was_claimed(
    tmp_path: Path, documents: dict[str, dict[str, Any]], objective: str
) -> None:
    """Nothing is lost in the file: prices are whole parts of 2^20."""
    table = read_certificate(written(tmp_path, documents[objective]))
    proved_s = proved_mean_s(table, JOBS, Speed(CLUSTER), plan=None)
    assert holds(table, proved_s)
    assert proved_s == pytest.approx(table.value_s, rel=1e-6, abs=1e-6)


def test_a_lie_is_found_out(tmp_path: Path, documents: dict[str, dict[str, Any]]) -> None:
    """In the value, and in prices that are other than those that prove it."""
    honest = documents[JCT]
    path = written(tmp_path, honest | {"value_s": honest["value_s"] * 1.001})
    speed = Speed(CLUSTER)
    table = read_certificate(path)
    assert not holds(table, proved_mean_s(table, JOBS, speed, plan=None))
    # As if every GPU-second had a price: the rent is far more than anybody saves.
    dear = [[2**20 * 1000 for _ in row] for row in honest["price"]]
    path = written(tmp_path, honest | {"price": dear})
    table = read_certificate(path)
    assert not holds(table, proved_mean_s(table, JOBS, speed, plan=None))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"reading": "strict"}, "reading"),
        ({"price": [[1, -1]]}, r"price\[0\]\[1\]"),
        ({"price": [[1, 2], [1]]}, r"price\[1\]"),
        ({"cell_s": 0}, "cell_s"),
        ({"cell_s": 1e308}, "cell_s"),
        ({"more": 1}, "more"),
        ({"version": 2}, "version"),
    ],
)
def test_what_is_no_certificate_is_refused(
    tmp_path: Path, documents: dict[str, dict[str, Any]], change: dict[str, Any], told: str
) -> None:
    """With the field."""
    with pytest.raises(InputError, match=told):
        read_certificate(written(tmp_path, documents[JCT] | change))


@pytest.mark.parametrize(
    ("change", "told"), [({"jobs": 8}, "jobs"), ({"price": [[0], [0]]}, "price")]
)
def test_one_of_other_jobs_or_pools_is_refused(
    tmp_path: Path, documents: dict[str, dict[str, Any]], change: dict[str, Any], told: str
) -> None:
    """It would say nothing of these."""
    table = read_certificate(written(tmp_path, documents[JCT] | change))
    with pytest.raises(FieldError, match=told):
        proved_mean_s(table, JOBS, Speed(CLUSTER), plan=None)
