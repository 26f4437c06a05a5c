"""``lyra-opt scenarios`` and ``schemes`` list what exists, and agree with the parser."""

import gzip
import re
import shlex
import tomllib
from contextlib import nullcontext
from importlib.metadata import EntryPoint
from pathlib import Path

import jsonschema
import pytest

from lyra_opt.__main__ import make_parser
from lyra_opt.core.described import described
from lyra_opt.core.errors import InputError
from lyra_opt.experiments.simulation.commands import given_scenario
from lyra_opt.experiments.simulation.running.tasks import replay_tasks
from lyra_opt.experiments.simulation.scenario.building import make_setup
from lyra_opt.experiments.simulation.scenario.documents import bundled, toml_text, with_case
from lyra_opt.experiments.simulation.scenario.keys import ScenarioTable
from lyra_opt.experiments.simulation.scenario.loading import load_scenario, parse_change
from lyra_opt.experiments.simulation.scenario.schemes import make_schemes
from lyra_opt.instances.workloads.named import WORKLOADS
from lyra_opt.instances.workloads.pollux import POLLUX_FILES
from lyra_opt.simulation.scheme import SCHEMES, scheme_names
from tests.conftest import assert_one_line_error
from tests.experiments.simulation.conftest import HEADER, ONE_SERVER, figures
from tests.tables import tables

TABLES = tables(__file__)


REPOSITORY = Path(__file__).parents[3]

REDUCED = TABLES["reduced"]
"""What makes a scenario small, by its workload or name."""


@pytest.fixture
def no_traces(tmp_path, monkeypatch):
    """Change to a folder with a trace of small jobs, and hide all other traces."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LYRA_OPT_TRACES", raising=False)
    path = tmp_path / "small.csv"
    rows = [f"6214e9,j{n},{3600 * n},3600,{1 + n % 4}\n" for n in range(48)]  # one of Philly's
    path.write_text(f"vc,{HEADER}{''.join(rows)}")
    usage = [f"2020-05-01 00:{minute:02d}:00,100,50\n" for minute in range(0, 60, 5)]
    series = "time,total_gpu_num,running_gpu_num\n" + "".join(usage)
    (tmp_path / "helios_earth_vc_usage_1min_2020-05.csv.gz").write_bytes(
        gzip.compress(series.encode())
    )
    rates = "service,window_start_s,requests_per_s\na,0,2\na,600,1\n"
    (tmp_path / "servegen_request_rates_10min.csv.gz").write_bytes(gzip.compress(rates.encode()))
    # Of all lengths that hadar-480 draws from; the first is the beginning of its first day.
    hours = (0.5, 5, 20, 70)
    lines = [f"t{n},{20_000 + n},{3600 * hours[n % 4]},1\n" for n in range(8)]
    text = HEADER + "first,0,60,1\n" + "".join(lines)
    (tmp_path / "philly_jobs.csv.gz").write_bytes(gzip.compress(text.encode()))
    job = "name,time,application,num_replicas,batch_size\ncifar10-0,30,cifar10,1,128\n"
    for file in POLLUX_FILES:
        (tmp_path / file).write_text(job)
    return path


@pytest.mark.parametrize("name", bundled())
def test_bundled_scenarios_are_what_they_say(name, no_traces):
    """Each scenario builds at a reduced size, and all its schemes can run."""
    document = tomllib.loads(bundled()[name].read_text(encoding="utf-8"))
    assert document["name"] == name
    assert document["description"]
    for case in document.get("cases", ()):
        document.setdefault("jobs", with_case({}, case)["jobs"])
    jobs = document.get("jobs", {})
    wants_trace = "workload" not in jobs
    reduced = REDUCED.get(jobs.get("workload", name), ())
    scenario = load_scenario(
        name, map(parse_change, reduced), jobs=str(no_traces) if wants_trace else None
    )
    schemes = make_schemes(scenario)
    setup = make_setup(scenario, schemes, scenario.table.seeds[0])
    assert setup.workload.jobs
    assert setup.scenario == name
    assert len(schemes) == len(document["schemes"])
    for scheme in schemes:
        tenure = setup.options.tenure(scheme.tenure)
        assert scheme.obstacle(setup.workload, setup.cluster, tenure) is None


SHOWN = sorted(
    {
        command.strip()
        for file in (
            *(REPOSITORY / name for name in ("README.md", "Makefile")),
            REPOSITORY / "lyra_opt/command_line.toml",
            *REPOSITORY.glob("docs/[!_]*/*.md"),
            *REPOSITORY.glob("docs/[!o]*.md"),  # own.md has files of its own, and tests
        )
        for command in re.findall(
            r'^.*(?<!")\blyra-opt (simulate [^\n\\`|]*)(?:[`|].*)?$', file.read_text(), re.MULTILINE
        )
    }
)
"""Commands that documents show."""


@pytest.mark.parametrize("command", SHOWN)
def test_commands_that_are_shown_are_understood(command, no_traces):
    """Every scenario, key and scheme in the documentation exists; jobs and files are the user's."""
    philly, itp = (
        no_traces.parent / f"{name}_jobs.csv.gz" for name in ("philly", "microsoft_itp2021")
    )
    itp.write_bytes(philly.read_bytes())
    shown = command.replace("$@", "out").partition(" > ")[0]
    arguments = make_parser().parse_args(shlex.split(shown))
    if arguments.scenario.endswith(".toml"):  # the user's own
        arguments.scenario = "lyra-paper"
    if arguments.jobs is not None:  # the user's own, too
        arguments.jobs = str(no_traces)
    schemes = [scheme for scheme in arguments.schemes if ".py:" not in scheme]
    arguments.changes = [change for change in arguments.changes if ".py:" not in change]
    assert replay_tasks(given_scenario(arguments, arguments.seeds), schemes)


