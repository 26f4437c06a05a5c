"""Instance files mean what the format says, and survive being written and read."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.core.loading import load_instance
from lyra_opt.core.problem import find_problem
from lyra_opt.reclaim import Instance, Job, Server, WorkerGroup

PROBLEM = find_problem("reclaim")


def test_defaults(write_json):
    """A minimal file: weight 1, one GPU a worker, on loan, base workers needed."""
    path = write_json(
        "minimal.json",
        {
            "format": "lyra-opt/reclaim",
            "version": 1,
            "name": "minimal",
            "semantics": "rigid",
            "reclaim_servers": 0,
            "servers": [{"id": "s", "gpus": 3}],
            "jobs": [{"id": "j", "workers": [{"server": "s", "base": 2, "flexible": 1}]}],
        },
    )
    instance = load_instance(path).instance
    assert instance.servers == (Server(id="s", gpus=3, on_loan=True),)
    (job,) = instance.jobs
    assert (job.weight, job.gpus_per_worker, job.min_workers) == (1, 1, 2)
    assert (job.base_workers, job.total_workers) == (2, 3)


def test_gzip_is_known_by_its_content(figure_5, figure_5_document, tmp_path):
    """Read with the ending .json.gz, and with any other."""
    data = gzip.compress(json.dumps(figure_5_document).encode())
    for name in ("figure.json.gz", "figure.json"):
        (tmp_path / name).write_bytes(data)
        assert load_instance(tmp_path / name).instance == figure_5


def test_no_servers_and_no_jobs():
    """An empty fleet is a valid, if dull, instance."""
    instance = Instance(name="empty", semantics="rigid", reclaim_servers=0, servers=(), jobs=())
    assert instance.index.losses.entries == 0


def test_index_counts_what_each_semantics_counts():
    """Rigid: servers on loan with a base worker. Interchangeable: all workers on loan."""
    fields: dict[str, Any] = {
        "name": "index",
        "reclaim_servers": 1,
        "servers": (
            Server(id="a", gpus=9),
            Server(id="b", gpus=9),
            Server(id="c", gpus=9, on_loan=False),
        ),
        "jobs": (
            Job(
                id="j",
                gpus_per_worker=2,
                workers=(
                    WorkerGroup(server="a", base=1, flexible=2),
                    WorkerGroup(server="b", flexible=1),
                    WorkerGroup(server="c", base=3),
                ),
            ),
        ),
    }
    rigid = Instance(semantics="rigid", **fields).index
    assert rigid.losses.row(0) == [(0, 1)]
    assert rigid.slack.tolist() == [0]
    assert rigid.base.row(0) == [(0, 6), (2, 6)]
    assert rigid.gpus.row(0) == [(0, 6), (1, 2), (2, 6)]
    interchangeable = Instance(semantics="interchangeable", **fields).index
    assert interchangeable.losses.row(0) == [(0, 3), (1, 1)]
    assert interchangeable.slack.tolist() == [3]
    assert interchangeable.losses.column(0) == [(0, 3)]
    assert interchangeable.losses.column(2) == []


def test_python_values_are_validated_too():
    """A dataclass made in Python keeps the same rules as a file."""
    with pytest.raises(FieldError, match="gpus is 0: must be an integer of at least 1"):
        Server(id="s", gpus=0)
    with pytest.raises(FieldError, match="base is 1.5: must be an integer"):
        WorkerGroup(server="s", base=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["base", "flexible"])
def test_workers_that_do_not_fit_are_named_by_their_key(kind):
    """A group of workers has no value of its own: the key to change is one inside of it."""
    group = WorkerGroup(**{"server": "s", "base": 1, kind: 9})
    job = Job(id="j", workers=(group,))
    with pytest.raises(FieldError, match=rf"jobs\[0\].workers\[0\].{kind} is 9: .*only 8 are free"):
        Instance(name="x", reclaim_servers=0, servers=(Server(id="s", gpus=8),), jobs=(job,))
