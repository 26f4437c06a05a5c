"""Drawings of preemption: the pods on each node, the pods that leave it, and those that come."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from lyra_opt.core.errors import counted
from lyra_opt.core.picture_styles import style_in_force
from lyra_opt.core.pictures import (
    FREE_COLOUR,
    LONGEST_NAME,
    BlockRows,
    Drawing,
    as_written,
    by_all_solutions,
    drawing_of_rows,
    drawn_in_words,
    heading,
    rows_of_panel,
    shortened,
)
from lyra_opt.preemption.checker import check
from lyra_opt.preemption.instance import GPU, GPU_NAMES, Instance, Node, Solution

MOST_NODES = 20
"""The most nodes that are drawn; in larger fleets, only nodes on which something changes."""

MOST_ROWS = 64
"""The most rows in a panel: two bars for each of the most nodes, and the names of domains."""

PANEL_INCHES, FRAME_INCHES, PAIR_ROWS = 4.8, 1.7, 2.1
"""Width of a panel, height of its frame, and height in rows of a node with two bars."""

STAYS, SAFE, LOST, MOVES, PENDING = "#9db7d3", "#c5cad0", "#d1495b", "#eec16b", "#3f9b76"
EMPTIED_EDGE = "#b8720a"


class _Block(NamedTuple):
    """Alike pods of a gang on a node, drawn as one block."""

    name: str
    gpus: int
    colour: str
    labels: tuple[str, ...]


class _Panel(NamedTuple):
    """A panel: its title, the blocks on each node before and after, and the emptied nodes."""

    name: str
    title: str
    before: dict[str, list[_Block]]
    after: dict[str, list[_Block]]
    emptied: set[str]


def drawing_of(
    instance: Instance,
    solutions: Mapping[str, Solution],
    *,
    title: Sequence[str] = (),
    pending: str = "",
    panel_inches: float = PANEL_INCHES,
) -> Drawing:
    """Return a drawing with one panel per solution, side by side, and the nodes by domain.

    A node on which something changes has two bars. The upper bar shows its pods before, coloured by
    whether they stay, are lost or move away. The lower bar shows its pods after, with those that
    moved in and the pending pods that were placed. Pods are as wide as their number of GPUs, where
    a part of a GPU, such as a MIG slice, counts as one. If no node has GPUs, they are as wide as
    their amount of the first resource. In fleets with more than 20 nodes, only nodes on which
    something changes are drawn.

    Parameters
    ----------
    instance
        The instance that the solutions answer.
    solutions
        Valid solutions, by solver name. If empty, the instance alone is drawn.
    title
        The lines of the title of each panel; by default the solver and the losses.
    pending
        The name of the pending gang; by default the names of the shapes of its pods.
    panel_inches
        The width of a panel. Names have the more letters the wider it is.
    """
    has_gpus = any(_amount(node.capacity, GPU) for node in instance.nodes)
    resource = GPU if has_gpus else next(iter(instance.resources), GPU)
    panels = [_solution_panel(instance, *each, resource, pending) for each in solutions.items()]
    if title:
        lines = "\n".join(map(as_written, title))
        panels = [panel._replace(title=lines) for panel in panels]
    touched = {n for each in panels for n in each.before if each.before[n] != each.after[n]}
    panels = panels or [_instance_panel(instance, resource)]
    words = {STAYS: "stays", LOST: "lost", MOVES: "moves", PENDING: "placed"}
    if not solutions:
        words = {STAYS: "may be lost", SAFE: "may not be lost"}
    most_rows = rows_of_panel(MOST_ROWS, len(panels))
    for most in range(min(MOST_NODES, most_rows), 0, -1):
        shown, left_out = _shown(instance, touched, panels, resource, most)
        heads, row, height = _rows(instance, shown, touched)
        if height <= most_rows:
            break
    width = style_in_force().width_inches or panel_inches
    longest = max(LONGEST_NAME, round(LONGEST_NAME * width / PANEL_INCHES))
    names = [
        f"{shortened(name, longest)}{', cordoned' * (not node.is_usable)}"
        for node, name in zip(shown, _without_domain([node.id for node in shown]), strict=True)
    ]
    gpus = {node.id: _amount(node.capacity, resource) for node in shown}

    def draw(panel: _Panel, rows: BlockRows) -> str:
        middles = [sum(row[node.id]) / len(row[node.id]) for node in shown]
        rows.axes.set_yticks(middles, list(map(as_written, names)))
        rows.axes.set_ylim(height - 0.4, -0.6)
        for domain, place in heads.items():
            rows.axes.text(0, place + 0.1, heading(domain), va="center")
        for name, width in gpus.items():
            for place, blocks in zip(row[name], (panel.before, panel.after), strict=False):
                is_after = bool(solutions) and blocks is panel.after
                bar: dict[str, Any] = {"node": name, "time": "after" if is_after else "before"}
                rows.track(place, width, state="capacity", **bar)
                left = 0
                for block in blocks[name]:
                    data = {"gang": block.name, "state": words[block.colour]} | bar
                    rows.block(place, left, block.gpus, block.colour, *block.labels, **data)
                    left += block.gpus
            if name in panel.emptied:
                rows.frame(row[name][-1], width, EMPTIED_EDGE)
        return panel.title

    bars = " (above: before, below: after)" * bool(touched)
    has_parts = any(gpus[node.id] > node.capacity.get(GPU, 0) for node in shown)
    return drawing_of_rows(
        {panel.name: partial(draw, panel) for panel in panels},
        names,
        max(1, *gpus.values()),
        label=f"{'GPUs' + ' and parts of GPUs' * has_parts if has_gpus else resource}{bars}",
        colours={word: colour for colour, word in words.items()} | {"free": FREE_COLOUR},
        framed={"to be emptied": EMPTIED_EDGE},
        left_out=left_out,
        width_inches=panel_inches,
        frame_inches=FRAME_INCHES,
        rows=height,
    )


def _amount(amounts: Mapping[str, int], resource: str) -> int:
    """Return the amount of the drawn resource; GPUs and parts of GPUs count alike."""
    if resource != GPU:
        return amounts.get(resource, 0)
    return sum(amounts[name] for name in amounts if name == GPU or name.startswith(GPU_NAMES))


def _without_domain(names: Sequence[str]) -> list[str]:
    """Return the names of hosts without the part after the first dot, if all have the same."""
    hosts, _, domains = zip(*(name.partition(".") for name in names), strict=True)
    is_common = len({*domains}) == 1 and len({*hosts}) == len(hosts)
    return [*hosts] if is_common else [*names]


def _block(name: str, count: int, width: int, colour: str) -> list[_Block]:
    """Return a list with the block of some pods; it is empty if the width is 0."""
    _, _, last = name.rpartition("/")
    shorter = dict.fromkeys((name, last, shortened(last), shortened(last, 6)))
    labels = tuple(
        label for each in shorter for label in [f"{each} × {count}"] * (count > 1) + [each]
    )
    return [_Block(name, count * width, colour, labels)] if count and width else []


def _instance_panel(instance: Instance, resource: str) -> _Panel:
    """Return a panel with the pods on each node, coloured by whether they may be lost."""
    blocks: dict[str, list[_Block]] = {node.id: [] for node in instance.nodes}
    for gang in instance.gangs:
        colour = STAYS if instance.may_lose_pods(gang) else SAFE
        for group in gang.pods:
            width = _amount(group.request, resource)
            blocks[group.node] += _block(gang.id, group.count, width, colour)
    parts = [counted(len(instance.nodes), "node"), counted(len(instance.gangs), "gang")]
    for shape in instance.demand.shapes if instance.demand else ():
        amount = _in_words(shape.request.get(resource, 0), resource)
        parts.append(f"{shape.count:,} × {amount} pending")
    must = {node.id for node in instance.nodes if node.must_be_empty}
    parts += [f"{instance.empty_nodes + len(must):,} to empty"] * bool(instance.empty_nodes or must)
    return _Panel("", heading(instance.name, ", ".join(parts)), blocks, blocks, must)


def _solution_panel(
    instance: Instance, name: str, solution: Solution, resource: str, pending: str
) -> _Panel:
    """Return a panel with the pods on each node before and after; pods that stay come first."""
    lost: Counter[tuple[str, int]] = Counter()
    moves: defaultdict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for each in solution.lost_pods:
        lost[each.gang, each.group] += each.count
    for move in solution.moved_pods:
        moves[move.gang, move.group][move.to] += move.count
    stay: dict[str, list[_Block]] = {node.id: [] for node in instance.nodes}
    leaving, coming = ({node: list[_Block]() for node in stay} for _ in range(2))
    for gang in instance.gangs:
        for position, group in enumerate(gang.pods):
            width, at = _amount(group.request, resource), (gang.id, position)
            gone = group.count if gang.id in solution.lost_gangs else lost[at]
            to = moves[at]
            left = group.count - gone - sum(to.values())
            stay[group.node] += _block(gang.id, left, width, STAYS)
            leaving[group.node] += _block(gang.id, gone, width, LOST)
            for target, count in to.items():
                leaving[group.node] += _block(gang.id, count, width, MOVES)
                coming[target] += _block(gang.id, count, width, MOVES)
    requests = {each.id: each.request for each in instance.demand.shapes} if instance.demand else {}
    for pods in solution.placements:
        width = _amount(requests[pods.shape], resource)
        coming[pods.node] += _block(pending or pods.shape, pods.count, width, PENDING)
    emptied = {node.id for node in instance.nodes if node.must_be_empty} | {*solution.emptied_nodes}
    return _Panel(
        name=name,
        title=_title(instance, name, solution, resource),
        before={node: blocks + leaving[node] for node, blocks in stay.items()},
        after={node: blocks + coming[node] for node, blocks in stay.items()},
        emptied=emptied,
    )


def _in_words(amount: int, resource: str) -> str:
    return counted(amount, "GPU") if resource == GPU else f"{amount:,} {resource}"


def _title(instance: Instance, name: str, solution: Solution, resource: str) -> str:
    report = check(instance, solution)
    shrunk = len(report.victims or ()) - len(solution.lost_gangs)
    moved, unplaced = report.moved_pods_in_all or 0, report.unplaced_pods or 0
    lost = _in_words((report.lost_resources or {}).get(resource, 0), resource)
    parts = [f"{counted(len(solution.lost_gangs), 'gang')} lost"]
    parts += [f"{counted(shrunk, 'gang')} smaller"] * bool(shrunk)
    parts += [f"{lost} lost"] * bool(report.victims)
    parts += [f"{counted(moved, 'pod')} moved"] * bool(moved)
    parts += [f"{counted(unplaced, 'pod')} unplaced"] * bool(unplaced)
    return heading(name, ", ".join(parts))


def _shown(
    instance: Instance, touched: set[str], panels: Sequence[_Panel], resource: str, most: int
) -> tuple[list[Node], str]:
    """Return at most `most` nodes, in file order, and a text on the nodes that are not drawn.

    A node without the drawn resource has an empty row, which is left out unless it is chosen.
    """
    chosen = touched.union(*(panel.emptied for panel in panels))
    of_panels = [
        {name for name, blocks in panel.before.items() if blocks != panel.after[name]}
        | panel.emptied
        for panel in panels
    ]
    node_of = {node.id: node for node in instance.nodes}
    ranked = [node_of[name] for name in by_all_solutions([*node_of], of_panels)]
    ranked = [n for n in ranked if n.id in chosen or _amount(n.capacity, resource)] or ranked
    is_part = touched and len(ranked) > most
    kept = {node.id for node in ranked[: min(most, len(chosen)) if is_part else most]}
    rest = [node.id for node in instance.nodes if node.id not in kept]
    changing = sum(node in touched for node in rest)
    order = "preferring those to be emptied" if chosen else "in file order"
    if touched:
        words = f"{changing:,} of the others change" if changing else "the others do not change"
        order = f"preferring those that change; {words}"
    shown = [node for node in instance.nodes if node.id in kept]
    return shown, drawn_in_words(len(shown), len(instance.nodes), "node", order)


def _rows(
    instance: Instance, shown: Sequence[Node], touched: set[str]
) -> tuple[dict[str, float], dict[str, tuple[float, ...]], float]:
    """Return the row of each domain's name, the rows of each node's bars, and the total height."""
    level = instance.demand.level if instance.demand else None
    level = level or next((name for node in shown for name in node.domains), None)
    by_domain: dict[str, list[str]] = {}
    for node in shown:
        by_domain.setdefault(node.domains.get(level, "") if level else "", []).append(node.id)
    heads: dict[str, float] = {}
    row: dict[str, tuple[float, ...]] = {}
    height = 0.0
    for domain, names in by_domain.items():
        if level:
            of_level = f"{level} {domain}" if domain else f"no {level}"
            heads[domain if domain.startswith(level) else of_level] = height
            height += 1
        for name in names:
            row[name] = (height, height + 0.9) if name in touched else (height,)
            height += PAIR_ROWS if name in touched else 1
    return heads, row, height
