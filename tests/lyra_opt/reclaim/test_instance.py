"""Instance files mean what the format says, and survive being written and read."""

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.core.problem import find_problem
from lyra_opt.reclaim import Server, WorkerGroup
from tests.lyra_opt.reclaim.examples import fleet, job_on


def test_defaults():
    """A minimal document: weight 1, one GPU a worker, on loan, base workers needed."""
    document = {
        "format": "lyra-opt/reclaim",
        "version": 1,
        "reclaim_servers": 0,
        "servers": [{"id": "s", "gpus": 3}],
        "jobs": [{"id": "j", "workers": [{"server": "s", "base": 2, "flexible": 1}]}],
    }
    instance = find_problem("reclaim").parse_instance(document)
    assert instance.servers == (Server(id="s", gpus=3, on_loan=True),)
    (job,) = instance.jobs
    assert (job.weight, job.gpus_per_worker, job.min_workers) == (1, 1, 2)
    assert (job.base_workers, job.total_workers) == (2, 3)


def test_no_servers_and_no_jobs():
    """An empty fleet is a valid, if dull, instance."""
    assert fleet("", reclaim=0).index.losses.entries == 0


def test_index_counts_what_each_semantics_counts():
    """Rigid: servers on loan with a base worker. Interchangeable: all workers on loan."""
    job = job_on("j", {"a": (1, 2), "b": (0, 1), "c": 3}, gpus_per_worker=2)
    rigid = fleet("ab", job, off_loan="c").index
    assert rigid.losses.row(0) == [(0, 1)]
    assert rigid.slack.tolist() == [0]
    assert rigid.base.row(0) == [(0, 6), (2, 6)]
    assert rigid.gpus.row(0) == [(0, 6), (1, 2), (2, 6)]
    interchangeable = fleet("ab", job, off_loan="c", semantics="interchangeable").index
    assert interchangeable.losses.row(0) == [(0, 3), (1, 1)]
    assert interchangeable.slack.tolist() == [3]
    assert interchangeable.losses.column(0) == [(0, 3)]
    assert interchangeable.losses.column(2) == []


def test_python_values_are_validated_too():
    """A dataclass made in Python keeps the same rules as a file."""
    with pytest.raises(FieldError, match="gpus is 0: must be an integer of at least 1"):
        Server(id="s", gpus=0)
    with pytest.raises(FieldError, match="base is 1.5: must be an integer"):
        WorkerGroup(server="s", base=1.5)


@pytest.mark.parametrize(("kind", "workers"), [("base", (9, 0)), ("flexible", (1, 9))])
def test_workers_that_do_not_fit_are_named_by_their_key(kind, workers):
    """A group of workers has no value of its own: the key to change is one inside of it."""
    with pytest.raises(FieldError, match=rf"jobs\[0\].workers\[0\].{kind} is 9: .*only 8 are free"):
        fleet("s", job_on("j", {"s": workers}), gpus=8)
