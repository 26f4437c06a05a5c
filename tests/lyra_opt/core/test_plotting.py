"""Pictures of every problem: all that a solution says is drawn, and the same bytes again."""

import re
from dataclasses import replace
from itertools import product

import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

import lyra_opt as lo
from lyra_opt import allocation, reclaim
from lyra_opt.core.pictures import FORMATS
from lyra_opt.core.problem import problem_of_instance, problems
from lyra_opt.core.trajectory import TrajectoryPoint
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES
from lyra_opt.heterogeneous.plot import blocks_of
from lyra_opt.network.plot import TIER_COLOURS
from lyra_opt.testing import strategies
from tests.draws import draws
from tests.lyra_opt.allocation.examples import instance_of, job

ODD_NAMES = ("_a", "$x_1$", "<script>&", "two\nlines", "名前", "a" * 60)

DRAWN = draws(6, suppress_health_check=[HealthCheck.too_slow])
"""Of pictures, which take longer than what they show."""

VARIANTS = [(name, str(each)) for name, problem in problems().items() for each in problem.variants]


def rectangles(axes, colours):
    return [patch for patch in axes.patches if to_hex(patch.get_facecolor()) in colours]


@pytest.mark.parametrize(("problem", "variant"), VARIANTS)
@given(data=st.data())
@DRAWN
def test_every_variant_is_drawn_alone_and_with_an_answer(problem, variant, data):
    """Whatever the instance; an answer stands under its name; and all of it can be written."""
    word = {"preemption": "moves", "reclaim": "semantics"}.get(problem, "objective")
    instance = data.draw(getattr(strategies, f"{problem}_instances")(**{word: variant}))
    alone = lo.plot(instance)
    assert instance.name in alone.axes[0].get_title(loc="left")
    answer = lo.solve(instance, time_limit_s=1)
    if answer.solution is None:
        with pytest.raises(lo.UserError, match=f"no solution to draw: .* is {answer.status}"):
            lo.plot(instance, answer)
        return
    figure = lo.plot(instance, {"mine": answer, "again": answer.solution})
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title.startswith(name) for name, title in zip(("mine", "again"), titles, strict=False)]
    png, size = figure._repr_png_()
    assert png.startswith(b"\x89PNG")
    assert size["width"] == round(96 * figure.get_size_inches()[0])


@given(data=st.data())
@DRAWN
def test_gangs_in_a_network_hold_what_is_drawn(data):
    """A block for each machine of each gang, in the colour of what it spans, none over another."""
    instance = data.draw(strategies.network_instances())
    solution = data.draw(strategies.network_solutions_of(instance))
    axes = lo.plot(instance, solution).axes[0]
    drawn = rectangles(axes, set(TIER_COLOURS.values()))
    parts = [
        (TIER_COLOURS[instance.tier_of(placement.gpus)], gpus)
        for placement in solution.placements
        for gpus in placement.gpus.values()
    ]
    found = [(to_hex(each.get_facecolor()), each.get_width()) for each in drawn]
    assert sorted(found) == sorted(parts)
    for one, other in product(drawn, drawn):
        is_same_row = one.get_y() == other.get_y()
        is_left = one.get_x() <= other.get_x() < one.get_x() + one.get_width() - 1e-9
        assert one is other or not (is_same_row and is_left)


@given(data=st.data())
@DRAWN
def test_blocks_of_rounds_are_what_jobs_hold(data):
    """GPUs by job, round and type; a GPU is held once at a time; the picture has all blocks."""
    objective = data.draw(st.sampled_from(["utility", "makespan", "round_progress"]))
    instance = data.draw(strategies.heterogeneous_instances(objective=objective))
    schedule = data.draw(strategies.round_schedules_of(instance))
    blocks = blocks_of(instance, schedule)
    kinds = [name for name, count in instance.gpus_of_type.items() for _ in range(count)]
    drawn = []
    cells = set()
    for block in blocks:
        for number in range(block.first_round, block.past_round):
            for lane in range(block.first_lane, block.first_lane + block.lanes):
                assert (number, lane) not in cells
                cells.add((number, lane))
                drawn.append((instance.jobs[block.job].id, number, kinds[lane]))
    held = [
        (entry.job, entry.round, kind)
        for entry in schedule.entries
        for types in entry.gpus.values()
        for kind, count in types.items()
        for _ in range(count)
    ]
    assert sorted(drawn) == sorted(held)
    if not problem_of_instance(instance).check(instance, schedule).violations:
        areas = lo.plot(instance, schedule).axes[0].findobj(PolyCollection)
        assert sum(len(area.get_paths()) for area in areas) == len(blocks)


