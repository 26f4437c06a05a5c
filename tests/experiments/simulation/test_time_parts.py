"""The page says where the time of each scheme goes, beside what nobody can beat."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lyra_opt.core.pictures import house_style
from lyra_opt.experiments.simulation.measuring.measures import TIME_PARTS, Variant
from lyra_opt.experiments.simulation.running.replays import load_replays
from lyra_opt.experiments.simulation.showing.means import COLOURS, time_parts_plot
from tests.experiments.simulation.conftest import TIME_PARTS as KEYS
from tests.experiments.simulation.conftest import changes, schemes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


def test_every_part_has_a_row_and_a_look() -> None:
    """A part without one would be left out of table or picture."""
    assert tuple(part.key for part in TIME_PARTS) == KEYS == tuple(COLOURS)
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_the_picture_of_a_scenario(three_jobs: Run, tmp_path: Path) -> None:
    """Parts that nobody has are not named; the bound is a line where there is one."""
    for bounds in (False, True):
        folder = tmp_path / str(bounds)
        given = changes(f"bounds={'true' if bounds else 'false'}")
        exit_code, out, err = three_jobs(*given, *schemes("fifo", "sjf"), "--out", folder)
        assert exit_code == 0, err
        assert "JCT, of it queuing before the start (s)" in out
        drawn = (folder / "plots" / "time_parts.svg").read_text()
        assert "least run time" in drawn
        assert "queuing before the start" in drawn
        assert "lost work" not in drawn
        assert ("nobody can be below" in drawn) == bounds
        # FIFO takes 400 / 3 s.
        assert ">2.22<" in drawn
        page = (folder / "report.html").read_text()
        assert "less of queuing before the start" in page
        assert page.index("Where the time goes") < page.index("Waiting and completion of all jobs")


def test_replays_that_do_not_tell_have_no_picture(three_jobs: Run, tmp_path: Path) -> None:
    """Stores of before have no parts."""
    exit_code, _, err = three_jobs(*schemes("fifo", "sjf"), "--out", tmp_path / "out")
    assert exit_code == 0, err
    replays = load_replays(tmp_path / "out")
    first, *others = replays.runs
    assert first.figures is not None
    figures = {key: value for key, value in first.figures.items() if key != "pause_mean_s"}
    runs = [replace(first, figures=figures), *others]
    with house_style():
        for of_scenario, is_drawn in ((replays.runs, True), (runs, False)):
            plot = time_parts_plot(replays, Variant("", of_scenario), "time_parts")
            assert (plot is not None) == is_drawn
