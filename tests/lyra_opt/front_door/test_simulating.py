"""`lo.simulate`: what a scenario file can say, Python can; what comes of it as data frames."""

import gc
import subprocess
import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import pytest

import lyra_opt as lo
from lyra_opt.allocation.heuristics.policy_solver import Afs
from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.policy import QueuePolicy
from lyra_opt.simulation.scheme import ComposedScheme, OwnScheme, find_scheme
from lyra_opt.simulation.workload import Job, Workload
from tests.pictures import faults_of
from tests.tables import tables

ONE_SERVER = {"cluster.servers": 1}
TWO_SIZES = {"cluster": {"servers": 1}, "axes": {"cluster.servers": [1, 2]}}
SMALL = {"cluster.servers": 4, "jobs.parameters.days": 1}

TRACE = pd.DataFrame(
    {
        "job_id": ["a", "b", "c", "d"],
        "submit_time_s": [10.0, 10.0, 40.0, 70.0],
        "duration_s": [600.0, 600.0, 60.0, 60.0],
        "gpus": [8, 8, 4, 4],
    }
)
"""On one server of 8 GPUs first come, first served makes c and d wait for both others."""


def jct_s(runs):
    return list(runs.frame.jct_mean_s)


def test_schemes_and_seeds_are_rows():
    runs = lo.simulate("lyra-paper", schemes=["fifo", "lyra"], seeds=range(2), changes=SMALL)
    assert list(zip(runs.frame.scheme, runs.frame.seed, strict=True)) == [
        ("fifo", 0),
        ("lyra", 0),
        ("fifo", 1),
        ("lyra", 1),
    ]
    assert (runs.frame.status == "finished").all()
    assert {"jct_p50_s", "queue_mean_s", "preemptions", "wall_time_s"} <= set(runs.frame)
    of_jobs = runs.jobs.groupby(["scheme", "seed"]).jct_s.mean()
    for row in runs.frame.itertuples():
        assert of_jobs[row.scheme, row.seed] == pytest.approx(row.jct_mean_s)
    assert set(runs.series.groupby(["scheme", "seed"]).size().index) == set(of_jobs.index)


def test_axes_are_columns():
    runs = lo.simulate(TWO_SIZES, jobs=TRACE, schemes=["fifo", "sjf"])
    for frame in (runs.frame, runs.jobs, runs.series):
        assert list(frame.columns[:3]) == ["scheme", "cluster.servers", "seed"]
    assert list(runs.frame["cluster.servers"]) == [1, 1, 2, 2]
    assert "cluster.servers = 2, data frame on 2x8" in str(runs)


def test_by_hand():
    """Both large jobs one after the other, then both small ones at once."""
    (jct,) = jct_s(lo.simulate(jobs=TRACE, cluster=Cluster.of_servers(1), schemes=["fifo"]))
    assert jct == pytest.approx((600 + 1200 + 1230 + 1200) / 4)


def test_ways_to_say_the_same(tmp_path):
    """A file, a dictionary and objects; a trace as a file and as a frame."""
    text = '\n[cluster]\nservers = 1\n[jobs]\ntrace = "t.csv"\n'
    head = 'format = "lyra-opt/scenario"\nversion = 1\nname = "mine"\nschemes = ["sjf"]'
    (tmp_path / "mine.toml").write_text(head + text)
    TRACE.to_csv(tmp_path / "t.csv", index=False)
    trace = tmp_path / "t.csv"
    servers = {"cluster.servers": np.int64(1)}
    found = [
        lo.simulate(tmp_path / "mine.toml"),
        lo.simulate("plain", jobs=trace, changes=servers, schemes=["sjf"]),
        lo.simulate(jobs=TRACE, changes=servers, schemes=["sjf"]),
        lo.simulate({"cluster": {"servers": 1}, "jobs": {"trace": trace}, "schemes": ["sjf"]}),
        lo.simulate({"cluster": {"servers": 1}}, jobs=TRACE, schemes=["sjf"]),
        lo.simulate(jobs=TRACE, cluster=Cluster.of_servers(1), schemes=[find_scheme("sjf")]),
    ]
    assert len({tuple(jct_s(runs)) for runs in found}) == 1


