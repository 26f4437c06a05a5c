"""Study files: what they mean, and how malformed ones are refused."""

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from lyra_opt.core.errors import InputError, UserError
from lyra_opt.experiments.command import bundled_studies, find_study
from lyra_opt.experiments.pool import LocalProcesses
from lyra_opt.experiments.runner import run_study
from lyra_opt.experiments.store import ResultStore
from lyra_opt.experiments.study import read_study
from lyra_opt.experiments.study_cells import Trace, find_trace
from tests.conftest import assert_one_line_error
from tests.experiments.conftest import REPOSITORY
from tests.tables import tables

STUDIES = sorted((REPOSITORY / "experiments" / "studies").glob("*.toml"))
OF_CAPTURED = {
    "captured-gap": ("reclaim", "lyra-figure-5"),
    "captured-network-gap": ("network", "hurt-first"),
}
"""Studies of files that are not in the repository: their problem, and an instance of it."""

RUNS = tables(__file__, "study_runs")

MALFORMED = {
    **tables(__file__),
    "nested without end": ("seeds = 2", f"seeds = {'[' * 50_000}", "tiny.toml: is"),
}


@pytest.mark.parametrize("defect", MALFORMED)
def test_malformed_study_is_refused_in_one_line(defect, write_study, tmp_path, run):
    *replacement, message = MALFORMED[defect]
    study, results = write_study(replacement), tmp_path / "results"
    assert_one_line_error(run("study", study, "--out", results), f": error: {study}: ", message)
    assert not results.exists()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"a = 1\n" * 300_000])
def test_file_that_is_no_text_of_a_study_is_refused(content, write):
    path = write(content, "study.toml")
    with pytest.raises(InputError, match=r"study\.toml: "):
        read_study(path)


@pytest.mark.parametrize("case", RUNS)
def test_runs_of_a_study(case, write_study):
    """Which solver runs on which instance, in order and with which time limit."""
    study = read_study(write_study(*RUNS[case]["changes"]))
    found = [f"{cell.key}: {solver.label}, {solver.time_limit_s}" for cell, solver in study.runs()]
    assert found == RUNS[case]["runs"]
    assert all(solver.certify for solver in study.configurations)


def test_single_values_are_no_axes(write_study):
    study = read_study(write_study(("servers = [10", 'semantics = "rigid"\nservers = [10')))
    assert {cell.axes for cell in study.cells} == {("servers", "reclaim_percent")}
    assert {dict(cell.parameters)["semantics"] for cell in study.cells} == {"rigid"}


def test_instance_files_stand_in_place_of_families(write_study, tmp_path):
    """So that decisions captured in a simulation can be solved by a study."""
    block = '[[instances]]\ngroup = "captured"\nfiles = ["*.json"]\n'
    path = write_study(("[[solvers]]", block + "[[solvers]]"))
    with pytest.raises(
        InputError, match=r"instances\[1\].files\[0\] is .*must match a file in \S+$"
    ):
        read_study(path)
    made_by = 'made_by = "lyra-opt simulate --capture ."\n'
    path = write_study(("[[solvers]]", block + made_by + "[[solvers]]"))
    with pytest.raises(InputError, match=r"make the files with: lyra-opt simulate --capture \.$"):
        read_study(path)
    figure_5 = (REPOSITORY / "instances" / "library" / "lyra-figure-5.json").read_text()
    (path.parent / "one.json").write_text(figure_5)
    study = read_study(path)
    (cell,) = (cell for cell in study.cells if cell.group == "captured")
    assert cell.key == f"file file={path.parent / 'one.json'} seed=0"
    assert cell.axes == ()
    assert run_study(study, tmp_path / "out", engine=LocalProcesses(1)) == 0
    with ResultStore.open(tmp_path / "out") as store:
        found = [run.objective for run in store.runs() if run.family_group == "captured"]
    assert found == [1, 1]
    (path.parent / "one.json").write_text("{}")
    with pytest.raises(InputError, match=r"one\.json: format is missing"):
        read_study(path)


def test_meaning_ignores_layout_but_nothing_that_is_run(write_study):
    meaning = read_study(write_study()).meaning_hash()
    assert read_study(write_study(("seeds = 2", "seeds  =  2 # two"))).meaning_hash() == meaning
    assert read_study(write_study(("seeds = 2", "seeds = [0, 1]"))).meaning_hash() == meaning
    for change in (("seeds = 2", "seeds = 3"), ("5.0", "6.0"), ("30]", "40]"), (', "scf"', "")):
        assert read_study(write_study(change)).meaning_hash() != meaning


