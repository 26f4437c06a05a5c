"""``lyra-opt paper``: bad input, and Table 5 from end to end at a hundredth of the size."""

import re

import pytest

from lyra_opt import __version__
from lyra_opt.__main__ import main
from lyra_opt.experiments.simulation.running.replays import load_replays
from lyra_opt.experiments.simulation.scenario.setup import SimulationError
from lyra_opt.paper_figures.command import PAPERS
from lyra_opt.paper_figures.document import find_paper
from lyra_opt.paper_figures.stored import stored_table
from tests.conftest import assert_one_line_error
from tests.html_page import Page, assert_needs_no_other_file
from tests.latex import rows_of_latex
from tests.tables import tables

TABLES = tables(__file__)


def test_every_table_and_figure_is_stored():
    """Each has a page, and the tables on it have a cell for every column."""
    for name in PAPERS:
        paper = find_paper(name)
        for publication in paper.publications:
            table = stored_table(paper, publication)
            assert publication.title.endswith(table.title)
            if table.table.columns:
                rows_of_latex(table.table.text("latex"))
            assert table.table.columns or table.notes


@pytest.mark.parametrize("place", ["file", "file/folder"])
def test_out_is_a_file(run, tmp_path, place):
    """It is found out before the first simulation."""
    file = tmp_path / "file"
    file.write_text("kept")
    given = ("paper", "lyra", "--run", "--table", "1", "--out", tmp_path / place)
    assert_one_line_error(run(*given), "--out", "is a file, not a folder")
    assert file.read_text() == "kept"


def test_worked_examples_need_no_simulation(run, tmp_path):
    """Tables 1 to 4 and Figures 5 and 6 are reproduced to the last digit."""
    options = [f"--table={number}" for number in (1, 2, 3, 4)] + ["--figure=5", "--figure=6"]
    exit_code, out, err = run("paper", "lyra", "--run", *options, "--out", tmp_path)
    assert (exit_code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 8
    told = re.compile(r": (\d+) published numbers\. Verdicts on values: \1 reproduced\.$")
    entries = sum(int(told.search(line)[1]) for line in lines[:-2])
    assert (tmp_path / "index.html").is_file()
    overview = (tmp_path / "overview.md").read_text()
    assert f"| all | values | {entries} | {entries} |" in overview
    assert f"--out {tmp_path}`, lyra-opt {__version__}: page made 20" in overview
    pages = (overview, (tmp_path / "lyra-table-1.md").read_text())
    rules = [page.partition("## The rule of verdicts")[2].strip() for page in pages]
    assert rules[0] == rules[1]


BASELINE = "fifo queue=first-come-overtaking scenario=basic seed=0"


def test_runs_are_kept_and_gone_on_with(run, tmp_path):
    """What is stored is not run again, neither for the same table nor for another one."""
    options = ("--scale", "0.01", "--seeds", "1", "--processes", "1", "--out", tmp_path)
    assert run("paper", "lyra", "--run", "--figure", "2", *options)[0] == 0
    page = (tmp_path / "lyra-figure-2.md").read_bytes()
    before = load_replays(tmp_path).runs
    assert [record.key for record in before] == [BASELINE]
    assert_one_line_error(run("paper", "lyra", "--run", "--figure", "2", *options), "add --resume")
    chosen = ("--figure", "2", "--figure", "9")
    exit_code, _, err = run("paper", "lyra", "--run", *chosen, *options, "--resume")
    assert (exit_code, "2 runs to do, 1 already stored" in err) == (0, True)
    after = load_replays(tmp_path).runs
    assert {record.key for record in after} == {
        BASELINE,
        "lyra-loaning scenario=basic seed=0",
        "lyra-loaning prefers_loans=True scenario=basic seed=0",
    }
    assert before[0].started_at in {record.started_at for record in after}
    assert (tmp_path / "lyra-figure-2.md").read_bytes() == page
    larger = ("--scale", "0.02", *options[2:], "--resume")
    assert_one_line_error(run("paper", "lyra", "--run", "--figure", "2", *larger), "another study")


def test_failed_runs_are_said_and_not_averaged(run, tmp_path, monkeypatch):
    """The page is made of what is there, and says what is not; the exit code is 1."""

    def fails(*arguments: object, **options: object) -> None:
        raise SimulationError("made up")

    monkeypatch.setattr("lyra_opt.experiments.simulation.running.tasks.replay", fails)
    options = ("--scale", "0.01", "--processes", "1", "--out", tmp_path)
    exit_code, out, _ = run("paper", "lyra", "--run", "--figure", "2", *options)
    assert exit_code == 1
    assert "3 published numbers. Verdicts on values: 3 not run." in out
    page = (tmp_path / "lyra-figure-2.md").read_text()
    assert f"Failed: {BASELINE}: SimulationError: made up" in page


@pytest.mark.parametrize(
    ("paper", "trace"), [("gavel", "max_min_fairness.trace"), ("pollux", "workload-8.csv")]
)
def test_a_paper_without_its_traces(run, tmp_path, monkeypatch, paper, trace):
    """Whoever has no traces gets the pages, and is told what to look for: nothing fails."""
    monkeypatch.delenv("LYRA_OPT_TRACES", raising=False)
    exit_code, out, err = run("paper", paper, "--run", "--table", "1", "--out", tmp_path / "made")
    assert (exit_code, len(err.splitlines())) == (0, 1)
    assert all(part in err for part in (trace, "LYRA_OPT_TRACES", "not run"))
    assert "not run" in out


@pytest.mark.slow
@pytest.mark.parametrize("paper", TABLES["end_to_end"])
def test_a_paper_from_end_to_end(paper, tmp_path, monkeypatch):
    """Pages have numbers of ours, and the page of pages says how all was made."""
    monkeypatch.delenv("LYRA_OPT_TRACES", raising=False)
    table = TABLES["end_to_end"][paper]
    chosen = [*table["options"], "--seeds", "1", "--processes", "1", "--out", str(tmp_path)]
    assert main(["paper", paper, "--run", *chosen]) == 0
    for name, patterns in table["pages"].items():
        page = (tmp_path / f"{paper}-{name}.md").read_text()
        assert [each for each in patterns if not re.search(each, page)] == []
        assert ("not run" in page) == (name in table["partly_run"]), name
    assert sorted(path.stem for path in (tmp_path / "plots").glob("*.svg")) == table["plots"]
    page = (tmp_path / "index.html").read_text()
    assert_needs_no_other_file(page)
    links = Page(page)
    addresses = {link.removeprefix("#") for link in links.addresses}
    assert {"all", *(f"{paper}-{name}" for name in table["pages"]), "how"} <= addresses
    assert addresses <= set(links.ids)
    for said in (f"lyra-opt {__version__}, 20", *table["index"]):
        assert said in page
