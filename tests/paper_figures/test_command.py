"""``lyra-opt paper``: failed runs, and Table 5 from end to end at a hundredth of the size."""

import re

import pytest

from lyra_opt import __version__
from lyra_opt.__main__ import main
from lyra_opt.experiments.simulation.scenario.setup import SimulationError
from lyra_opt.paper_figures.command import PAPERS
from lyra_opt.paper_figures.document import find_paper
from lyra_opt.paper_figures.stored import stored_table
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


BASELINE = "fifo queue=first-come-overtaking scenario=basic seed=0"


def test_failed_runs_are_said_and_not_averaged(run, tmp_path, monkeypatch):
    """The page is made of what is there, and says what is not; the exit code is 1."""

    def fails(*arguments, **options):
        raise SimulationError("made up")

    monkeypatch.setattr("lyra_opt.experiments.simulation.running.tasks.replay", fails)
    options = ("--scale", "0.01", "--processes", "1", "--out", tmp_path)
    exit_code, out, _ = run("paper", "lyra", "--run", "--figure", "2", *options)
    assert exit_code == 1
    assert "3 published numbers. Verdicts on values: 3 not run." in out
    page = (tmp_path / "lyra-figure-2.md").read_text()
    assert f"Failed: {BASELINE}: SimulationError: made up" in page


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
