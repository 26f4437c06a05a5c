"""Scenario files and cases: reading, changes, errors, and the setups built from them."""

import pickle

import pytest

import lyra_opt as lo
from lyra_opt.core.errors import InputError, UserError
from lyra_opt.experiments.simulation.measuring.demand import demand_by_day
from lyra_opt.experiments.simulation.scenario.building import make_cluster, make_setup
from lyra_opt.experiments.simulation.scenario.documents import bundled
from lyra_opt.experiments.simulation.scenario.loading import (
    Change,
    absent_cases,
    load_scenario,
    parse_change,
    variants,
)
from lyra_opt.experiments.simulation.scenario.schemes import make_schemes
from lyra_opt.experiments.simulation.showing.report import write_report
from tests.tables import beside, tables

TABLES = tables(__file__)


SMALL = beside(__file__, "small.toml")

JOBS = "job_id,submit_time_s,duration_s,gpus\na,0,86400,8\nb,0,86400,8\nc,172800,3600,1\n"


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a scenario and its trace."""
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "jobs.csv").write_text(JOBS)
    return tmp_path


def small(folder, *changes, **given):
    """Return the scenario of the folder with changes."""
    return load_scenario(str(folder / "small.toml"), map(parse_change, changes), **given)


class TestReading:
    """From text to tables."""

    def test_bundled_ones_are_called_as_their_files(self):
        """All scenarios can be read, except ``plain``, which lacks the number of servers."""
        assert {"plain", "lyra-paper", "hadar-60", "dally-batch"} <= set(bundled())
        for name in bundled():
            changes = [Change("cluster.servers", 3)] if name == "plain" else []
            assert load_scenario(name, changes).table.name == name
        with pytest.raises(InputError, match="cluster.servers is null: must be set, such as"):
            load_scenario("plain")

    @pytest.mark.parametrize(("text", "change"), TABLES["changes"])
    def test_changes(self, text, change):
        """Values are TOML; anything else is a text."""
        assert parse_change(text) == Change(*change)

    @pytest.mark.parametrize("text", ["cluster.servers", "=3", "a..b=3", ".a=1"])
    def test_what_is_no_change(self, text):
        """The error states the form of a change."""
        with pytest.raises(UserError, match="must be KEY=VALUE"):
            parse_change(text)

    @pytest.mark.parametrize(
        ("value", "rule"),
        [('[{name="a]"', "}] is missing"), ('[{name="a"]', "} is missing"), ("[a]", "texts in")],
    )
    def test_brackets_that_are_not_closed(self, value, rule):
        """The message names them; complete brackets lack quotes."""
        with pytest.raises(UserError, match=rule):
            parse_change(f"schemes={value}")

    def test_text_may_look_like_a_number(self, folder):
        """A virtual cluster may be named 6214e9."""
        assert small(folder, "jobs.vc=6214e9").table.jobs.vc == "6214e9"
        assert small(folder, "jobs.vc=007").table.jobs.vc == "007"

    def test_jobs_take_the_place_of_a_workload(self, folder):
        """``--jobs`` replaces the workload and its parameters, but not the assumptions."""
        jobs = str(folder / "jobs.csv")
        table = load_scenario("lyra-paper", jobs=jobs).table.jobs
        assert (table.trace, table.workload, table.parameters) == (jobs, None, {})
        assert table.assumptions is not None

    def test_what_was_changed_is_said(self, folder):
        """The stored text states all changes."""
        text = small(folder, "cluster.servers=5", jobs="jobs.csv").text
        assert "# run with cluster.servers = 5\n" in text
        assert "# run with the jobs of jobs.csv\n" in text
        assert text.endswith(SMALL)
        changed = small(folder, "description=For tests.", "cluster.servers=5")
        assert changed.description == (
            'For tests. Here with description = "For tests."; cluster.servers = 5.'
        )

    def test_layout_and_description_mean_nothing(self, folder):
        """Comments and descriptions do not change the hash; values do."""
        first = small(folder).meaning_hash
        (folder / "small.toml").write_text("# other\n" + SMALL)
        assert small(folder, "description=else").meaning_hash == first
        assert small(folder, "cluster.servers=3").meaning_hash != first

    def test_workers_are_sent_it(self, folder):
        """A pickled scenario is equal to the original."""
        scenario = small(folder, "gpu_types.odd.relative_speed=0.5")
        found = pickle.loads(pickle.dumps(scenario))
        assert found.table == scenario.table
        assert found.meaning_hash == scenario.meaning_hash

    @pytest.mark.parametrize(("change", "part"), TABLES["bad_keys"])
    def test_bad_keys(self, folder, change, part):
        """One line names file, key, value and rule."""
        with pytest.raises(InputError) as caught:
            small(folder, change)
        assert str(caught.value).startswith(f"{folder / 'small.toml'}: ")
        assert part in str(caught.value)


class TestMaking:
    """From tables to setups."""

    def test_own_types(self, folder):
        """Types of the scenario add to or replace the bundled types, with their prices."""
        groups = 'cluster.groups=[{servers=1,gpu_type="odd"},{servers=2,gpu_type="v100"}]'
        text = SMALL.replace("servers = 2\ngpus_per_server = 4\n", "")
        (folder / "small.toml").write_text(text)
        own = ("gpu_types.odd.relative_speed=2.5", "gpu_types.odd.price_per_hour=3")
        cluster = make_cluster(small(folder, groups, *own, "gpu_types.v100.price_per_hour=7"))
        assert cluster.gpus_of_type == {"odd": 8, "v100": 16}
        assert cluster.type_of["odd"].relative_speed == 2.5
        assert [each.price_per_hour for each in cluster.gpu_types] == [3, 7]
        lending = make_cluster(small(folder, groups, *own, "cluster.loans.gpu_type=odd"))
        assert lending.lent_type.relative_speed == 2.5
        with pytest.raises(UserError, match=r"cluster.groups\[0\].gpu_type is .odd.: unknown type"):
            make_cluster(small(folder, groups))

    def test_networks_stand_on_any_servers(self, folder):
        """Identical servers can have racks, a network and loans."""
        network = ("cluster.servers_per_rack=1", "cluster.network.links=congested-2")
        cluster = make_cluster(small(folder, *network, "cluster.loans.servers=3"))
        assert cluster.communication is not None
        assert (len(cluster.topology.racks), cluster.network) == (3, "congested-2")
        assert cluster.inference_servers == 3
        bundled_cluster = ("cluster.like=gavel-108", "cluster.servers_per_rack=9", network[1])
        cluster = make_cluster(load_scenario("plain", map(parse_change, bundled_cluster)))
        assert (len(cluster.topology.racks), cluster.network) == (3, "congested-2")

    def test_loans_in_proportion(self):
        """The default number of inference servers scales with the training servers."""
        assert make_cluster(load_scenario("lyra-paper")).inference_servers == 520
        changed = load_scenario("lyra-paper", [Change("cluster.servers", 10)])
        assert make_cluster(changed).inference_servers == 12

    def test_schemes_have_parameters_and_tenures(self, folder):
        """Labels are given, or list the changed parameters."""
        given = (
            'schemes=["fifo", {name="fifo", tenure="leases"}, {name="dally", window_leases=3},'
            ' {name="lyra", queue="first-come", label="mine"}]'
        )
        schemes = make_schemes(small(folder, given))
        found = [f"{scheme.name}: {scheme.tenure}" for scheme in schemes]
        named = ["fifo: forever", "fifo tenure=leases: leases"]
        assert found == [*named, "dally window_leases=3: leases", "mine: forever"]
        assert schemes[3].queue == "first-come"
        every = make_schemes(small(folder, "tenure.all=rounds"))
        assert [scheme.tenure for scheme in every] == ["rounds"]

    @pytest.mark.parametrize(("entry", "part"), TABLES["bad_parameters"])
    def test_bad_parameters(self, folder, entry, part):
        """The error names scheme, parameter and rule."""
        with pytest.raises(UserError, match=part):
            make_schemes(small(folder, f"schemes=[{entry}]"))

    def test_axes_of_lists_and_tables(self, folder):
        """Results name such values by their TOML text."""
        axes = (
            'axes={"tenure.rounds.copy_efficiency"=[[1.0], [1.0, 0.9]], '
            '"gpu_types.k80"=[{relative_speed=0.5}, {relative_speed=0.25}]}'
        )
        found = variants(small(folder, axes))
        assert [point["tenure.rounds.copy_efficiency"] for point, _ in found[::2]] == [
            "[1]",
            "[1, 0.9]",
        ]
        assert found[0][0]["gpu_types.k80"] == "{relative_speed = 0.5}"
        assert found[-1][1].table.tenure.rounds.copy_efficiency == (1.0, 0.9)
        assert found[-1][1].table.gpu_types["k80"].relative_speed == 0.25


class TestDemand:
    """The demand before a simulation."""

    def test_by_hand(self, folder):
        """Jobs request two days of 8 GPUs on the first day, and next to nothing on the third."""
        scenario = small(folder)
        days = demand_by_day(make_setup(scenario, make_schemes(scenario), 0))
        assert [day.load for day in days] == pytest.approx([2.0, 3600 / (8 * 86_400)])
        assert [day.backlog_days for day in days] == pytest.approx([1.0, 3600 / (8 * 86_400)])

    @pytest.mark.parametrize("speed", [0.5, 2.0])
    def test_own_gpus_count_by_their_speed(self, folder, speed):
        """The load depends on the speed of own GPUs."""
        text = SMALL.replace("servers = 2\ngpus_per_server = 4\n", "")
        (folder / "small.toml").write_text(text)
        groups = 'cluster.groups=[{servers=1,gpu_type="odd"}]'
        own = small(folder, groups, f"gpu_types.odd.relative_speed={speed}")
        setup = make_setup(own, make_schemes(own), 0)
        assert demand_by_day(setup)[0].load == pytest.approx(2.0 / speed)
        reference = f"of 8 GPUs, as fast as {8 * speed:.1f} reference GPUs"
        assert f"{100.26 / speed:.1f} % {reference}" in setup.demand_in_words

    def test_parts_of_gpus_count_as_parts(self, folder):
        """Sixteen jobs of a day; the line before the run has the same load as that by day."""
        rows = [f"{name},{day * 86_400},86400,1,500" for name in "abcdefgh" for day in (0, 1)]
        header = "job_id,submit_time_s,duration_s,gpus,gpu_thousandths\n"
        named = [row.replace(",", f"{number},", 1) for number, row in enumerate(rows)]
        (folder / "jobs.csv").write_text(header + "\n".join(named))
        for slices, load in (("part", 1.0), ("whole", 2.0)):
            scenario = small(folder, f"jobs.slices={slices}")
            setup = make_setup(scenario, make_schemes(scenario), 0)
            assert demand_by_day(setup)[0].load == pytest.approx(load)
            assert f"{100 * load:.1f} % of 8 GPUs" in setup.demand_in_words

    @pytest.mark.parametrize(("last", "start"), [("500", "no job can run"), ("", "job a asks for")])
    def test_quotas_count_whole_gpus(self, folder, last, start):
        """Such jobs are not too large, so the message names the key that lets them run."""
        rows = "job_id,submit_time_s,duration_s,gpus,gpu_thousandths,tenant\na,0,9,1,500,x\n"
        (folder / "jobs.csv").write_text(f"{rows}b,1,9,1,500,y\nc,2,9,1,{last},y\n")
        quotas = small(folder, "jobs.slices=part", "cluster.tenants.divide=equally")
        with pytest.raises(InputError, match=rf"{start}.*; jobs\.slices = \"whole\" gives such"):
            make_setup(quotas, make_schemes(quotas), 0)

    def test_loans_count(self, folder):
        """GPUs on loan add capacity by their speed."""
        own = small(folder)
        lent = small(folder, "cluster.loans.servers=3", "cluster.loans.headroom=0")
        alone, with_loans = (
            demand_by_day(make_setup(scenario, make_schemes(scenario), 0))
            for scenario in (own, lent)
        )
        assert with_loans[0].load < alone[0].load
        # Three servers of 8 T4, a third as fast, at most.
        assert with_loans[0].load >= alone[0].load * 8 / (8 + 8)


CASES = beside(__file__, "several.toml")


@pytest.fixture
def several(tmp_path, monkeypatch):
    """Write a file with three cases; the trace of the last case does not exist."""
    monkeypatch.setenv("LYRA_OPT_TRACES", str(tmp_path))
    path = tmp_path / "several.toml"
    path.write_text(CASES)
    return path


def test_cases_are_replayed_with_keys_of_the_file(several):
    """Keys of the file replace keys of a case, and axes replace both."""
    scenario = load_scenario(str(several))
    found = variants(scenario)
    assert [point for point, _ in found] == [
        {"case": case, "cluster.servers": servers}
        for case in ("lyra-paper", "lyra-ideal")
        for servers in (3, 4)
    ]
    assumptions = [variant.table.jobs.assumptions for _, variant in found]
    assert all(each is not None and each.fungible_percent == 50 for each in assumptions)
    assert [each is not None and each.all_elastic for each in assumptions] == [
        *(False, False, True, True)
    ]
    assert [variant.table.cluster.servers for _, variant in found] == [3, 4, 3, 4]
    assert found[2][1].table.speed.mixed_efficiency == 1


@pytest.mark.slow
def test_a_case_without_its_trace_is_left_out_and_named(several, tmp_path):
    """The page names the case that was not simulated."""
    assert absent_cases(load_scenario(str(several))) == {"philly": "philly_jobs.csv.gz"}
    runs = lo.simulate(
        several, changes={"axes": {"cluster.servers": [4]}, "jobs.parameters.days": 1}
    )
    assert list(runs.frame["case"]) == ["lyra-paper"] * 2 + ["lyra-ideal"] * 2
    page = write_report(runs.replays).read_text()
    assert "Case philly is left out: its trace philly_jobs.csv.gz does not exist." in page
    assert tmp_path.name not in page.replace(str(several), "")


def test_what_a_scenario_means_changes_with_its_cases(several):
    """A store must not be resumed with other cases, or after a trace has been added."""
    scenario = load_scenario(str(several))
    fewer = load_scenario(str(several), [Change("cases", ["lyra-paper"])])
    assert scenario.meaning_hash != fewer.meaning_hash
    before = scenario.meaning_hash
    (several.parent / "philly_jobs.csv.gz").write_bytes(b"")
    assert load_scenario(str(several)).meaning_hash != before


@pytest.mark.parametrize(("cases", "told"), TABLES["bad_cases"])
def test_cases_that_are_none_are_refused(several, cases, told):
    """One line names the key."""
    with pytest.raises(InputError, match=told):
        variants(load_scenario(str(several), [Change("cases", cases)]))
