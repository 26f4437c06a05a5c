"""Jobs of a scenario: load, bootstrapped days, samples, and the short day of a testbed."""

import pytest

from lyra_opt.core.errors import InputError
from lyra_opt.core.numbers import DAY_S
from lyra_opt.experiments.simulation.scenario.building import make_setup
from lyra_opt.experiments.simulation.scenario.loading import load_scenario, parse_change
from lyra_opt.network.links import Tier, find_link_set
from lyra_opt.simulation.speed import Speed
from tests.tables import tables

TABLES = tables(__file__)

SMALL = ("cluster.servers=4", "jobs.parameters.days=2")


def setup_of(name, *changes, seed=0):
    """Return the setup of a scenario."""
    scenario = load_scenario(name, map(parse_change, changes))
    return make_setup(scenario, [], seed)


def test_load_moves_submissions_and_nothing_else():
    """The same jobs request the stated share of GPU time between first and last submission."""
    before = setup_of("lyra-paper", *SMALL).workload
    after = setup_of("lyra-paper", *SMALL, "jobs.load=1.5").workload
    assert after.load(32) == pytest.approx(1.5)
    assert [job.work_worker_s for job in after.jobs] == [job.work_worker_s for job in before.jobs]
    with pytest.raises(InputError, match=r"jobs\.load is 0"):
        setup_of("lyra-paper", "jobs.load=0")


def test_each_seed_draws_days_of_a_trace(tmp_path):
    """A draw per seed, of the same days for all schemes; blocks are the cube root of 8 days."""
    path = tmp_path / "jobs.csv"
    rows = [f"j{half},{half * DAY_S // 2},60,1" for half in range(16)]
    path.write_text("\n".join(["job_id,submit_time_s,duration_s,gpus", *rows]) + "\n")
    given = ("cluster.servers=1", f"jobs.trace={path}", "jobs.bootstrap.days=8")
    setups = [setup_of("plain", *given, seed=seed) for seed in (0, 1, 1)]
    drawn = [[job.id for job in setup.workload.jobs] for setup in setups]
    assert drawn[0] != drawn[1] == drawn[2]
    assert {(each.resampling.block_days, each.resampling.source_days) for each in setups} == {
        (2, 8)
    }
    assert len({each.resampling.source for each in setups}) == 1
    fixed = setup_of("plain", *given, "jobs.bootstrap.draw=1").workload.jobs
    assert [job.id for job in fixed] == drawn[1]
    for wrong in ((*given[:2], "jobs.bootstrap.draw=1"), (*given, "jobs.bootstrap.block_days=9")):
        with pytest.raises(InputError, match=r"jobs\.bootstrap\."):
            setup_of("plain", *wrong)
    sources = [
        setup_of("lyra-paper", *SMALL, "jobs.bootstrap.days=2", seed=seed).resampling.source
        for seed in (0, 1)
    ]
    assert sources[0] != sources[1]


def test_slices_of_a_trace(tmp_path):
    """A job gets a whole GPU, or the part that it asks for, also where rates are measured."""
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_time_s,duration_s,gpus,gpu_thousandths\na,0,9,1,460\nb,0,9,1,\n")
    groups = '[{servers=1, gpu_type="v100"}, {servers=1, gpu_type="k80"}]'
    given = (f"cluster.groups={groups}", f"jobs.trace={path}")
    parts = setup_of("plain", *given, "jobs.slices=part").workload
    assert [job.gpu_thousandths for job in parts.jobs] == [460, None]
    assert [job.measured is None for job in parts.jobs] == [True, False]
    whole = setup_of("plain", *given).workload
    assert [job.gpu_thousandths for job in whole.jobs] == [None, None]
    assert "Jobs that ask for part of a GPU get a whole GPU (1 job)." in whole.assumptions


def test_day_of_demand_passes_within_the_hours_of_a_testbed():
    """The demand of a day is compressed to a third of the time; measured usage cannot be."""
    setup = setup_of("lyra-testbed")
    assert setup.loaning.demand.step_s == 100
    assert len(setup.loaning.plan.on_loan) * setup.loaning.plan.interval_s >= 86_400
    with pytest.raises(InputError, match=r"cluster\.loans\.day_s"):
        setup_of("lyra-testbed", "cluster.loans.usage=usage.csv")


def test_free_links_cost_nothing():
    """Communication takes no time at any tier."""
    links = find_link_set("free")
    assert all(links.at(tier).latency_s == 0 for tier in Tier)
    cluster = setup_of("dally-batch", "cluster.network.links=free").cluster
    assert cluster.network == "free"
    model = next(iter(cluster.communication.models()))
    assert cluster.communication.efficiency(model, 16, Tier.NETWORK, 2) == pytest.approx(1)


@pytest.mark.parametrize(("jobs", "changes", "speed", "said"), TABLES["measured_on"])
def test_running_times_are_those_of_the_gpus_on_which_they_were_measured(
    write, jobs, changes, speed, said
):
    """The scenario's key comes first, then the layout, then the only type that a job requests."""
    path = write(TABLES["jobs"][jobs], "trace.csv")
    measured_s = 1548 * 0.02132 if jobs == "measured" else 1000
    setup = setup_of("plain", f"jobs.trace={path}", "cluster.servers=1", *changes)
    (job,) = setup.workload.jobs
    work_gpu_s = Speed(setup.cluster).least_gpu_s(job)
    assert work_gpu_s == pytest.approx(measured_s / speed, rel=1e-4)
    told = [each for each in setup.workload.assumptions if "unning times of 1 job" in each]
    assert said in "".join(told)
    assert len(told) == bool(said)


def test_pollux_jobs_say_that_they_were_measured_on_t4(tmp_path, monkeypatch):
    """The jobs take equally long on T4 GPUs of any relative speed."""
    (tmp_path / "workload-6.csv").write_text(TABLES["jobs"]["measured"])
    monkeypatch.setenv("LYRA_OPT_TRACES", str(tmp_path))
    found = []
    for changes in ((), ("gpu_types.t4.relative_speed=0.5",)):
        setup = setup_of("pollux", *changes)
        found.append(Speed(setup.cluster).least_gpu_s(setup.workload.jobs[0]))
    assert found[0] == pytest.approx(found[1])
