"""No replay is better than a bound that any command, function or page reports for its scheme."""

import json
from dataclasses import dataclass, replace

import pytest

import lyra_opt as lo
from lyra_opt.__main__ import main
from lyra_opt.core.gaps import percent_text
from lyra_opt.core.numbers import UP
from lyra_opt.experiments.simulation.measuring.bounds import (
    DECISIONS,
    MAKESPAN,
    MEAN_JCT,
    MEAN_QUEUE,
    decisions_of,
    require_kept,
    winnable,
)
from lyra_opt.experiments.simulation.measuring.comparison import rows_of
from lyra_opt.experiments.simulation.measuring.measures import variants_of
from lyra_opt.experiments.simulation.scenario.documents import shown_value
from lyra_opt.experiments.simulation.scenario.setup import SimulationError
from lyra_opt.experiments.simulation.showing.report import write_report
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.policy import QueuePolicy
from lyra_opt.simulation.scheme import Scheme, find_scheme, scheme_names
from lyra_opt.simulation.workload import Job, Workload
from tests.lyra_opt.simulation.in_rounds import cluster_of
from tests.lyra_opt.simulation.test_by_hand import workload
from tests.tables import tables

TRACE = "job_id,submit_time_s,gpus,duration_s\n" + "".join(
    f"j{number},{300 * number},{1 + number % 2},{4000 + 3000 * (number % 4)}\n"
    for number in range(7)
)
FIGURE_OF = {MEAN_JCT: "jct_mean_s", MEAN_QUEUE: "queue_mean_s", MAKESPAN: "makespan_s"}
CLUSTERS = tables(__file__)["clusters"]
TENURES = ("forever", "leases", "rounds", "epochs")
WITHOUT_BOUND = {"lyra-tuned", "pollux"}
QUICK = ["fifo", "lyra", "lyra-tuned", "tiresias", "hadare", "dally"]


def require_bounds_kept(cluster, scheme, folder, capsys, **more):
    """Check all bounds that are reported for one scheme; return whether the scheme runs."""
    trace = folder / "trace.csv"
    trace.write_text(TRACE)
    changes = {"jobs.oversized": "drop", **CLUSTERS[cluster], **more}
    asked = ["plain", "--jobs", str(trace), "--scheme", scheme]
    asked += [f"--set={key}={shown_value(value)}" for key, value in changes.items()]
    try:
        runs = lo.simulate("plain", jobs=trace, schemes=[scheme], changes=changes)
    except lo.UserError:
        return False
    if not runs.replays.runs:
        return False
    capsys.readouterr()
    if scheme in WITHOUT_BOUND:
        with pytest.raises(lo.UserError, match=f"no bound applies to scheme {scheme}"):
            lo.bound(runs)
        assert main(["bound", *asked]) == 2
        assert main(["simulate", *asked, "--bound"]) != 0
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.count(f"no bound applies to scheme {scheme}") >= 2
        return True
    found = lo.bound(runs).to_dict("records")
    assert main(["bound", *asked, "--format=json"]) == 0
    found += json.loads(capsys.readouterr().out)
    bounded = lo.simulate("plain", jobs=trace, schemes=[scheme], changes=changes | {"bounds": True})
    assert not bounded.replays.failed, bounded
    (left,) = winnable(variants_of(bounded.replays.runs))  # as the page shows it
    found += [{MEAN_JCT: left.bound_s, MEAN_QUEUE: 0}, bounded.replays.runs[0].figures]
    measured = runs.replays.runs[0].figures or {}
    for bounds in found:
        for bound, figure in FIGURE_OF.items():
            assert bounds.get(bound, 0) <= measured[figure] * (1 + 1e-9) + 1e-6, (bound, bounds)
    return True


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_no_bound_is_above_a_replay(cluster, tmp_path, capsys):
    """The schemes run copies, tune jobs, or do neither."""
    ran = {name for name in QUICK if require_bounds_kept(cluster, name, tmp_path, capsys)}
    assert ran >= {"fifo", "tiresias", "hadare"}
    assert ("lyra-tuned" in ran) == (cluster in ("alike", "loans"))


@pytest.mark.slow
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("tenure", [None, *TENURES])
def test_no_bound_is_above_a_replay_of_any_scheme(cluster, tenure, tmp_path, capsys):
    """Every scheme has its own tenure, and some schemes every other tenure, on every cluster."""
    more = {} if tenure is None else {"tenure.all": tenure}
    ran = [
        name
        for name in (QUICK if tenure else scheme_names())
        if require_bounds_kept(cluster, name, tmp_path, capsys, **more)
    ]
    assert ran


def two_jobs(**job):
    jobs = [Job(id=f"j{number}", submit_s=0.0, work_worker_s=40000.0, **job) for number in range(2)]
    return Workload(name="two", jobs=tuple(jobs))


