"""Schedules of a list, against schedulers that share no code with ours, and against Erlang."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.scheme import find_scheme
from tests.lyra_opt.simulation.clairvoyant.small import by_the_second
from tests.lyra_opt.simulation.replays import completions, job_of, replay, starts

FIELDS = st.tuples(st.integers(0, 15), st.integers(1, 12), st.integers(1, 6))
JOBS = st.lists(FIELDS, min_size=1, max_size=12).map(
    lambda fields: sorted(fields, key=lambda field: field[0])
)
STRICT = find_scheme("fifo")
OVERTAKING = STRICT.with_parameters({"queue": "first-come-overtaking"})
SCHEMES = pytest.mark.parametrize("scheme", [STRICT, OVERTAKING, find_scheme("sjf")])


def training_jobs(fields: list[tuple[int, int, int]]) -> list[Any]:
    return [
        job_of(f"j{j}", submit, duration, workers, fungible=True)
        for j, (submit, duration, workers) in enumerate(fields)
    ]


@SCHEMES
@given(fields=JOBS, servers=st.integers(1, 2))
def test_a_list_schedule_second_by_second(scheme, fields, servers):
    """Starts and completions are equal to the second, ties and simultaneous events included."""
    cluster = Cluster.of_servers(servers, gpus_per_server=6)
    simulation = replay(training_jobs(fields), cluster, scheme)
    turn = [field[1] if scheme.name == "sjf" else 0 for field in fields]  # ties by submission
    expected = by_the_second(fields, [(0, cluster.gpus)], turn, backfills=scheme is not STRICT)
    assert starts(simulation) == expected
    ends = [start + field[1] for start, field in zip(expected, fields, strict=True)]
    assert completions(simulation) == ends
    require_conserved(simulation)
