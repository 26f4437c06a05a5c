"""Results of a paper that nobody simulated."""

from operator import attrgetter
from statistics import fmean
from types import SimpleNamespace

from lyra_opt.experiments.simulation.scenario.building import make_setup
from lyra_opt.experiments.simulation.scenario.schemes import make_schemes
from lyra_opt.paper_figures.document import find_paper
from lyra_opt.paper_figures.evaluation import compared
from lyra_opt.paper_figures.results import Results
from lyra_opt.paper_figures.setting import Setting
from lyra_opt.simulation.scheme import simulate


class MadeUp(Results):
    """Results whose runs have the figures that a function gives them."""

    def __init__(self, setting, figures=lambda run, draw: None):
        super().__init__(setting, None)
        self._figures = figures

    def of(self, run, draw):
        """Return an outcome with these figures, and with tables of jobs if they are among them."""
        found = self._figures(run, draw)
        if found is None:
            return None
        return SimpleNamespace(
            figures=found, jobs=found.get("table of jobs"), record=SimpleNamespace(cpu_time_s=1.0)
        )


def by_scheme(known, changed, key=attrgetter("scheme")):
    """Return a function for `made`: known figures, changed by what `key` returns of a run.

    Runs whose key is missing have no figures. A tuple holds one value for each seed.
    """

    def figures(run, draw):
        if key(run) not in changed:
            return None
        found = {**known, **changed[key(run)]}.items()
        return {name: v[draw.seed] if isinstance(v, tuple) else v for name, v in found}

    return figures


def publication(paper, kind, number):
    """Return a table or figure of a paper's file."""
    (found,) = (
        each
        for each in find_paper(paper).publications
        if (each.kind, each.number) == (kind, number)
    )
    return found


def made(paper, kind, number, figures=None, *, scale=0.02, seeds=1):
    """Return a table or figure beside figures that are made up."""
    setting = Setting(find_paper(paper), scale, seeds)
    results = MadeUp(setting, figures) if figures else MadeUp(setting)
    return compared(results, publication(paper, kind, number))


def mean_jct_s(scenario, name, **parameters):
    """Return the mean JCT of a scenario under a scheme, by simulation."""
    (scheme,) = make_schemes(scenario, [name])
    setup = make_setup(scenario, [scheme], 0)
    scheme = scheme.with_parameters(parameters)
    found = simulate(setup.workload, setup.cluster, scheme, options=setup.options)
    return fmean(run.jct_s for run in found.runs)


def by_row(comparison):
    """Return entries by row and column."""
    return {(entry.row, entry.column): entry for entry in comparison.entries}