def simulated(*schemes, jobs=None, **changes):
    asked = {"cluster.servers": 4, **changes}
    return lo.simulate("plain", jobs=jobs or two_jobs(), schemes=schemes, changes=asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned(Scheme):
    """A user's scheme that does not declare that its policy tunes jobs."""

    name: str = "mine"
    summary: str = "tunes"

    def policy(self, cluster, options):
        """Return the policy of lyra-tuned."""
        return find_scheme("lyra-tuned").policy(cluster, options)


def test_the_policy_counts_not_what_its_scheme_claims():
    """By hand: tuned jobs on eight GPUs need less than 40,000 / 8 s, which a bound denies."""
    runs = simulated(Tuned(), jobs=two_jobs(max_workers=8))
    assert runs.frame.jct_mean_s[0] < 5000
    with pytest.raises(lo.UserError, match="no bound applies to scheme mine"):
        lo.bound(runs)


def test_no_bound_applies_to_jobs_that_share_gpus():
    """By hand: two jobs that share a GPU at 75 % each finish sooner than one after the other."""
    alike = {"kind": "k", "a": 2.0}
    measured = [(name, 0, 6000, alike) for name in "xy"]
    jobs = workload({"jobs": measured, "packed": 0.75, "servers": [{"a": 1}]})
    cluster = cluster_of({"a": 1})
    runs = lo.simulate("plain", jobs=jobs, cluster=cluster, schemes=["gavel-gandiva"])
    assert runs.frame.makespan_s[0] < 6000
    with pytest.raises(lo.UserError, match="no bound applies to scheme gavel-gandiva"):
        lo.bound(runs)


def test_runs_of_several_schemes_have_the_bound_of_all():
    """By hand: a job takes 40,000 s, or about a quarter with copies on four servers."""
    alone, both = (lo.bound(simulated(*names)) for names in (["fifo"], ["fifo", "hadare"]))
    assert list(alone.reading) == ["restart", "conserved"]
    assert alone.jct_mean_bound_s.tolist() == pytest.approx([40000, 40000])
    assert list(both.reading) == ["conserved"]
    assert both.jct_mean_bound_s[0] < 12000
    assert (alone.has_copies.any(), both.has_copies.all()) == (False, True)
    with pytest.raises(lo.UserError, match="no such bound applies to scheme hadare"):
        lo.bound(simulated("fifo", "hadare"), readings="restart")
    with pytest.raises(lo.UserError, match="no bound applies to scheme pollux"):
        lo.bound(simulated("fifo", "pollux"))


@pytest.mark.parametrize(("scheme", "told"), [("hadare", None), ("pollux", "no bound applies")])
def test_rows_of_before_are_read_by_the_name_of_their_scheme(scheme, told):
    """Rows of version 0.2.0 do not record abilities; newer rows count as recorded."""
    runs = simulated(scheme)
    (run,) = runs.replays.runs
    setting = {key: run.setting[key] for key in run.setting if key not in ("reading", "has_copies")}

    def with_setting(setting, **figures):
        changed = replace(run, setting=setting, figures={**(run.figures or {}), **figures})
        return replace(runs, replays=replace(runs.replays, runs=(changed,)))

    if told:
        with pytest.raises(lo.UserError, match=told):
            lo.bound(with_setting(setting))
        return
    assert lo.bound(with_setting(setting)).jct_mean_bound_s[0] < 12000
    for abilities, figures, error, told in (
        ({"reading": None}, {}, lo.UserError, "no bound applies to scheme hadare"),
        ({"reading": "free"}, {}, lo.UserError, "its row is damaged"),
        ({}, {"jobs": 3}, lo.UserError, "has 3 jobs, but its scenario now has 2"),
        ({}, {"jct_mean_s": 1.0}, SimulationError, "jct_mean_s is 1.0, but proved to be at least"),
    ):
        recorded = {**abilities, "has_copies": True} if abilities else {}
        with pytest.raises(error, match=told):
            lo.bound(with_setting(setting | recorded, **figures))


class Sharing(QueuePolicy):
    """A policy that lets the second job share the GPUs of the first without declaring it."""

    def decide(self, view):
        """Start the first job, and let the second job share its GPUs."""
        (first, second) = self.waiting.values()
        self.start(view, first, view.fit(first) or [])
        shared = view.reserve(second, first.gpus, beside=first)
        view.start(second, shared, beside=first)


def test_a_policy_that_shares_gpus_has_to_say_so():
    """Otherwise bounds would be reported that do not apply to it."""
    (failed,) = simulated(Sharing).replays.failed
    assert "does not set packs = True" in (failed.message or "")


def figures_of(name, *changes):
    """Return the figures of each scheme of a scenario."""
    replays = lo.simulate(name, changes={"bounds": True, **dict(changes)}).replays
    assert not replays.failed
    return {run.scheme: run.figures or {} for run in replays.runs}


def test_what_forking_must_give_one_job():
    """By hand: an hour on the fastest GPU, or on all nodes with the sum of their rates."""
    found = figures_of(
        "forking",
        ("axes", {"jobs.workload": ["mix-1"]}),
        ("cluster.like", "hadare-aws"),
        ("schemes", ["hadar", "hadare"]),
    )
    rates = [18.0, 18.0, 6.0, 6.0, 1.81]  # ResNet-18 with batches of 128: V100, T4 a third, K80
    assert found["hadar"][MAKESPAN] == pytest.approx(3600, rel=1e-5)
    assert found["hadare"][MAKESPAN] == pytest.approx(3600 * rates[0] / sum(rates), rel=1e-5)
    assert found["hadar"][MEAN_JCT] > found["hadare"][MEAN_JCT], "only hadare has copies"
    for figures in found.values():
        assert figures[MEAN_JCT] <= figures["jct_mean_s"]
        assert figures[MAKESPAN] < figures["makespan_s"] < 1.1 * figures[MAKESPAN]


@pytest.mark.parametrize("figure", FIGURE_OF.values())
def test_a_replay_that_beats_what_is_proved_is_no_result(figure):
    """Either the replay or the bound is wrong then."""
    figures = dict.fromkeys((*FIGURE_OF, *FIGURE_OF.values()), 10.0)
    require_kept(figures, scheme="fifo")
    told = f"scheme fifo: {figure} is 9.9, but proved to be at least 10"
    with pytest.raises(SimulationError, match=told):
        require_kept({**figures, figure: 9.9}, scheme="fifo")


def test_each_scheme_is_held_against_what_it_may_do():
    """A scheme that resumes work may beat the bound for schemes that restart jobs."""
    found = figures_of(
        "lyra-paper",
        ("cluster.servers", 8),
        ("jobs.parameters.days", 1),
        ("schemes", ["fifo", "tiresias"]),
    )
    readings = {scheme: figures["bound_reading"] for scheme, figures in found.items()}
    assert readings == {"fifo": "restart", "tiresias": "conserved"}
    assert found["tiresias"][MEAN_JCT] <= found["fifo"][MEAN_JCT]
    for figures in found.values():
        assert 0 < figures[MEAN_JCT] <= figures["jct_mean_s"]
        assert figures["jct_above_bound_share"] >= 0


def test_clock_times_are_rounded_more_than_a_bound_is():
    """Unix times are rounded to a quarter of a microsecond, which must not refute a bound."""
    jobs = tuple(
        Job(id=f"j{number}", submit_s=1.7e9 + number, work_worker_s=work)
        for number, work in enumerate([0.3, 0.3, 0.1])
    )
    runs = lo.simulate(
        "plain",
        jobs=Workload(name="short", jobs=jobs),
        cluster=Cluster.of_servers(1, gpus_per_server=1),
        schemes=["fifo"],
        changes={"bounds": True},
    )
    assert not runs.replays.failed


EXCESS = ("jct_mean_s", "jct_mean_bound_s", "jct_above_bound_share")
"""Each is that of the means, so that the third row is the ratio of the two rows above it."""

CHANGES = {"cluster.servers": 8, "jobs.parameters.days": 1}


def test_what_is_left_is_the_distance_to_the_bound():
    """The possible saving is a share of the mean JCT, and its parts add up."""
    runs = lo.simulate(
        "lyra-paper", schemes=["fifo", "lyra"], seeds=2, changes={**CHANGES, "bounds": True}
    )
    found = {each.scheme: each for each in winnable(variants_of(runs.replays.runs))}
    assert list(found) == ["fifo", "lyra"]
    for scheme, each in found.items():
        rows = runs.frame[runs.frame.scheme == scheme]
        shares = (1 - rows.jct_mean_bound_s / rows.jct_mean_s).tolist()
        assert each.shares == pytest.approx(shares)
        assert all(0 <= share < 1 for share in each.shares)
        saving = 1 - rows.jct_mean_bound_s.mean() / rows.jct_mean_s.mean()
        assert each.most.startswith(f"{percent_text(saving, UP)} (by seed ")
        above_s = (rows.jct_mean_s - rows.least_run_mean_s).mean()
        assert sum(each.parts_s.values()) == pytest.approx(above_s, rel=1e-6, abs=1e-6)
    assert decisions_of(list(found.values()))
    assert set(decisions_of(list(found.values()))) <= set(DECISIONS)
    (variant,) = variants_of(runs.replays.runs)
    shown = {row.key: row.cells for row in rows_of(variant, variant.runs)}
    for mean, bound, excess in zip(*(shown[key] for key in shown if key in EXCESS), strict=True):
        assert excess.value == pytest.approx(mean.value / bound.value - 1)
    page = write_report(runs.replays).read_text()
    assert "What could still be won" in page
    assert page.count("can win more than") == len(found)


def test_a_page_without_bounds_promises_nothing():
    """Without a bound the page has no section on possible savings."""
    runs = lo.simulate("lyra-paper", schemes=["fifo"], changes=CHANGES)
    assert not list(winnable(variants_of(runs.replays.runs)))
    assert "What could still be won" not in write_report(runs.replays).read_text()
