"""Documentation pages, generated from catalogue and record so that no number is copied."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from lyra_opt.core.documents import write_text
from lyra_opt.core.errors import UserError
from lyra_opt.core.gaps import percent_text, relative_gap
from lyra_opt.core.plotting import plot
from lyra_opt.core.problem import find_problem
from lyra_opt.core.texts import show_value_of
from lyra_opt.experiments.library.plan import LibraryPlan, PageTable
from lyra_opt.instances.library.documents import Entry, FromFamily, Grade, Proof
from lyra_opt.instances.library.shelf import Library

DATA_SHEET = "library.md"
_TABLE = re.compile(r"(<!-- table of (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def pages(plan: LibraryPlan, library: Library, docs: Path) -> dict[Path, str]:
    """Return the text of each page by path: the data sheet, and one page per kind of instance."""
    tables = {
        "editions": _counted(library, "edition", library.edition_of, Grade, "grade", total=True),
        "grades": _counted(library, "problem", _problem, Grade, "grade", total=True),
        "proofs": _counted(library, "edition", library.edition_of, Proof, "proof"),
        "problems": _counted(library, "problem", _problem, Proof, "proof"),
        "open": _open(library),
    }
    sheet = docs / DATA_SHEET

    def table(found: re.Match[str]) -> str:
        return f"{found[1]}\n{tables[found[2]]}\n\n{found[3]}"

    made = {sheet: _TABLE.sub(table, sheet.read_text(encoding="utf-8"))}
    for page in plan.pages:
        of_page = [entry for entry in library.entries.values() if entry.page == page.name]
        made[docs / "library" / f"{page.name}.md"] = _page(page, of_page, library, plan)
    return made


def write_pages(plan: LibraryPlan, library: Library, docs: Path) -> None:
    """Write the pages, and a picture for each kind of instances."""
    for path, text in pages(plan, library, docs).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    for page in plan.pages:
        picture = docs / "library" / f"{page.name}.png"
        plot(library.load(page.typical).instance, file=picture)


def _without_certificate(
    entries: Sequence[Entry], reasons: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield the lines that name the proved instances of a page without a certificate, and why."""
    for reason, names in reasons.items():
        ids = ", ".join(f"`{entry.id}`" for entry in entries if entry.id in names)
        if ids:
            yield from (f"Proved without a [certificate](../proofs.md) ({reason}): {ids}.", "")


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _problem(entry: Entry) -> str:
    return entry.problem


def _counted(
    library: Library,
    heading: str,
    group_of: Callable[[Entry], str],
    kinds: Iterable[Grade | Proof],
    attribute: str,
    *,
    total: bool = False,
) -> str:
    """Return a Markdown table of the numbers of instances by group and by kind.

    The kind is an attribute of the best known result.
    """
    kinds = list(kinds)
    counts = Counter(
        (group_of(entry), getattr(library.known[entry.id], attribute))
        for entry in library.entries.values()
    )
    groups = sorted({group for group, _ in counts})
    rows = {group: [counts[group, kind] for kind in kinds] for group in groups}
    if total:
        rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
        rows = {name: [*row, sum(row)] for name, row in rows.items()}
    header = [heading, *map(str, kinds), *(["all"] if total else [])]
    return _table(header, [[name, *row] for name, row in rows.items()])


def _open(library: Library) -> str:
    rows = []
    for entry in library.entries.values():
        best = library.known[entry.id]
        value, bound = best.best_known, best.best_bound
        if best.grade is not Grade.OPEN or value is None:
            continue
        variant = find_problem(entry.problem).variants(entry.variant)
        gap = None if bound is None else relative_gap(value, bound, variant)
        shown = "" if gap is None else percent_text(gap)
        rows.append(
            [
                f"`{entry.id}`",
                _number(value),
                best.found_with,
                _number(bound),
                best.bound_with or "",
                shown,
            ]
        )
    return _table(["instance", "best known", "found by", "bound", "bound by", "gap"], rows)


def _number(value: float | None) -> str:
    return "" if value is None else show_value_of(value)


def _page(page: PageTable, entries: Sequence[Entry], library: Library, plan: LibraryPlan) -> str:
    if not entries:
        raise UserError(f"page {page.name}: no instance belongs to this page")
    typical = library.entry(page.typical)
    features = dict.fromkeys(plan.wording.get(entry.features, entry.features) for entry in entries)
    picture = plan.wording.get(typical.features, typical.features)
    rows = [
        [
            f"`{entry.id}`",
            entry.problem,
            entry.variant,
            entry.size,
            library.known[entry.id].grade,
            _number(library.known[entry.id].best_known) or "infeasible",
            _number(library.known[entry.id].best_bound),
            library.known[entry.id].proof,
        ]
        for entry in entries
    ]
    header = ["instance", "problem", "variant", "size", "grade", "best known", "bound", "proof"]
    return "\n".join(
        [
            f"# {page.title}",
            "",
            page.about,
            "",
            f"![The instance {page.typical}: {picture}]({page.name}.png)",
            "",
            f"`{page.typical}` ({_source(typical)}).",
            "",
            "Reasons why these instances are in the [library](../library.md):",
            "",
            *(f"- {feature}" for feature in features),
            "",
            _table(header, rows),
            "",
            *_without_certificate(entries, plan.without_certificate),
        ]
    )


def _source(entry: Entry) -> str:
    if isinstance(entry.provenance, FromFamily):
        return entry.provenance.in_words()
    return f"{entry.provenance.in_words()}; {entry.problem}"
