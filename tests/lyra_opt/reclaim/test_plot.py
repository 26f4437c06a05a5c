"""The picture of reclaiming: who loses what, for each solution."""

from lyra_opt.reclaim import Solution
from lyra_opt.reclaim.plot import GIVEN_BACK, KEPT, MOST_SERVERS, PREEMPTED, SCALED_IN, drawing_of
from tests.lyra_opt.reclaim.examples import fleet, job_on
from tests.pictures import bars_of


def instance(servers=3):
    """Return job `wide` on servers 0 and 1, and `elastic`, flexible on server 1, base on 2."""
    jobs = job_on("wide", {"s0": 4, "s1": 2}), job_on("elastic", {"s1": (0, 3), "s2": 1})
    return fleet([f"s{number}" for number in range(servers)], *jobs, gpus=8)


def test_colours_say_who_loses_what():
    """Protects the reading: red dies whole, amber only shrinks, the chosen server is marked."""
    figure = drawing_of(
        instance(), {"first": Solution(servers=("s1",)), "second": Solution(servers=("s2",))}
    ).figure()
    first, second = (bars_of(figure, panel) for panel in (0, 1))
    assert (PREEMPTED, 0, 0, 4) in first
    assert (PREEMPTED, 1, 0, 2) in first
    assert (SCALED_IN, 1, 2, 3) in first
    assert (SCALED_IN, 2, 0, 1) in first
    assert (GIVEN_BACK, 1, 0, 8) in first
    assert (KEPT, 0, 0, 4) in second
    assert (PREEMPTED, 1, 2, 3) in second
    assert (GIVEN_BACK, 2, 0, 8) in second
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "first\n1 job preempted, collateral damage 4 GPUs",
        "second\n1 job preempted, collateral damage 3 GPUs",
    ]


def test_of_many_servers_those_that_matter_are_drawn():
    """Protects large fleets: what is given back, and who loses, is among what is drawn."""
    large = instance(MOST_SERVERS + 20)
    figure = drawing_of(large, {"last": Solution(servers=(large.servers[-1].id,))}).figure()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(labels) == MOST_SERVERS
    assert labels[-1] == large.servers[-1].id