def test_trace_that_no_family_reads_is_refused(write_study):
    with pytest.raises(UserError, match="reads a trace"):
        read_study(write_study(), Trace("trace.csv", "0"))


def test_trace_is_found_in_the_folder_of_traces(write, tmp_path, monkeypatch):
    monkeypatch.delenv("LYRA_OPT_TRACES", raising=False)
    trace = write("job_id,submit_time_s,duration_s,gpus\nj,0,1,1\n", "trace.csv")
    with pytest.raises(InputError, match="LYRA_OPT_TRACES"):
        find_trace("trace.csv")
    monkeypatch.setenv("LYRA_OPT_TRACES", str(tmp_path))
    found = find_trace("trace.csv")
    assert (found.name, found.path) == ("trace.csv", str(trace))
    trace.write_text("job_id\n")
    with pytest.raises(InputError, match="row 1: column submit_time_s is missing"):
        find_trace("trace.csv")


def assert_is_sound(study, name):
    """Assert that a study is called as its file and that methods check one another."""
    assert study.name == name
    references = {found.solver for found in study.configurations if found.reference}
    if name != "reclaim-exact":  # times one method, whose optima `reclaim-speed` has checked
        assert len(references) >= 2, "methods that share no code must check one another"


@pytest.mark.parametrize(
    "path", [path for path in STUDIES if path.stem not in OF_CAPTURED], ids=lambda path: path.name
)
def test_studies_of_the_repository_are_valid(path):
    trace = Trace("trace.csv", "0") if "snapshot" in path.name else None
    assert_is_sound(read_study(path, trace), path.stem)


@pytest.mark.parametrize("name", OF_CAPTURED)
def test_study_of_captured_decisions(name, tmp_path):
    """It says how to make its files, as `make` does, and finds them where those are written."""
    kind, instance = OF_CAPTURED[name]
    path = tmp_path / "experiments" / "studies" / f"{name}.toml"
    path.parent.mkdir(parents=True)
    path.write_text((STUDIES[0].parent / path.name).read_text())
    with pytest.raises(InputError, match="make the files with: ") as caught:
        read_study(path)
    _, _, command = str(caught.value).partition("make the files with: ")
    options = command.split()
    folder = options[options.index("--capture") + 1]
    recipe = command.replace("lyra-opt", "$(RUN)/lyra-opt", 1).replace(folder, "$@")
    makefile = (REPOSITORY / "Makefile").read_text()
    assert f"\t{recipe}\n" in makefile
    assert f"FILES_OF_{name} := {folder}\n" in makefile
    text = (REPOSITORY / "instances" / "library" / f"{instance}.json").read_text()
    (tmp_path / folder).mkdir(parents=True)
    for sample in ("contested", "easy"):
        (tmp_path / folder / f"{kind}-{sample}-scheme-at-300-s.json").write_text(text)
    study = read_study(path)
    assert [cell.group for cell in study.cells] == ["contested", "easy"]
    assert_is_sound(study, name)


def test_bundled_studies_are_known_by_name(tmp_path, monkeypatch, run):
    """From any folder; a file of that path comes first."""
    monkeypatch.chdir(tmp_path)
    assert read_study(find_study("reclaim-gap")).name == "reclaim-gap"
    assert bundled_studies() == sorted(path.stem for path in STUDIES)
    (tmp_path / "reclaim-gap").write_text("mine")
    assert find_study("reclaim-gap") == Path("reclaim-gap")
    told = "no-such-study: is not a file or a bundled study; known: allocation-gap, "
    assert_one_line_error(run("study", "no-such-study"), told)


def test_every_key_is_listed_and_in_the_schema(run, write_study):
    """Editors take what the program takes: studies that come along, and no unknown key."""
    exit_code, keys, _ = run("study", "--keys")
    assert exit_code == 0
    for key in ("seeds", "instances[].families", "instances[].made_by", "solvers[].reference"):
        assert f"\n{key}  (" in keys
    schema = json.loads(run("study", "--schema")[1])
    jsonschema.Draft202012Validator.check_schema(schema)
    for path in STUDIES:
        jsonschema.validate(tomllib.loads(path.read_text()), schema)
    for name in ("unknown key", "share with decimals"):
        refused = tomllib.loads(write_study(MALFORMED[name][:2]).read_text())
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(refused, schema)
    assert_one_line_error(run("study"), "STUDY is missing")
