"""The function ``lo.paper``, which returns published tables and figures as data frames."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.messages import as_loud_as
from lyra_opt.commands.output import make_folder
from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import FieldError, UserError, without_inner_frames
from lyra_opt.core.numbers import INFINITE, MISSING
from lyra_opt.core.rules import Integer, Number
from lyra_opt.experiments.executor import EXIT_INTERRUPTED
from lyra_opt.front_door.simulating import checked_processes, given_engine, loudness_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from lyra_opt.paper_figures.stored import StoredTable


# A mean with its least and greatest value, in a cell of a page.
RANGE = re.compile(r"(\S+) \((\S+) to (\S+)\)")


@without_inner_frames
def paper(  # noqa: PLR0913 - all arguments but the first are keywords
    name: str,
    *,
    table: int | None = None,
    figure: int | None = None,
    run: bool = False,
    scale: float | None = None,
    seeds: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    processes: int = 1,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> pd.DataFrame:
    """Return a published table or figure: the paper's numbers, our numbers and verdicts.

    Parameters
    ----------
    name
        A paper that `papers` lists.
    table, figure
        The number of a table or of a figure; neither for the counts of verdicts of the whole paper.
    run
        Whether to simulate the numbers again, instead of returning those that are stored.
    scale, seeds
        With `run`: the share of the paper's size, and the number of workloads to average over.
    out, resume
        With `run`: a folder for the simulations and the pages, and whether to continue with it.
    processes, scheduler, progress
        With `run`: as for `simulate`.

    Returns
    -------
    DataFrame
        A row per published number, if the page has such a list: ``row``, ``column``, ``paper``,
        ``ours`` (with its least and greatest value over the seeds, if they differ), their ratio and
        the verdicts. Otherwise the page's table. ``frame.attrs`` has the ``title``, the counts of
        ``verdicts`` as a sentence, the ``notes`` and the ``page``; ``verdict_counts`` has the
        counts of the list's verdicts by their column, such as ``{"verdict on the value":
        {"reproduced": 31, "near": 36}}``.

    Raises
    ------
    UserError
        If the paper, the table or the figure is unknown, or another argument is not valid.
    KeyboardInterrupt
        After Ctrl-C; simulations that finished are in `out`.

    Examples
    --------
    >>> frame = paper("lyra", table=5)
    >>> frame.pivot(index="row", columns="column", values="ours").loc["Ideal, Lyra", "JCT mean (s)"]
    np.float64(7834.0)
    """
    from lyra_opt.paper_figures import stored
    from lyra_opt.paper_figures.command import MOST_SEEDS, PAPERS, chosen
    from lyra_opt.paper_figures.document import find_paper, name_of
    from lyra_opt.paper_figures.paper import report_of, run_paper, write_pages
    from lyra_opt.paper_figures.setting import Setting

    if name not in PAPERS:
        raise FieldError("paper", name, unknown_key(name, list(PAPERS), noun="paper"))
    found = find_paper(name)
    given = {"table": table, "figure": figure}
    chosen_by = {kind: each for kind, each in given.items() if each is not None}
    numbers = {kind: [str(Integer(1).check(kind, each))] for kind, each in chosen_by.items()}
    if len(numbers) == 2:
        raise UserError("table cannot be combined with figure")
    wanted = chosen(found, numbers)
    page = f"{name_of(name, wanted[0])}.md" if wanted else stored.OVERVIEW
    if not run:
        if (scale, seeds, out, scheduler) != (None,) * 4:
            raise UserError("scale, seeds, out and scheduler need run=True")
        return _frame(stored.parse_page(stored.PAGES / name / page, by_number=True))
    processes = checked_processes(processes, out)
    share = found.scale if scale is None else Number(0, 1, above=True).check("scale", scale)
    count = found.seeds if seeds is None else Integer(1, MOST_SEEDS).check("seeds", seeds)
    publications, setting = wanted or found.publications, Setting(found, share, count)
    engine = given_engine(scheduler, processes)
    with TemporaryDirectory() as temporary, as_loud_as(loudness_of(progress)):
        folder = Path(temporary if out is None else out)
        make_folder(folder)
        status, results = run_paper(
            setting, publications, folder, engine=engine, resume=resume, command=""
        )
        if status == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        write_pages(report_of(results, publications), folder, command="")
        return _frame(stored.parse_page(folder / page, by_number=True))


def _frame(table: StoredTable) -> pd.DataFrame:
    from lyra_opt.front_door.listed_frame import Published

    columns: dict[str, Sequence[Any]] = {}
    for column in table.table.columns:
        name = column.title or "row"
        while name in columns:
            name += "'"
        cells = list(column.cells)
        if not column.is_number:
            columns[name] = cells
            continue
        ranges = [RANGE.fullmatch(cell) for cell in cells]
        columns[name] = _numbers(
            [each[1] if each else cell for each, cell in zip(ranges, cells, strict=True)]
        )
        if any(ranges):
            for group, end in ((2, "least"), (3, "greatest")):
                columns[f"{name}, {end}"] = _numbers(
                    [each[group] if each else "" for each in ranges]
                )
    frame = Published(columns)
    frame.attrs = {key: getattr(table, key) for key in ("title", "verdicts", "notes", "page")}
    frame.attrs["verdict_counts"] = {
        name: dict(Counter(filter(None, cells)))
        for name, cells in columns.items()
        if name.startswith("verdict on ")
    }
    return frame


def _numbers(cells: list[str]) -> Sequence[Any]:
    """Return the cells as numbers, NaN if missing; unchanged if one of them is not a number."""
    plain = (each.replace(",", "").replace(INFINITE, "inf").strip(MISSING) for each in cells)
    try:
        return [float(each or "nan") for each in plain]
    except ValueError:
        return cells