def test_what_is_assumed_of_traces_is_not_of_workloads():
    """A trace does not say who is elastic; a workload does, and nothing may undo it."""
    jobs = tuple(Job(id=f"j{n}", submit_s=n, work_worker_s=900.0, max_workers=4) for n in range(9))
    own = Workload(name="own", jobs=jobs)
    changes = {"cluster.servers": 1, "cluster.loans.servers": 0}
    for given in (own, own.to_frame()):
        runs = lo.simulate("lyra-paper", jobs=given, changes=changes, schemes=["lyra"])
        assert (runs.jobs.max_workers == 4).all()
    of_trace = lo.simulate("lyra-paper", jobs=TRACE, changes=changes, schemes=["lyra"])
    assert any("elastic" in each for each in of_trace.replays.runs[0].assumptions)


def test_borrowed_servers_of_a_cluster_that_is_given():
    """They are lent by the rules of the scenario, and are as many as the cluster says."""
    cluster = Cluster.of_servers(2, inference_servers=3)
    runs = lo.simulate("lyra-paper", cluster=cluster, changes={"jobs.parameters.days": 1})
    assert set(runs.frame.inference_servers) == {3}
    alone = lo.simulate(
        "lyra-paper", cluster=Cluster.of_servers(2), changes={"jobs.parameters.days": 1}
    )
    assert set(alone.frame.inference_servers) == {0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picky(ComposedScheme):
    """Runs no wide jobs."""

    def obstacle(self, workload, cluster, tenure):
        return "too wide" if any(job.min_gpus > 4 for job in workload.jobs) else None


def test_a_scheme_that_was_mended_is_another_one():
    """In a notebook a scheme is run, mended and run again under the same name."""
    changes = {"cluster.servers": 1, "jobs.oversized": "drop"}
    for kind, jobs in ((Picky, 2), (ComposedScheme, 4)):
        runs = lo.simulate(jobs=TRACE, changes=changes, schemes=[kind(name="mine", summary="")])
        assert list(runs.frame.jobs) == [jobs]


def test_schemes_in_every_form():
    own = ComposedScheme(name="mine", summary="shortest first", queue="shortest")
    schemes = ["sjf", own, {"name": "fifo", "queue": "shortest", "label": "told"}]
    runs = lo.simulate(jobs=TRACE, changes=ONE_SERVER, schemes=schemes)
    assert list(runs.frame.scheme) == ["sjf", "mine", "told"]
    assert len(set(jct_s(runs))) == 1


class FirstInFile(ReclaimHeuristic):
    """Gives back the first servers."""

    name = "first-in-file"

    def choose(self, instance, rng):
        return [int(server) for server in instance.index.on_loan[: instance.reclaim_servers]]


class Hold(QueuePolicy):
    """Starts jobs as they come, on all GPUs but some.

    Not hashable, as a user's data class is that can be changed.
    """

    __hash__ = None

    def __init__(self, gpus=0):
        super().__init__()
        self.gpus = gpus

    def decide(self, view):
        for run in list(self.waiting.values()):
            fits = view.hosts.free[0] - run.job.min_gpus >= self.gpus
            if fits and (parts := view.fit(run)):
                self.start(view, run, parts)


def test_parts_of_schemes_are_classes_and_objects():
    """As docs/own.md says: wherever a name can stand, in the parameters of a scheme too."""
    schemes = [
        {"name": "lyra", "reclaimer": FirstInFile},
        {"name": "lyra", "reclaimer": FirstInFile(), "label": "object"},
        {"name": "lyra-scaling", "scaling": Afs()},
        {"name": find_scheme("lyra"), "reclaimer": FirstInFile, "label": "both"},
    ]
    changes = {**ONE_SERVER, "cluster.loans.servers": 3}
    runs = lo.simulate(jobs=TRACE.assign(gpus=8), changes=changes, schemes=schemes)
    assert list(runs.frame.status) == ["finished"] * 4
    assert list(runs.frame.scheme)[:2] == ["lyra reclaimer=FirstInFile", "object"]


def test_policies_have_parameters_and_labels_in_dictionaries():
    """So two objects of one class, or a class with two values, can be compared."""
    objects = [{"name": Hold(), "label": "all"}, {"name": Hold(4), "label": "half"}]
    schemes = [Hold, {"name": Hold, "gpus": 4}, *objects]
    runs = lo.simulate(jobs=TRACE.assign(gpus=4), changes=ONE_SERVER, schemes=schemes)
    assert list(runs.frame.scheme) == ["Hold", "Hold gpus=4", "all", "half"]
    everything, half, all_again, half_again = jct_s(runs)
    assert everything == all_again < half == half_again


class Broken(QueuePolicy):
    """Nothing works."""

    def decide(self, view):
        raise RuntimeError("nothing works")


def test_jobs_that_differ_far_down_are_other_jobs(tmp_path):
    """In memory, in clusters, in a store that is gone on with, and in a file that was changed."""
    rows = pd.concat([TRACE.assign(job_id=TRACE.job_id + str(n)) for n in range(15)])
    longer = rows.assign(duration_s=[*rows.duration_s[:-1], 60_000.0])
    fifo = partial(lo.simulate, "plain", schemes=["fifo"], changes=ONE_SERVER)
    first, second = jct_s(fifo(jobs=rows, out=tmp_path)), jct_s(fifo(jobs=longer))
    assert second[0] - first[0] == pytest.approx(59_940 / len(rows))
    with pytest.raises(lo.UserError):
        fifo(jobs=longer, out=tmp_path, resume=True)
    path = tmp_path / "jobs.csv"
    for jobs, expected in ((rows, first), (longer, second)):
        jobs.to_csv(path, index=False)
        assert jct_s(fifo(jobs=str(path))) == pytest.approx(expected)


def test_failed_replays_are_rows_and_said(capsys):
    """Or the mean over the others would be taken for that over all."""
    runs = lo.simulate(jobs=TRACE, changes=ONE_SERVER, schemes=["fifo", Broken])
    assert "failed: Broken seed=0" in capsys.readouterr().err
    assert list(runs.frame.status) == ["finished", "error"]
    assert "nothing works" in runs.frame.message[1]
    assert "failed: Broken" in str(runs)
    assert "failed: Broken" in runs._repr_html_()
    assert set(runs.jobs.scheme) == {"fifo"}


def test_processes_give_the_same():
    """Whether all can be sent to them or, as a function of this test, cannot."""
    closure = OwnScheme(name="own", summary="a closure", make=lambda: _sjf_policy())
    for schemes in (["fifo", "sjf"], ["fifo", closure]):
        one, two = (
            lo.simulate(jobs=TRACE, changes=ONE_SERVER, schemes=schemes, processes=processes)
            for processes in (1, 2)
        )
        pd.testing.assert_frame_equal(one.jobs, two.jobs)


def _sjf_policy():
    from lyra_opt.simulation.scheme import Options

    return find_scheme("sjf").policy(Cluster.of_servers(1), Options())


SCRIPT = tables(__file__)["script"]


def test_a_script_needs_no_guard(tmp_path):
    """A worker that ran the user's script again would start workers itself."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout == "begun\n2 0\n"
    assert found.stderr == ""  # nobody watches


def test_folders(tmp_path, capsys):
    """One that is given is kept, and read by `load_study`; another is gone with its runs."""
    out = tmp_path / "out"
    given = {"jobs": TRACE, "changes": ONE_SERVER}
    kept = lo.simulate(**given, out=out, progress=True)
    assert "1 run to do" in capsys.readouterr().err
    assert list(lo.load_study(out).jct_mean_s) == jct_s(kept)
    with pytest.raises(lo.UserError, match="already exists"):
        lo.simulate(**given, out=out)
    assert jct_s(lo.simulate(**given, out=out, resume=True)) == jct_s(kept)
    with pytest.raises(lo.UserError, match="another study"):
        lo.simulate(**given | {"jobs": TRACE.head(2)}, out=out, resume=True)
    runs = lo.simulate(**given)
    folder = runs.replays.folder
    assert folder.is_dir()
    del runs
    gc.collect()
    assert not folder.exists()


def test_pictures_show_every_variant(tmp_path):
    runs = lo.simulate(TWO_SIZES, jobs=TRACE, schemes=["fifo", "sjf"])
    figure = runs.plot()
    assert [part.get_suptitle() for part in figure.subfigs] == [
        "cluster.servers = 1",
        "cluster.servers = 2",
    ]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["fifo", "sjf", "own GPUs"]
    names = ["Queuing time", "Job completion time", "GPUs that jobs hold"]
    assert [axes.get_title() for axes in figure.subfigs[0].axes] == names
    runs.plot("over_axis_1", style="paper", file=tmp_path / "a.pdf")
    assert set(pd.read_csv(tmp_path / "a.csv")["cluster.servers"]) == {1, 2}
    with pytest.raises(lo.UserError, match="do not have this picture; did you mean over_axis_1"):
        runs.plot("over_axis_2")


@pytest.mark.parametrize("hours", [1.01, 2.5, 10.1, 97.0])
def test_the_axis_of_a_distribution_has_at_least_two_ticks(hours):
    jobs = TRACE.assign(duration_s=3600 * hours, submit_time_s=[1e6 * n for n in range(len(TRACE))])
    figure = lo.simulate("plain", jobs=jobs, changes=ONE_SERVER).plot("distributions")
    first, last = figure.axes[1].get_xlim()
    assert sum(first <= tick <= last for tick in figure.axes[1].get_xticks()) >= 2
    assert faults_of(figure) == []


def test_a_time_axis_that_is_cut_says_so():
    """One of 200 jobs is long, and the axis ends before it does."""
    jobs = pd.concat([TRACE.tail(1).assign(job_id=f"j{number}") for number in range(200)])
    jobs.iloc[0, jobs.columns.get_loc("duration_s")] = 1e6
    runs = lo.simulate("plain", jobs=jobs, changes=ONE_SERVER)
    of_panel = runs.plot().subfigs[0].axes[2].get_xlabel()
    for text in (runs.plot("over_time").get_supxlabel(), of_panel):
        assert "axis ends when 99 % of the jobs" in text.replace("\n", " ")


OBJECTS = {
    "row 0, column gpus is": {"jobs": TRACE.assign(gpus=0)},
    "must include submit_s": {"jobs": pd.DataFrame({"id": ["a"], "work_worker_s": 1.0})},
    "is named twice; give one of them another label": {"schemes": ["fifo", find_scheme("fifo")]},
    "object must be a text, a number": {"changes": {"cluster.servers": object()}},
    "schemes.lyra.reclaimr is .*did you mean reclaimer": {
        "schemes": [{"name": "lyra", "reclaimr": FirstInFile}]
    },
    "scheme FirstInFile: is a solver of reclaim, not a scheme": {
        "schemes": [{"name": FirstInFile}]
    },
    "is a file, not a folder": {"out": __file__},
    "cluster.servers is 1: must not be set": {
        "scenario": TWO_SIZES,
        "cluster": Cluster.of_servers(2),
        "schemes": ["sjf"],
        "changes": {},
    },
}
CLUSTER = Cluster.of_servers(2, inference_servers=2)
OBJECTS |= {
    f"cluster.{key} is 4: must not be set": {"cluster": CLUSTER, "changes": {f"cluster.{key}": 4}}
    for key in ("servers", "gpus_per_server", "loans.servers")
}


@pytest.mark.parametrize(
    ("given", "message"),
    [*tables(__file__)["refused"], *((given, message) for message, given in OBJECTS.items())],
)
def test_refused(given, message):
    """Before anything is simulated, in one line."""
    with pytest.raises(lo.UserError, match=message) as caught:
        lo.simulate(**{"jobs": TRACE, "changes": ONE_SERVER} | given)
    assert "\n" not in str(caught.value)
