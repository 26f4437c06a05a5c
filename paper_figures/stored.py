"""Tables stored in the documentation, which `make papers` computed at the papers' own sizes."""

import re
from dataclasses import dataclass
from pathlib import Path

from lyra_opt.core.table import Table, table_of_texts
from lyra_opt.paper_figures.document import PaperTable, PublicationTable, name_of

OVERVIEW = "overview.md"
"""The page that counts the verdicts of a paper, in the stored pages and in those of a run."""

_INSTALLED = Path(__file__).parent / "pages"
PAGES = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).resolve().parents[1] / "docs/papers"
"""The folder of the pages. A wheel holds a copy beside this module; a checkout has it in docs."""

_CELL = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """The first table of a stored page, with the sentences before and after it.

    Parameters
    ----------
    title
        The heading of the page.
    verdicts
        The sentence that counts the verdicts; empty if the page has no verdicts.
    table
        The table; without columns if the page has no table.
    notes
        What a reader must know about the numbers, one sentence or more per note.
    heading
        The heading of the section that holds the table, such as "Paper and ours"; may be empty.
    page
        The file that holds everything, with the verdict on each number.
    """

    title: str
    verdicts: str
    table: Table
    notes: tuple[str, ...]
    heading: str
    page: Path


def stored_table(paper: PaperTable, publication: PublicationTable) -> StoredTable:
    """Return a table or figure as last computed at the paper's own size.

    A page that shows the paper's own layout and a list of single numbers gives the layout.
    """
    return parse_page(PAGES / paper.name / f"{name_of(paper.name, publication)}.md")


def stored_overview(paper: PaperTable) -> StoredTable:
    """Return the stored counts of verdicts for every table and figure of a paper."""
    return parse_page(PAGES / paper.name / OVERVIEW)


def parse_page(page: Path, *, by_number: bool = False) -> StoredTable:
    """Return the first table of a Markdown page with the sentences around it.

    With `by_number`, the list of single numbers takes precedence, if the page has one.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    table = [place for place, line in enumerate(lines) if line.startswith("|")]
    if by_number:
        table = [place for place in table if lines[place].startswith("| row |")] or table
    first = table[0] if table else len(lines)
    last = next((place for place in range(first, len(lines)) if not lines[place]), len(lines))
    header, ruler, *rows = [_cells(line) for line in lines[first:last]] or [(), ()]
    numbers = {place for place, rule in enumerate(ruler) if rule.endswith(":")}
    title = lines[0].removeprefix("# ")
    others = ("#", "!", "- ", "|", "**")
    sentences = [line for line in lines[1:first] if line and not line.startswith(others)]
    return StoredTable(
        title=title,
        verdicts=" ".join(sentences),
        table=table_of_texts(header, rows, numbers, title),
        notes=tuple(
            line.removeprefix("- ").strip("*") for line in lines if line.startswith(("- ", "**"))
        ),
        heading=next((line[3:] for line in lines[:first][::-1] if line.startswith("## ")), ""),
        page=page,
    )


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().replace("\\|", "|") for cell in _CELL.split(line)[1:-1])
