"""The time of a job is told by its parts; ``by_hand.toml`` has replays in which they are known."""

from __future__ import annotations

import pytest

from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.metrics import require_conserved
from tests.lyra_opt.simulation.replays import job_of, replay


@pytest.mark.parametrize(
    ("slower_s", "message"),
    [
        (1.0, "job x has a completion time of 10.* but its parts"),
        (-1.0, "job x: slower_type_s is negative: -1.0 s"),
    ],
)
def test_parts_that_do_not_add_up_are_told(slower_s, message):
    """A simulation that loses time by the way is wrong."""
    found = replay([job_of("x", 0, 10)], Cluster.of_servers(1), "fifo")
    found.runs[0].slower_type_s = slower_s
    with pytest.raises(AssertionError, match=message):
        require_conserved(found)
