"""Papers as data: what is wrong in a file is said in a line, and what it names is there."""

from dataclasses import replace
from pathlib import Path

import pytest

from lyra_opt.core.errors import InputError
from lyra_opt.experiments.simulation.running.replay import FIGURES
from lyra_opt.experiments.simulation.scenario.schemes import make_schemes
from lyra_opt.paper_figures.command import PAPERS
from lyra_opt.paper_figures.document import PAPERS_FOLDER, Call, find_paper, name_of, read_paper
from lyra_opt.paper_figures.evaluation import COMPUTED, function_of
from lyra_opt.paper_figures.paper import tasks_of
from lyra_opt.paper_figures.plots import OF_NUMBERS, PANELS, plot_of
from lyra_opt.paper_figures.results import MEASURES
from lyra_opt.paper_figures.setting import Setting
from lyra_opt.simulation.scheme import scheme_names
from tests.paper_figures.made_up import made
from tests.tables import tables

TABLES = tables(__file__)


KNOWN = {key for keys in FIGURES.values() for key in keys} | {
    f"{what}_usage_while_submitting" for what in ("training", "overall", "loan")
}

TEXT = (PAPERS_FOLDER / "lyra.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("old", "new", "part"), TABLES["defects"])
def test_what_is_wrong_is_said_in_a_line(old, new, part):
    """It names the file, the key and the rule, and the nearest of what there is."""
    if old not in TEXT:
        old = 'like = "basic"'
    with pytest.raises(InputError) as caught:
        read_paper(TEXT.replace(old, new, 1), "mine.toml")
    message = str(caught.value)
    assert message.startswith("mine.toml")
    assert part in message
    assert "\n" not in message


def test_every_paper_has_its_file():
    """Called as on the command line."""
    assert {Path(file).stem for file in PAPERS_FOLDER.glob("*.toml")} == set(PAPERS)
    assert [find_paper(name).name for name in PAPERS] == list(PAPERS)


def _measures(publication):
    for entry in (*publication.columns, *publication.rows):
        if entry.measure is not None:
            yield entry.measure


@pytest.mark.parametrize("name", PAPERS)
def test_functions_and_measures_of_a_file_are_there(name):
    """A slip in a name would end a run of hours."""
    known = KNOWN | set(MEASURES)
    pages = set()
    for publication in find_paper(name).publications:
        pages.add(name_of(name, publication))
        calls = [publication.computed, *publication.notes]
        for call in calls:
            if isinstance(call, Call):
                assert callable(function_of(COMPUTED, name, call.of))
                for mean in call.parameters.get("means", {}).values():
                    assert mean["of"] in known
                    assert mean["run"] in find_paper(name).runs
        if publication.plot is not None:
            assert publication.plot.of in PANELS
        for measure in _measures(publication):
            assert {measure.of, measure.over or measure.of} <= known
    assert len(pages) == len(find_paper(name).publications)


@pytest.mark.parametrize("name", ["lyra", "dally"])
def test_every_panel_of_a_plot_shows_something(name):
    """A slip in the name of a column or a series would leave a panel empty."""
    for publication in find_paper(name).publications:
        if publication.plot is not None and publication.plot.of != "dots_by_trace":
            # Only bars need numbers of ours: without them a row has no gain to draw.
            ours = dict.fromkeys(KNOWN, 1.0) if publication.plot.of == "bars" else None
            comparison = made(name, publication.kind, publication.number, lambda *_, of=ours: of)
            series = {line: [(0, 1.0), (1, 2.0), (2, 3.0)] for line in comparison.series}
            plot = plot_of(replace(comparison, series=series), publication.plot)
            assert (plot is not None) == (publication.plot.of in OF_NUMBERS or bool(series))
            for axes in plot.figure.axes if plot else ():
                marks = [line for line in axes.lines if line.get_marker() != "None"]
                assert marks or axes.patches


@pytest.mark.parametrize("name", PAPERS)
@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_scenarios_and_schemes_of_a_file_are_there(name, scale):
    """Every replay that it asks for can be read, and no two have one key."""
    setting = Setting(find_paper(name), scale, 1)
    tasks = tasks_of(setting, setting.paper.publications)
    assert len({task.key for task in tasks}) == len(tasks)
    for task in tasks:
        (scheme,) = make_schemes(task.scenario, [task.scheme])
        assert scheme.name == task.scheme
        assert task.scheme.split()[0] in scheme_names()