class TestScenarios:
    """``lyra-opt scenarios``."""

    def test_list(self, run):
        """Every scenario is listed with its description."""
        exit_code, out, _ = run("scenarios", "list")
        assert exit_code == 0
        for name, entry in bundled().items():
            begins = tomllib.loads(entry.read_text(encoding="utf-8"))["description"].split()[:3]
            assert re.search(
                rf"^{re.escape(name)} +{re.escape(' '.join(begins))}", out, re.MULTILINE
            )

    @pytest.mark.parametrize("name", ["plain", "lyra-paper"])
    def test_show(self, run, write, name):
        """The text is shown word for word, so that a copy has the same meaning."""
        exit_code, out, _ = run("scenarios", "show", name)
        assert exit_code == 0
        assert out == bundled()[name].read_text(encoding="utf-8")
        path = write(out, "mine.toml")
        given = [parse_change("cluster.servers=9")]
        assert (
            load_scenario(str(path), given).meaning_hash == load_scenario(name, given).meaning_hash
        )
        assert_one_line_error(run("scenarios", "show", "plan"), "'plan'", "did you mean plain?")

    def test_keys(self, run):
        """Every key has values, a default and a meaning."""
        exit_code, out, _ = run("scenarios", "keys")
        assert exit_code == 0
        assert max(map(len, out.splitlines())) <= 100
        unfolded = out.replace("\n        ", " ")
        found = list(described(ScenarioTable))
        assert len({each.path for each in found}) == len(found)
        for each in found:
            assert f"{each.path}  ({each.values}; default: {each.default})\n    " in unfolded
            assert each.meaning, each.path
        for part in ("cluster.loans.headroom", "tenure.rounds.round_s", "jobs.assumptions."):
            assert f"\n{part}" in out

    def test_parts(self, run):
        """Every part is listed under the key that can name it."""
        exit_code, out, _ = run("scenarios", "parts")
        assert exit_code == 0
        sections = re.split(r"^(?=\S)", out, flags=re.MULTILINE)[1:]
        of_key = {section.partition(":\n")[0]: section for section in sections}
        for key, names in TABLES["parts"].items():
            for name in names:
                assert re.search(rf"^  {name}\b", of_key[key], re.MULTILINE), (key, name)
        assert "jobs.parameters: days, jobs" in " ".join(of_key["jobs.workload"].split())