def test_shares_are_written_into_their_cells():
    """Each job and type where it runs, and the GPUs that are held."""
    instance = lo.generate("heterogeneous", "offline", jobs=4, objective="throughput")
    assert instance.objective in SHARE_OBJECTIVES
    answer = lo.solve(instance, "lp-highs")
    axes = lo.plot(instance, answer).axes[0]
    shares = [share for of_job in answer.solution.shares.values() for share in of_job.values()]
    texts = [text.get_text() for text in axes.texts if text.get_text()]
    assert sorted(texts) == sorted(f"{share:.2f}" for share in shares if share)


def test_workers_are_drawn_as_gpus():
    """Base demand and extra workers of each job, and nothing of one that waits."""
    jobs = [job(name, 2, 5, 60, gpus_per_worker=2) for name in ("first", "second")]
    instance = instance_of(9, *jobs, objective="joint")
    axes = lo.plot(instance, allocation.WorkerAllocation((4, 0))).axes[0]
    for colour, block in (("#0072b2", (0, 4)), ("#009e73", (4, 4))):
        assert [(bar.get_x(), bar.get_width()) for bar in rectangles(axes, {colour})] == [block]
    assert {"15 s", "waits"} <= {text.get_text() for text in axes.texts}


FAMILIES = {
    "reclaim": {"family": "span", "servers": 6, "reclaim": 2},
    "allocation": {"family": "load", "jobs": 6},
    "heterogeneous": {"family": "offline", "jobs": 6, "rounds": 60},
    "network": {"family": "epoch", "jobs": 6},
    "preemption": {"family": "crowded", "nodes": 6, "pods": 2},
}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("problem", FAMILIES)
def test_odd_names_stay_text_and_bytes_are_the_same(problem, suffix, tmp_path):
    """Names with dollars, underscores, angles, line breaks, letters that the font lacks."""
    plain = lo.generate(problem, **FAMILIES[problem])
    key = "gangs" if problem == "preemption" else "jobs"
    jobs = getattr(plain, key)
    names = [*ODD_NAMES, *(f"j{place}" for place in range(len(jobs)))]
    renamed = [replace(job, id=name) for job, name in zip(jobs, names, strict=False)]
    instance = replace(plain, name="$a$ <b>", **{key: renamed})
    answer = lo.solve(instance, time_limit_s=5)
    paths = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    for path in paths:
        lo.plot(instance, {"$a$ <b>": answer}, file=path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    if suffix == ".svg":
        text = paths[0].read_text()
        assert "$a$ &lt;b&gt;" in text
        assert "<script>" not in text


@pytest.mark.parametrize("problem", FAMILIES)
def test_a_picture_for_a_paper_is_a_column_wide_and_has_its_fonts(problem, tmp_path):
    """Fonts are embedded whole (Type 42); its data is that of the page, in readable columns.

    Every picture that a test writes is also checked for the size of its text, and for areas and
    lines that look the same without colours.
    """
    instance = lo.generate(problem, **FAMILIES[problem])
    answers = {"mine": lo.solve(instance, time_limit_s=5)}
    data = []
    for style in ("page", "paper"):
        picture = tmp_path / f"{style}.pdf"
        for shown in (None, answers):
            lo.plot(instance, shown, style=style, progress=False, file=picture)
        data.append(picture.with_suffix(".csv").read_text())
    pdf = picture.read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    (width,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ", pdf)
    assert float(width) == pytest.approx(3.17 * 72)
    assert data[0] == data[1]
    assert data[0].startswith("solution,")
    assert "\nmine," in data[0]


def test_data_of_a_picture_are_what_it_shows(tmp_path):
    """Who draws it again with another tool gets the same servers, jobs and GPUs."""
    fleet = lo.generate("reclaim", "span", servers=6, reclaim=2)
    answer = lo.solve(fleet, "exact")
    lo.plot(answer, progress=True, file=tmp_path / "fleet.svg")
    rows = pd.read_csv(tmp_path / "fleet.csv")
    servers, jobs = rows[rows.job.isna()], rows[rows.job.notna()]
    assert set(servers[servers.state == "given back"].server) == set(answer.solution.servers)
    assert set(jobs[jobs.state == "job preempted"].job) == set(answer.preempted_jobs)
    workers = [group.workers * job.gpus_per_worker for job in fleet.jobs for group in job.workers]
    assert jobs.gpus.sum() == sum(workers)
    progress = pd.read_csv(tmp_path / "fleet_progress.csv")
    assert progress.objective.dropna().iloc[-1] == answer.objective


def test_answers_have_their_solvers_names():
    """Two of one solver are told apart; without a solution none is drawn."""
    fleet = lo.generate("reclaim", "net", reclaim=6)
    answers = [lo.solve(fleet, name) for name in ("lyra-greedy", "exact", "exact")]
    titles = [axes.get_title(loc="left") for axes in lo.plot(fleet, answers, progress=False).axes]
    assert [title.partition("\n")[0] for title in titles] == ["lyra-greedy", "exact", "exact (2)"]


def told(wall_time_s):
    """Return an answer whose solver found 33 first, then the optimum, and proved it last."""
    values = [
        *((0.001, "objective", 33), (0.002, "dual_bound", 2), (wall_time_s / 2, "objective", 8)),
        *((wall_time_s, "objective", 8), (wall_time_s, "dual_bound", 8)),
    ]
    answer = lo.solve(lo.generate("reclaim", "net", reclaim=6), "exact")
    points = tuple(TrajectoryPoint(*value) for value in values)
    return replace(answer, trajectory=points, wall_time_s=wall_time_s)


def test_progress_is_drawn_as_steps():
    """Incumbent solid, bound dashed, each value from when it was known; a star is a proof."""
    axes = lo.plot_progress({"$mine$": told(60.0)}).axes[0]
    incumbent, bound, star = axes.lines
    assert incumbent.get_linestyle() == "-"
    assert incumbent.get_drawstyle() == bound.get_drawstyle() == "steps-post"
    assert list(zip(*incumbent.get_data(), strict=True)) == [(0.001, 33), (30.0, 8), (60.0, 8)]
    assert bound.get_linestyle() == "--"
    assert list(zip(*bound.get_data(), strict=True)) == [(0.002, 2), (60.0, 8)]
    assert (star.get_marker(), *star.get_data()) == ("*", [60.0], [8])
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel().endswith("(s)")


def test_progress_without_a_change_has_plain_numbers():
    """Values that differ by rounding look equal, and only kinds of points that exist are named."""
    answer = lo.solve(instance_of(4, job("a", 1, 2, 60)), "srw")
    points = [TrajectoryPoint(time_s, "objective", 9120 + time_s / 1e9) for time_s in (1.0, 2.0)]
    figure = lo.plot_progress(replace(answer, trajectory=tuple(points), status=lo.Status.FEASIBLE))
    low, high = figure.axes[0].get_ylim()
    assert high - low > 100
    figure.draw_without_rendering()
    assert figure.axes[0].yaxis.get_offset_text().get_text() == ""
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()][1:] == ["incumbent"]
    assert ", s)" in figure.axes[0].get_ylabel()


def test_progress_stands_below_solutions_where_there_is_some():
    """Of runs that took their time, or where it is asked for."""
    slow, quick = told(60.0), told(0.01)
    assert len(lo.plot(slow.instance, [slow, quick]).axes) == 3
    assert len(lo.plot(slow.instance, [slow, quick], progress=False).axes) == 2
    assert len(lo.plot(quick).axes) == 1
    assert len(lo.plot(quick, progress=True).axes) == 2
    unsolved = replace(slow, status=lo.solve(slow.instance).status, solution=None, objective=None)
    assert len(lo.plot(unsolved).axes) == 1
    with pytest.raises(lo.UserError, match="no answer has recorded incumbents"):
        lo.plot_progress(replace(slow, trajectory=()))


def test_what_cannot_be_drawn_is_said(tmp_path):
    """A solution of another instance, no solution, a file that is no picture."""
    fleet = lo.generate("reclaim", "net", reclaim=6)
    other = lo.solve(replace(fleet, name="another"), "scf")
    refused = {
        "mine: the solution is not valid": (
            lambda: lo.plot(fleet, {"mine": reclaim.Solution(("nowhere",))})
        ),
        "no solution to draw": lambda: lo.plot(fleet, []),
        r"must end in \.svg, \.png, \.pdf": lambda: lo.plot(fleet, file=tmp_path / "a.gif"),
        "style papr: unknown style; did you mean paper": lambda: lo.plot(fleet, style="papr"),
        r"must be an instance of a decision problem, not .* lo\.load": lambda: lo.plot("f.json"),
        "a solution of reclaim must be an answer or .*, not 3": lambda: lo.plot(fleet, [3]),
        'the solution is for the instance "another", not for': lambda: lo.plot(fleet, other),
        'answers must be objects that `solve` returned, not "x"': lambda: lo.plot_progress("x"),
    }
    for message, plot in refused.items():
        with pytest.raises(lo.UserError, match=message):
            plot()
