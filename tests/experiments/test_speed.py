"""Tables of speed: medians, counts and ratios equal those computed by hand."""

from __future__ import annotations

import pytest

from experiments import speed
from experiments.analysis import Analysis, Group
from experiments.plots.cactus import CactusData, cactus_points
from experiments.speed import counted_proof_time_s, geometric_mean_ratio, speed_table
from experiments.tables import csv_table, markdown_table, speed_columns
from lyra_opt.result import Status
from tests.experiments.records import make_run

OPTIMAL, FEASIBLE = Status.OPTIMAL, Status.FEASIBLE


def hand_made_analysis() -> Analysis:
    """Return three instances, a yardstick, and a rival limited to 8 s.

    ========  =========  ======================  =====  =====================
    instance  yardstick  rival                   ratio  of the times to proof
    ========  =========  ======================  =====  =====================
    c1        1 s        2 s                     2      2
    c2        2 s        9 s, limit, no proof    9/2    8/2, the limit
    c3        1 s        failed                  none   8, the limit
    ========  =========  ======================  =====  =====================
    """
    runs = []
    for cell, time_s in {"c1": 1.0, "c2": 2.0, "c3": 1.0}.items():
        runs.append(make_run(cell, "yardstick", OPTIMAL, wall_time_s=time_s, time_limit_s=8.0))
    rival = {"c1": (OPTIMAL, 2.0), "c2": (FEASIBLE, 9.0), "c3": (Status.ERROR, 0.1)}
    for cell, (status, time_s) in rival.items():
        runs.append(make_run(cell, "rival", status, wall_time_s=time_s, time_limit_s=8.0))
    return Analysis(runs)


def test_row_equals_what_is_computed_by_hand() -> None:
    yardstick, rival = speed_table(hand_made_analysis(), "yardstick", speed.by_group)
    assert (rival.configuration, rival.instances, rival.proved) == ("rival", 3, 1)
    assert rival.median_time_ms == pytest.approx(5500.0)  # without c3, which failed
    assert rival.max_time_ms == pytest.approx(9000.0)
    assert rival.time_ratio == pytest.approx((2 * 9 / 2) ** (1 / 2))
    assert rival.proof_time_ratio == pytest.approx((2 * 4 * 8) ** (1 / 3))
    assert (yardstick.proved, yardstick.time_ratio, yardstick.proof_time_ratio) == (3, 1.0, 1.0)


def test_rows_are_written() -> None:
    rows = speed_table(hand_made_analysis(), "yardstick", speed.by_group)
    table = markdown_table(speed_columns("yardstick", rows), rows).splitlines()
    assert table[0].endswith("| Time / that of yardstick | Time to proof / that of yardstick |")
    assert table[3] == "| all families | rival | 1 of 3 | 5500 | 9000 | 3 | 4 |"
    assert csv_table(rows).startswith("family,configuration,instances")


def test_counted_time_is_the_limit_without_a_proof() -> None:
    proved = make_run("c", "s", OPTIMAL, wall_time_s=1.0, certify_time_s=0.5, time_limit_s=1.0)
    assert counted_proof_time_s(proved) == pytest.approx(1.5)  # a late proof is one, and late
    for status in (FEASIBLE, Status.UNKNOWN, Status.ERROR):
        run = make_run("c", "s", status, wall_time_s=0.1, time_limit_s=1.0)
        assert counted_proof_time_s(run) == 1.0
    assert counted_proof_time_s(make_run("c", "s", FEASIBLE, wall_time_s=0.1)) is None
    refused = make_run("c", "s", Status.UNSUPPORTED, time_limit_s=1.0)
    assert counted_proof_time_s(refused) is None


def test_geometric_mean_is_over_what_both_have() -> None:
    yardstick = {"a": 1.0, "b": 2.0, "c": 4.0}
    assert geometric_mean_ratio({"a": 4.0, "b": 8.0, "d": 1.0}, yardstick) == pytest.approx(4.0)
    assert geometric_mean_ratio({"d": 1.0}, yardstick) is None
    # Of ratios, so that it does not matter which of two is the yardstick.
    inverse = geometric_mean_ratio(yardstick, {"a": 3.0, "b": 5.0, "c": 1.0})
    assert inverse is not None
    assert geometric_mean_ratio({"a": 3.0, "b": 5.0, "c": 1.0}, yardstick) == pytest.approx(
        1 / inverse
    )


def test_time_of_no_length_has_a_ratio() -> None:
    assert geometric_mean_ratio({"a": 0.0}, {"a": 0.0}) == 1.0


def test_groups_of_a_table() -> None:
    run = make_run("c", "s", OPTIMAL, family_group="hard")
    assert speed.by_group(run) == Group(family="hard (all families)")
    assert speed.by_size(run) == Group(family="hard (all families)", axes=(("servers", 10),))
    assert speed.by_family_and_size(run) == Group(family="made", axes=(("servers", 10),))
    sized_by_family = make_run(
        "c", "s", OPTIMAL, size=41, family_parameters={"reclaim": 2}, axes=["reclaim"]
    )
    assert speed.by_size(sized_by_family) == Group(family="all families", axes=(("servers", None),))


def test_cactus_counts_proofs_in_order_of_their_times() -> None:
    data = CactusData(
        configurations=["a", "b", "c"],
        time_to_proof_s={"a": {"c1": 8.0, "c2": 1.0, "c3": 1.0}, "b": {"c2": 3.0}},
        instances=4,
    )
    assert cactus_points(data) == {
        "a": ([1.0, 1.0, 8.0], [1, 2, 3]),
        "b": ([3.0], [1]),
        "c": ([], []),
    }
