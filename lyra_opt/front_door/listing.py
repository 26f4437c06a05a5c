"""Functions that list the names which other functions take, as data frames.

The first column of each frame has the names, which are also its index: ``frame.loc["exact"]`` and
``frame.query("solver == 'exact'")`` select the same row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import parse_toml, unknown_key
from lyra_opt.core.errors import FieldError, UserError, without_inner_frames
from lyra_opt.core.plugins import PROBLEMS
from lyra_opt.front_door.simulating import given_scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from lyra_opt.experiments.simulation.scenario.loading import Scenario
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.workload import Workload


@without_inner_frames
def solvers(problem: str | None = None) -> pd.DataFrame:
    """List the solvers of a problem or of all, as ``lyra-opt solvers --format json`` does.

    Returns
    -------
    pandas.DataFrame
        One row per solver, named by the index and by column ``solver``. Other columns: ``problem``,
        ``summary``, ``proves_optimality`` (the variants for which a run without limits ends with a
        proof), ``variants``, ``gives_bound``, ``available``, and the ``reason`` of a solver that is
        not.

    Raises
    ------
    UserError
        If the problem is unknown.

    Examples
    --------
    >>> exact = solvers("reclaim").query("proves_optimality != ''")
    >>> "exact" in exact.index, "lyra-greedy" in exact.index
    (True, False)
    """
    from lyra_opt.commands.solvers import solver_records

    _require_problem(problem)
    rows = ({"solver": each["name"], **each} for each in solver_records(problem))
    properties = ("summary", "proves_optimality", "variants", "gives_bound", "available", "reason")
    return _listing(rows, ("solver", "problem", *properties))


@without_inner_frames
def families(problem: str | None = None) -> pd.DataFrame:
    """List the instance families of a problem, or of all problems, for `generate`.

    Returns
    -------
    pandas.DataFrame
        One row per family, named by the index and by column ``family``. Other columns: ``problem``
        and ``summary``.

    Raises
    ------
    UserError
        If the problem is unknown.
    """
    from lyra_opt.instances.family import family_summaries

    _require_problem(problem)
    rows = (
        {"family": name, "problem": each, "summary": summary}
        for each in (PROBLEMS.names() if problem is None else [problem])
        for name, summary in family_summaries(each).items()
    )
    return _listing(rows, ("family", "problem", "summary"))


@without_inner_frames
def schemes(
    scenario: str | Path | Mapping[str, Any] | Scenario | None = None,
    *,
    changes: Mapping[str, Any] | None = None,
    jobs: str | Path | pd.DataFrame | Workload | None = None,
    cluster: Cluster | None = None,
) -> pd.DataFrame:
    """List the schemes of the simulated cluster, and say which of them run in a scenario.

    Parameters
    ----------
    scenario, changes, jobs, cluster
        A scenario, changes to it, its jobs and its cluster, as for `simulate`.

    Returns
    -------
    pandas.DataFrame
        One row per scheme, named by the index and by column ``scheme``. Other columns: ``paper``,
        ``tenure``, ``summary`` and, for a scenario with jobs, ``obstacle``: why the scheme does not
        run in it, or None.

    Raises
    ------
    UserError
        If the scenario is unknown or not valid.
    """
    from lyra_opt.experiments.simulation.showing import catalogue

    given: dict[str, Any] = {"changes": changes, "jobs": jobs, "cluster": cluster}
    if scenario is None:
        for name, value in given.items():
            if value is not None:
                raise UserError(f"{name} belongs to a scenario. Name the scenario as well.")
        return _listing(catalogue.scheme_rows(None), catalogue.SCHEME_COLUMNS)
    found = given_scenario(scenario, **given)
    if note := catalogue.why_obstacles_unknown(found):
        return _listing(catalogue.scheme_rows(None), catalogue.SCHEME_COLUMNS, note)
    return _listing(catalogue.scheme_rows(found), (*catalogue.SCHEME_COLUMNS, "obstacle"))


@without_inner_frames
def scenarios() -> pd.DataFrame:
    """List the bundled scenarios: a data frame with columns ``scenario`` and ``description``."""
    from lyra_opt.experiments.simulation.showing.catalogue import scenario_descriptions

    return _described("scenario", scenario_descriptions())


@without_inner_frames
def studies() -> pd.DataFrame:
    """List the bundled studies, for the command ``lyra-opt study``.

    Returns
    -------
    pandas.DataFrame
        One row per study, named by the index and by column ``study``, and its ``description``.
    """
    from lyra_opt.experiments.command import bundled_studies, find_study

    texts = {name: find_study(name).read_text(encoding="utf-8") for name in bundled_studies()}
    return _described(
        "study",
        {name: parse_toml(text, name, "a study")["description"] for name, text in texts.items()},
    )


@without_inner_frames
def library(
    problem: str | None = None,
    grade: str | None = None,
    status: str | None = None,
    variant: str | None = None,
    edition: str | None = None,
) -> pd.DataFrame:
    """List the instances of the library, which `load` reads by id.

    Parameters
    ----------
    problem, grade, status, variant
        Only instances of this problem, of this grade (easy, hard or open), with this status
        (optimal, infeasible or open), and of this variant.
    edition
        The edition of the library, such as ``library-2026.1``; None for the newest, which has the
        instances of all editions.

    Returns
    -------
    pandas.DataFrame
        One row per instance, named by the index and by column ``instance``. Other columns:
        ``grade``, ``problem``, ``variant``, ``proof``, ``size``, ``best_known`` (an objective),
        ``best_bound``.

    Raises
    ------
    UserError
        If the problem, the grade, the status, the variant or the edition is unknown.

    Examples
    --------
    >>> int(library("reclaim").best_known["lyra-figure-5"])
    1
    """
    from lyra_opt.instances.library import command
    from lyra_opt.instances.library import library as bundled

    _require_problem(problem)
    _require_known("grade", grade, command.GRADES)
    _require_known("status", status, command.STATUSES)
    shelf, asked = bundled(edition), {"grade": grade, "status": status, "variant": variant}
    command.require_variant("variant", variant, shelf.of_problem(problem))
    found = command.listed(shelf, problem=problem, **asked)
    rows = ({"instance": each["id"], **each} for each in found)
    note = "" if found else "The library has no such instances."
    return _listing(rows, ("instance", *command.SHOWN), note).astype({"size": "int64"})


@without_inner_frames
def papers() -> pd.DataFrame:
    """List the papers whose tables and figures `paper` returns.

    Returns
    -------
    pandas.DataFrame
        One row per paper, named by the index and by column ``paper``. Other columns: ``citation``,
        and the numbers of its ``tables`` and ``figures`` as text.
    """
    from lyra_opt.paper_figures.command import PAPERS
    from lyra_opt.paper_figures.document import find_paper

    def numbers(name: str, kind: str) -> list[int]:
        return [each.number for each in find_paper(name).publications if each.kind == kind]

    rows = (
        {
            "paper": name,
            "citation": " ".join(find_paper(name).citation.split()),
            "tables": numbers(name, "table"),
            "figures": numbers(name, "figure"),
        }
        for name in PAPERS
    )
    return _listing(rows, ("paper", "citation", "tables", "figures"))


def _listing(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], note: str = ""
) -> pd.DataFrame:
    """Return rows as a frame that prints whole, with the sentence `note` below it."""
    from lyra_opt.front_door.listed_frame import Listing

    found = Listing.of(rows, columns)
    found.attrs |= {"note": note} if note else {}
    return found


def _described(noun: str, descriptions: Mapping[str, str]) -> pd.DataFrame:
    rows = ({noun: name, "description": text} for name, text in descriptions.items())
    return _listing(rows, (noun, "description"))


def _require_problem(name: str | None) -> None:
    if name is not None:
        PROBLEMS.require_known("problem", name)


def _require_known(field: str, given: str | None, known: Iterable[str]) -> None:
    if given is not None and given not in known:
        raise FieldError(field, given, unknown_key(given, list(known), noun=field))