class TestSchema:
    """``lyra-opt scenarios schema``, for editors."""

    @pytest.fixture
    def validator(self, run):
        """Return a function that validates documents by the printed schema."""
        schema = figures(run("scenarios", "schema"))
        jsonschema.Draft202012Validator.check_schema(schema)
        return jsonschema.Draft202012Validator(schema)

    def test_bundled_scenarios_are_valid(self, validator):
        """The parser and the schema accept every bundled scenario."""
        for name, entry in bundled().items():
            document = tomllib.loads(entry.read_text(encoding="utf-8"))
            assert [error.message for error in validator.iter_errors(document)] == [], name

    @pytest.mark.parametrize(("changed", "is_valid"), TABLES["schema"])
    def test_it_agrees_with_the_parser(self, validator, write, changed, is_valid):
        """Schema and parser accept the same documents, and both refuse unknown keys."""
        document = TABLES["mine"] | changed
        assert validator.is_valid(document) == is_valid
        path = write(toml_text(document), "mine.toml")
        refused = pytest.raises(InputError, match=r"mine\.toml: ")
        with nullcontext() if is_valid else refused:
            load_scenario(str(path))


class TestSchemes:
    """``lyra-opt schemes``."""

    def test_all(self, run):
        """Every scheme is listed with its paper, its tenure and a summary."""
        exit_code, out, _ = run("schemes")
        assert exit_code == 0
        rows = [line.split() for line in out.splitlines()[2:]]
        assert [row[0] for row in rows] == scheme_names()
        assert {row[2] for row in rows} == {"forever", "leases", "rounds", "epochs"}
        assert all(len(row) > 4 for row in rows)

    def test_for_a_scenario(self, run, write):
        """The schemes that run are named, and the others with the reason that `simulate` gives."""
        path = write(HEADER + "a,0,100,2\n", "jobs.csv")
        given = ("--for", "plain", "--jobs", path, *ONE_SERVER)
        exit_code, out, err = run("schemes", *given)
        assert exit_code == 0, err
        verdicts = dict(re.findall(r"^(\S+) +(.*\S) *$", out, re.MULTILINE)[1:])
        verdicts = {name: verdicts[name] for name in scheme_names()}
        assert verdicts["lyra"] == verdicts["hadar"] == verdicts["dally"] == "runs"
        assert verdicts["allox"] == "job a has a gang of 2 GPUs, but it runs only jobs with one GPU"
        assert verdicts["gavel-cost"].endswith("the cluster has only one type")
        for name, verdict in verdicts.items():
            scheme = (*given[1:], "--scheme", name, "--processes", 1, "--format=json")
            if verdict != "runs":
                assert_one_line_error(run("simulate", *scheme), verdict)


@pytest.mark.parametrize(
    ("plugins", "command", "told", "beside"),
    [
        (WORKLOADS, "scenarios parts", "cannot be loaded: odd workload 'odd': ", "  lyra-like"),
        (SCHEMES, "schemes", "odd: scheme 'odd': ", "dally "),
    ],
)
def test_a_package_that_is_broken(run, monkeypatch, plugins, command, told, beside):
    """A plug-in that cannot be loaded is reported beside all others."""
    broken = EntryPoint(name="odd", value="no_such_module:ODD", group=plugins._group)
    monkeypatch.setattr(plugins, "_points", {**plugins._points, "odd": broken})
    exit_code, out, _ = run(*command.split())
    assert exit_code == 0
    assert f"{told}no_such_module:ODD cannot be" in " ".join(out.split())
    assert re.search(f"^{beside}", out, re.MULTILINE)
