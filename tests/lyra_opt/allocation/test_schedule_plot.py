"""Pictures of schedules: what they show, and what ``--plot`` refuses before it solves."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from lyra_opt.allocation.heuristics.policy_solver import ShortestJobFirst
from lyra_opt.allocation.plot import MOST_BANDS, drawing_of_schedules, job_colours, layers_of
from lyra_opt.core.pictures import MOST_NAMED, UNNAMED_COLOURS, save_picture
from lyra_opt.instances.family import generate
from tests.lyra_opt.allocation.examples import example, instance_of, job
from tests.lyra_opt.allocation.schedules.test_evaluator import SCHEDULES
from tests.lyra_opt.allocation.schedules.test_evaluator import smallest_remaining_work as srw


@given(instance=SCHEDULES)
def test_layers_stack_what_jobs_hold(instance):
    """At any time the layers lie one on the other, each as high as its job's GPUs."""
    schedule = srw(instance)
    end_s = max(piece.end_s for piece in schedule.pieces)
    layers = layers_of(instance, schedule, job_colours(instance), end_s)
    for cell, (start_s, past_s) in enumerate(pairwise(layers.edges_s)):
        held = {
            instance.job_position[piece.job]: piece.workers
            * instance.jobs[instance.job_position[piece.job]].gpus_per_worker
            for piece in schedule.pieces
            if piece.start_s <= start_s and past_s <= piece.end_s
        }
        drawn = zip(layers.jobs, layers.held[:, cell].tolist(), strict=False)
        assert {job: gpus for job, gpus in drawn if gpus} == pytest.approx(held)
        assert layers.top[-1, cell] == pytest.approx(sum(held.values()))


def test_colours_go_to_the_dozen_with_most_work():
    """The others are grey, and the legend says how many they are."""
    instance = instance_of(8, *(job(f"j{i}", 1, 2, 10.0 + i) for i in range(20)))
    colours = job_colours(instance)
    named = [i for i, colour in enumerate(colours) if colour not in UNNAMED_COLOURS]
    assert named == list(range(20 - MOST_NAMED, 20))
    assert len({colours[i] for i in named}) == MOST_NAMED
    figure = drawing_of_schedules(instance, {"srw": srw(instance)}).figure()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:4] == ["release", "start", "completion", "8 GPUs"]
    assert labels[-1] == "8 others"


def test_two_policies_one_above_the_other():
    """On the same axes, each with its name and mean JCT; times have a unit."""
    schedules = {"srw": srw(example()), "sjf": srw(example())}
    figure = drawing_of_schedules(example(), schedules).figure()
    above, below = figure.axes
    assert above.get_title(loc="left") == "srw: mean JCT 41.67 s"
    assert below.get_xlabel() == "Time (s)"
    assert above.get_ylabel() == "GPUs held by workers"
    assert above.get_xlim() == below.get_xlim()
    long = instance_of(1, job("$a$ <b>", 1, 1, 20_000.0))
    assert (
        drawing_of_schedules(long, {"srw": srw(long)}).figure().axes[0].get_xlabel() == "Time (h)"
    )


def test_many_jobs_are_drawn_as_averages(tmp_path):
    """The areas add up to the GPU work, and the file stays small."""
    instance = generate("allocation", "load", jobs=MOST_BANDS + 1, release_percent=80, seed=1)
    schedule = ShortestJobFirst().schedule(instance, np.random.default_rng(0))
    figure = drawing_of_schedules(instance, {"sjf": schedule}).figure()
    area = 0.0
    for stairs in figure.axes[0].patches:
        values, edges, baseline = stairs.get_data()
        area += float(np.nansum((values - baseline) * np.diff(edges)))
    assert area == pytest.approx(sum(each.work_worker_s for each in instance.jobs))
    save_picture(tmp_path / "many.svg", figure)
    assert (tmp_path / "many.svg").stat().st_size < 3_000_000
