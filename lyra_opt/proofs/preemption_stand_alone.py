"""Check exactly, with Python alone, a proof about an instance of the preemption problem.

    python preemption_stand_alone.py INSTANCE.json PROOF.json

Exit code: 0 if the proof proves its claim, 1 if it does not, 2 if a file cannot be read.
docs/proofs.md explains the proofs: a table of counts, or trees for each domain and each term.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from math import gcd
from pathlib import Path
from typing import Any

PROOF_FORMAT, VERSION = "lyra-opt/proof", 1
KEYS = {"counting": {"table", "blocking"}, "trees": {"bound", "solution", "domains"}}
MOST_STEPS, MOST_VARIABLES, MOST_OPEN = 2 * 10**8, 10**6, 1000  # files with more are refused
LOST, MOVED = {"lost_pods": 1, "disrupted_pods": 1}, {"moved_pods": 1, "disrupted_pods": 1}
COUNTS = {"lost_gangs", *LOST}  # and "lost:" with a resource
TERMS = {*COUNTS, *MOVED, "weighted_gangs", "unplaced", "budget_excess", "extra_domains"}
Document = dict[str, Any]
Row = dict[int, int]


class Refuted(Exception):  # noqa: N818
    """The proof does not prove its claim."""


TABLES = {
    "instance": 'format:text version:positive name:text="unnamed" assumptions:text="" moves:text='
    '"none" nodes:[node] gangs:[gang]=[] demand:demand=null empty_nodes:count=0 empty_selector:'
    "labels={} victims:text=null budgets:[budget]=[] objective:names=null",
    "node": "id:text capacity:amounts domains:labels={} labels:labels={} is_usable:flag=true "
    "must_be_empty:flag=false",
    "gang": "id:text priority:integer=0 pods:[pods] min_pods:positive=null is_protected:flag=false "
    'is_movable:flag=true queue:text="default" weight:count=1 start_s:any=0',
    "pods": "node:text request:amounts count:positive=1 selector:labels={}",
    "demand": 'priority:integer=0 queue:text="default" shapes:[shape] level:text=null '
    "is_level_required:flag=true",
    "shape": 'id:text="pod" count:positive request:amounts min_count:count=@count '
    "max_per_node:positive=@count selector:labels={}",
    "budget": 'id:text gangs:names counts:text="disrupted_pods" most:count used:count=0 '
    "is_hard:flag=true",
}
FIELDS = {name: re.findall(r"(\w+):([][\w]+)=?(\S*)", text) for name, text in TABLES.items()}
RULES: dict[str, Any] = {
    "any": lambda _: True,
    "text": lambda value: isinstance(value, str) and value,
    "flag": lambda value: isinstance(value, bool),
    "integer": lambda value: type(value) is int and -(2**31) <= value < 2**31,
    "count": lambda value: type(value) is int and 0 <= value < 2**53,
    "positive": lambda value: type(value) is int and 0 < value < 2**53,
    "amounts": lambda value: all(map(RULES["count"], value.values())),
    "labels": lambda value: all(map(RULES["text"], value.values())),
    "names": lambda value: all(map(RULES["text"], value)) and len(set(value)) == len(value),
}


def read(value: Any, rule: str, path: str) -> Any:
    """Return a value with defaults for missing keys; raise ValueError if it breaks the rules."""
    if rule in RULES:
        if not RULES[rule](value):
            raise ValueError(f"{path} is {str(value)[:40]!r}, but must be: {rule}")
        return value
    if rule.startswith("["):
        found = [read(each, rule[1:-1], f"{path}[{place}]") for place, each in enumerate(value)]
        if len({each.get("id", place) for place, each in enumerate(found)}) < len(found):
            raise ValueError(f"{path}: the same id must not occur twice")
        return found
    rest, table = dict(value), Document()
    for key, of, default in FIELDS[rule]:
        if (given := rest.pop(key, None)) is None and default:
            table[key] = table[default[1:]] if default[0] == "@" else json.loads(default)
        else:
            table[key] = read(given, of, f"{path}.{key}")
    if rest:
        raise ValueError(f"{path} has the unknown key {min(rest)[:40]!r}")
    return table


class Cluster:
    """An instance with its defaults, and the consequences of its rules for gangs and nodes."""

    def __init__(self, document: Document) -> None:
        self.found = found = read(document, "instance", "instance")
        demand, self.gangs, nodes = found["demand"], found["gangs"], found["nodes"]
        victims = found["victims"] or ("lower" if demand else "any")
        demand = demand or read({"shapes": []}, "demand", "demand")
        self.shapes, level = demand["shapes"], demand["level"]
        required = level if demand["is_level_required"] else None
        self.preferred = None if required else level
        self.nodes = {node["id"]: node for node in nodes}
        self.domains: dict[Any, list[Document]] = {} if required else {None: []}
        for node in nodes:
            if level in (None, *node["domains"]):
                self.domains.setdefault(node["domains"].get(required), []).append(node)
        for gang in self.gangs:
            lead, is_other = demand["priority"] - gang["priority"], gang["queue"] != demand["queue"]
            may = {"any": True, "none": False, "lower": lead > 0, "lower-or-equal": lead >= 0}
            gang["may_lose"] = (may | {"other-queue": is_other})[victims] > gang["is_protected"]
            may = {"none": False, "victims": gang["may_lose"], "any": True}
            gang["may_move"] = may[found["moves"]] and gang["is_movable"]
            gang["adds"] = Counter({"lost_gangs": 1, "weighted_gangs": gang["weight"]})
            for pods in gang["pods"]:
                pods["max_per_node"], count = 2**53, pods["count"]
                pods["held"] = Counter({key: each * count for key, each in pods["request"].items()})
                pods["adds"] = LOST | {f"lost:{key}": each for key, each in pods["request"].items()}
                gang["adds"].update({key: each * count for key, each in pods["adds"].items()})
            gang["nodes"], size = {pods["node"] for pods in gang["pods"]}, gang["adds"]["lost_pods"]
            gang["slack"] = size - (gang["min_pods"] or size)
        self.fixed = {g["id"] for g in self.gangs if not (g["may_lose"] or g["may_move"])}
        self.closed = {node["id"] for node in nodes if node["must_be_empty"]}
        labels, self.chosen = found["empty_selector"].items(), found["empty_nodes"]
        self.open = {n["id"] for n in nodes if self.chosen and labels <= n["labels"].items()}
        self.free = self.beside(ids := {gang["id"] for gang in self.gangs})[0]
        self.room = self.beside(self.fixed)[0]
        least = [each for amounts in self.free.values() for each in amounts.values()]
        least += [shape["count"] - shape["min_count"] for shape in self.shapes]
        if min([len(self.domains) - 1, *least, *(gang["slack"] for gang in self.gangs)]) < 0:
            raise ValueError("a node is too full, a minimum is too large, or no node has the level")
        lost = {f"lost:{key}" for node in nodes for key in node["capacity"]}
        usual = ["unplaced", "budget_excess", "lost_gangs_by_priority"]
        usual += ["lost:gpu" if "lost:gpu" in lost else "lost_pods", "moved_pods", "extra_domains"]
        levels = sorted({gang["priority"] for gang in self.gangs}, reverse=True)
        self.terms, wrong = list[str](), {victims} - {"any", "none"}
        wrong -= {"lower", "lower-or-equal", "other-queue"} if found["demand"] else set()
        for each in found["budgets"]:
            wrong |= {each["counts"]} - COUNTS - lost | {*each["gangs"]} - ids
        for term in found["objective"] or usual:
            name = term.removesuffix("_by_priority")
            self.terms += [name] if name == term else [f"{name}@{level}" for level in levels]
            wrong |= {name} if "@" in name else {name} - TERMS - lost
        if wrong:
            raise ValueError(f"{min(wrong)[:40]!r} is not a known gang, term, quantity or rule")

    def beside(self, staying: set[str]) -> tuple[dict[str, Counter[str]], dict[str, str]]:
        """Return the free amounts on each node if some gangs stay, and one such gang by node."""
        room = {name: Counter(node["capacity"]) for name, node in self.nodes.items()}
        held = [(g["id"], pods) for g in self.gangs if g["id"] in staying for pods in g["pods"]]
        for _, pods in held:
            room[pods["node"]].subtract(pods["held"])
        return room, {pods["node"]: name for name, pods in reversed(held)}

    def places(self, pods: Document, nodes: Any, room: Document) -> dict[str, int]:
        """Return how many of the pods fit on each node; nodes on which none fits are left out."""
        most, labels, fits = min(pods["count"], pods["max_per_node"]), pods["selector"].items(), {}
        for node in nodes:
            if node["is_usable"] and not node["must_be_empty"] and labels <= node["labels"].items():
                amounts, request = room[node["id"]], pods["request"].items()
                fits[node["id"]] = min([most, *(amounts[key] // x for key, x in request if x)])
        return {name: count for name, count in fits.items() if count}

    def shortages(self, staying: set[str]) -> list[Document]:
        """Return a table which proves that no solution exists if the gangs stay, or no rows."""
        room, stays = self.beside(staying)
        for name in (name for name in stays if name in self.closed):
            return [{"node": name, "must_be_empty_but_holds": stays[name]}]
        emptiable, table = self.open - self.closed - stays.keys(), list[Document]()
        if len(emptiable) < self.chosen:
            return [{"nodes_that_can_be_emptied": len(emptiable), "wanted": self.chosen}]
        for domain, nodes in self.domains.items():
            for shape in self.shapes:
                places, wanted = self.places(shape, nodes, room), shape["min_count"]
                inside = sorted(count for name, count in places.items() if name in emptiable)
                lost = inside[: max(0, self.chosen - (len(emptiable) - len(inside)))]
                if (fit := sum(places.values()) - sum(lost)) < wanted:
                    row = {"domain": domain, "shape": shape["id"], "wanted": wanted, "fit": fit}
                    table.append(row | {"shortfall": wanted - fit})
                    break
            else:
                return []
        return table

    def check_counting(self, table: list[Document], blocking: list[str]) -> None:
        """Raise Refuted if the table is wrong, or the blocking gangs are not a minimal set."""
        if not table or table != self.shortages(self.fixed):
            raise Refuted("counting does not lead to the table of the proof")
        rest = self.fixed - set(blocking)
        decides = len(self.fixed) - len(rest) == len(blocking) <= MOST_OPEN
        decides &= sum(shape["min_count"] > 0 for shape in self.shapes) <= 1
        decides &= not any(budget["is_hard"] for budget in self.found["budgets"])
        decides &= all(gang["may_lose"] >= gang["may_move"] for gang in self.gangs)
        is_minimal = decides and all(self.shortages(rest | {name}) for name in blocking)
        if blocking and not (is_minimal and not self.shortages(rest)):
            raise Refuted("counting does not show that the blocking gangs are a minimal set")


class Programme:
    """The integer programme of a domain: variables from 0 to `upper`, rows, and costs by term."""

    def __init__(self, cluster: Cluster, domain: Any) -> None:
        self.rows: list[tuple[Row, int, bool]] = []  # coefficients, right side, is an equation
        self.columns: list[tuple[str, Document, Document]] = []  # name, gang, what it adds
        self.arriving: dict[str, list[tuple[int, Document, int]]] = defaultdict(list)
        self.leaving: dict[str, list[tuple[Document, Row]]] = defaultdict(list)
        self.kinds: dict[str, list[tuple[int, Document]]] = defaultdict(list)
        self.upper, used = list[int](), dict[str, int]()
        for shape in cluster.shapes:
            row: Row = {}
            for name, most in cluster.places(shape, cluster.domains[domain], cluster.room).items():
                column = self.variable(f"shape {shape['id']!r} on {name!r}", most)
                self.arriving[name].append((column, shape, most))
                row[column] = 1
                if cluster.preferred is not None:
                    area = cluster.nodes[name]["domains"][cluster.preferred]
                    used[area] = used.get(area) or self.variable(f"domain {area!r} used", 1)
                    self.row({used[area]: most, column: -1}, 0)
            spare = shape["count"] - shape["min_count"]
            row[self.variable(f"shape {shape['id']!r} unplaced", spare, {"unplaced": 1})] = 1
            self.row(row, shape["count"], equal=True)
        extra = self.variable("extra domains", len(used), {"extra_domains": 1})
        self.row({extra: 1} | dict.fromkeys(used.values(), -1), -1)
        some, chosen = cluster.closed | cluster.open | self.arriving.keys(), Row()
        needed = some if cluster.found["moves"] == "none" else cluster.nodes.keys()
        for gang in (each for each in cluster.gangs if not needed.isdisjoint(each["nodes"])):
            self._lose_or_move_pods(gang, needed)
        for number, alike in enumerate(self.kinds.values()):
            pods = alike[0][1] | {"count": sum(each["count"] for _, each in alike)}
            row = {column: -1 for column, _ in alike}
            for name, most in cluster.places(pods, cluster.found["nodes"], cluster.room).items():
                column = self.variable(f"kind {number} on {name!r}", most)
                self.arriving[name].append((column, pods, most))
                row[column] = 1
            self.row(row, 0, equal=True)
        for name in (name for name in cluster.nodes if name in needed):
            if name in cluster.closed or name in cluster.open:
                empty = self.variable(f"node {name!r} emptied", 1)
                chosen[empty] = int(name not in cluster.closed)
                self.row({empty: 1}, int(name in cluster.closed))
                for column, _, most in self.arriving[name]:
                    self.row({column: -1, empty: -most}, -most)
                for pods, out in self.leaving[name]:
                    self.row(out | {empty: -pods["count"]}, 0)
            self._hold_pods(cluster, name)
        self.row(chosen, cluster.chosen, equal=True)
        every = [*enumerate(self.columns)]
        for each in cluster.found["budgets"]:
            right, gangs, counts = each["used"] - each["most"], {*each["gangs"]}, each["counts"]
            row = {c: -adds.get(counts, 0) for c, (_, g, adds) in every if g.get("id") in gangs}
            if not each["is_hard"]:
                most = right - sum(amount * self.upper[column] for column, amount in row.items())
                row[self.variable(f"budget {each['id']!r}", max(0, most), {"budget_excess": 1})] = 1
            self.row(row, right)
        self.terms: dict[str, Row] = {key: {} for key in cluster.terms}
        for column, (_, gang, adds) in enumerate(self.columns):
            for key in adds:
                for term in self.terms.keys() & {key, f"{key}@{gang.get('priority')}"}:
                    self.terms[term][column] = adds[key]

    def variable(self, name: str, upper: int, adds: Any = None, gang: Any = None) -> int:
        """Add a variable, return its number; `adds` has its coefficients in terms and budgets."""
        if len(self.upper) >= MOST_VARIABLES:
            raise ValueError(f"the programme has more than {MOST_VARIABLES} variables")
        self.upper.append(upper)
        self.columns.append((name, gang or {}, adds or {}))
        return len(self.upper) - 1

    def row(self, row: Row, right: int, *, equal: bool = False) -> None:
        """Add "sum of coefficients * x >= right", or an equation, unless bounds imply it."""
        least = sum(each * self.upper[column] for column, each in row.items() if each < 0)
        if equal or least < right:  # integers allow to divide and to round up
            by = (not equal and gcd(*row.values())) or 1
            self.rows.append(({c: x // by for c, x in row.items() if x}, -(-right // by), equal))

    def _lose_or_move_pods(self, gang: Document, needed: Any) -> None:
        """Add variables and rows of a gang: its whole loss, its lost pods otherwise, its moves."""
        name, slack, whole = gang["id"], gang["slack"] * gang["may_lose"], list[int]()
        groups = [(p, pods) for p, pods in enumerate(gang["pods"]) if pods["node"] in needed]
        if gang["may_lose"]:
            whole = [self.variable(f"gang {name!r} lost", 1, gang["adds"], gang)]
        kept = dict.fromkeys(whole, -slack)
        for position, pods in groups:
            count, label = pods["count"], f"gang {name!r} group {position}"
            out = dict.fromkeys(whole, count)
            if slack:
                column = self.variable(f"{label} lost", min(count, slack), pods["adds"], gang)
                out[column], kept[column] = 1, -1
            if gang["may_move"]:
                column = self.variable(f"{label} moved", count, MOVED, gang)
                kind = str([sorted(pods[key].items()) for key in ("request", "selector")])
                self.kinds[kind].append((column, pods))
                out[column] = 1
            self.row({column: -each for column, each in out.items()}, -count)
            self.leaving[pods["node"]].append((pods, out))
        self.row(kept, -slack)

    def _hold_pods(self, cluster: Cluster, name: str) -> None:
        """Add the capacity rows of a node, and the precedence rows, which strengthen them."""
        arriving, leaving = self.arriving[name], self.leaving[name]
        for resource in sorted({key for _, pods, _ in arriving for key in pods["request"]}):
            row = Counter({c: -pods["request"].get(resource, 0) for c, pods, _ in arriving})
            for pods, out in leaving:
                row.update({c: pods["request"].get(resource, 0) * x for c, x in out.items()})
            self.row(row, -cluster.free[name][resource])
        for pods, out in leaving if arriving else ():
            left = {name: cluster.room[name] - pods["held"]}  # as long as these pods stay
            for column, coming, most in arriving if out else ():
                fits = cluster.places(coming, [cluster.nodes[name]], left).get(name, 0)
                self.row(dict.fromkeys(out, most - fits) | {column: -1}, -fits)

    def values_at(self, point: Document) -> dict[str, int]:
        """Return the terms at a point, given by its non-zero variables; or raise Refuted."""
        x = [point.get(name, 0) for name, _, _ in self.columns]
        is_point = point.keys() <= {name for name, _, _ in self.columns}
        is_point &= all(type(v) is int and 0 <= v <= u for v, u in zip(x, self.upper, strict=True))
        for row, right, is_equation in self.rows:
            left = sum(each * x[column] for column, each in row.items())
            is_point &= left == right or (left > right and not is_equation)
        if not is_point:
            raise Refuted("the solution is not a point of the programme of its domain")
        return {k: sum(each * x[c] for c, each in row.items()) for k, row in self.terms.items()}

    def proved_cost(self, cost: Row, tree: Document) -> int:
        """Return the lower bound on a cost that a tree proves, by weak duality in each leaf."""
        scale, nodes, values = tree["denominator"], tree["nodes"], list[int]()
        boxes: list[dict[int, tuple[int, int]]] = [{}]
        steps = len(nodes) * (len(self.upper) + sum(len(row) for row, _, _ in self.rows))
        if type(scale) is not int or scale < 1 or len(tree) > 2 or steps > MOST_STEPS:
            raise ValueError("a tree is too large, or its denominator is not a positive integer")
        for node in nodes:
            box = boxes.pop()
            if node.keys() == {"branch", "at_most"}:
                column, at_most = node["branch"], node["at_most"]
                low, high = box.get(column, (0, self.upper[column]))
                if type(at_most) is not int or not low <= at_most < high or len(boxes) > MOST_OPEN:
                    raise Refuted("a branch does not split the values of a variable")
                boxes += [{**box, column: (at_most + 1, high)}, {**box, column: (low, at_most)}]
                continue
            flat: Any = node["multipliers"] if len(node) == 1 else None  # weak duality
            slopes, value = {column: scale * each for column, each in cost.items()}, 0
            for number, multiplier in dict(zip(flat[::2], flat[1::2], strict=True)).items():
                row, right, is_equation = self.rows[number]
                if type(multiplier) is not int or (multiplier < 0 and not is_equation):
                    raise Refuted("a multiplier is negative, or is not an integer")
                value += multiplier * right
                for column, each in row.items():
                    slopes[column] = slopes.get(column, 0) - multiplier * each
            for column, slope in slopes.items():
                low, high = box.get(column, (0, self.upper[column]))
                value += slope * (low if slope > 0 else high)
            values.append(value)
        if boxes:
            raise Refuted("a tree ends before all branches are closed")
        return -(-min(values) // scale)


def check(instance: Document, proof: Document) -> tuple[Document | None, ...]:
    """Return the bound and the solution's terms above 0, each None if missing; or raise Refuted."""
    keys = {"format", "version", "instance", "sha256", "kind"} | KEYS[proof["kind"]]
    if proof.keys() != keys or (proof["format"], proof["version"]) != (PROOF_FORMAT, VERSION):
        raise ValueError(f"the proof must have format {PROOF_FORMAT} and the keys {sorted(keys)}")
    text = json.dumps(instance, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if proof["sha256"] != hashlib.sha256(text.encode()).hexdigest():
        raise Refuted("the proof is for another instance")
    cluster, values = Cluster(instance), None
    if proof["kind"] == "counting":
        cluster.check_counting(proof["table"], proof["blocking"])
        return None, None
    bound, solution = proof["bound"], proof["solution"]
    if bound is not None and not bound.keys() <= {*cluster.terms}:
        raise ValueError(f"the keys of bound must be terms of the objective: {cluster.terms}")
    for domain, trees in zip(cluster.domains, proof["domains"], strict=True):
        programme, left = Programme(cluster, domain), iter(trees)
        if solution is not None and solution["domain"] == domain:
            values = programme.values_at(solution["variables"])
        for key, cost in ({"": Row()} if bound is None else programme.terms).items():
            if value := 1 if bound is None else bound.get(key, 0):
                proved = programme.proved_cost(cost, next(left, {}))
                if proved > value:
                    break  # every solution of the domain is worse than the bound
                if proved < value or type(value) is not int:
                    raise Refuted(f"it claims {key!r} {value}, but proves only {proved}")
            programme.rows += [({c: -x for c, x in cost.items()}, -value, False)] * bool(cost)
    return tuple(x and {key: each for key, each in x.items() if each} for x in (bound, values))


def main(arguments: list[str]) -> int:
    """Check the two files of the command line; return the exit code."""
    try:
        instance, proof = (json.loads(Path(name).read_text("utf-8")) for name in arguments)
        bound, values = check(instance, proof)
    except Refuted as error:
        print(f"{arguments[1]}: NOT proved: {error}")
        return 1
    except Exception as error:
        print(f"cannot check {arguments}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
        return 2
    told = "no solution exists" if bound is None else f"no solution is better than {bound}"
    told += "" if values is None else f"; solution {values}{', optimal' * (values == bound)}"
    print(f"{arguments[1]}: proved: {told} (the instance itself is not checked)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
