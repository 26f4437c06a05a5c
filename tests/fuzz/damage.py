"""Files that are damaged in one to three places, and what reads them."""

import bz2
import gzip
import json
import lzma
import re
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import read_json_object
from lyra_opt.core.errors import UserError
from lyra_opt.core.loading import load_instance, load_solution
from lyra_opt.core.problem import find_problem
from lyra_opt.experiments.simulation.scenario.loading import load_scenario
from lyra_opt.experiments.study import read_study
from lyra_opt.instances.heterogeneous.clusters import known_gpu_types, read_gpu_types
from lyra_opt.instances.heterogeneous.node_lists import read_nodes
from lyra_opt.instances.heterogeneous.throughput_files import load_throughputs
from lyra_opt.instances.traces import read_trace
from lyra_opt.instances.workloads.readers import read_workload
from lyra_opt.instances.workloads.usage import read_usage
from lyra_opt.proofs import order_stand_alone, preemption_stand_alone, stand_alone
from lyra_opt.proofs.files import checked_proof
from lyra_opt.simulation.class_timers import read_timers
from lyra_opt.simulation.communication import read_slowdowns
from lyra_opt.simulation.topology import read_topology
from lyra_opt.testing.choices import Choices
from tests.instances.workloads.test_readers import LAYOUTS, OURS
from tests.lyra_opt.proofs import test_orders, test_preemption, test_reclaim_jobs, test_stand_alone
from tests.malformed import SOLUTIONS
from tests.odd_instances import odd_document, odd_instance
from tests.reference import PROBLEMS
from tests.reference.drawing import Draw
from tests.tables import tables

ROOT = Path(__file__).parent.parent.parent
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**53 - 1, 2**53, 2**63, -(2**63), 10**30, 10**400),
    *(0.0, -0.0, 0.5, 1.0, -1e-9, 5e-324, 1e-60, 1e60, 1e308, float("inf"), float("nan")),
    *("", " ", "x", "0", "1e3", "nan", "\0", "\n", "ä", "\ud800", "x" * 300, "__class__"),
    *([], [[]], [None], [0, 0], {}, {"": 0}, {"id": "x"}, [{}]),
    *("1e500000000", "1/0", "-" + "9" * 3000, "1/" + "9" * 1500, 10**1500),
)
"""Values of every type of JSON, among them those at the edges of rules."""
EDGES = (
    *(0, 1, 2, 10**5, 10**6, 10**12, 2**53 - 1, 0.0, 1e-60, 1e-12, 0.5, 1.0, 1e6, 1e12, 1e60),
    *(1.7e9, 1.7e12, 1 - 2**-53),
)
"""Numbers at the edges of rules, and times of clocks."""
ODD_CELLS = (
    *("", " ", "0", "-1", "1", "0.5", "-0", "1e400", "1e-400", "nan", "inf", "-inf", "None"),
    *("null", "9" * 400, "9007199254740993", "1_000", "0x1", "x", "ä", '"', "'", "\0", ",", ";"),
    *("\t", "[]", "{}", "true", "2020-02-30 00:00:00", "9999-12-31 23:59:59"),
    *("0001-01-01", "1,000", "۳"),
)
"""The same for tables and TOML."""
CELL = re.compile(rb"[^\s,|=\[\]{}\"]+")


def _read_and_check(problem: str, path: Path) -> None:
    """Read a solution of a drawn instance, and let the checker say what it is worth."""
    name = problem.partition("-")[0]
    solution, _ = load_solution(path, find_problem(name))
    draw = Draw(path.name)
    instance = odd_instance(Choices(draw.randint), name, draw.choice(PROBLEMS[name].VARIANTS))
    if solution is not None:
        find_problem(name).check(instance, solution)


def _read_twice(path: Path) -> None:
    """Read an instance; what is written of it must be read as the same."""
    loaded = load_instance(path)
    document = loaded.problem.instance_document(loaded.instance)
    assert loaded.problem.parse_instance(json.loads(json.dumps(document))) == loaded.instance


PROOFS = {
    "allocation": (test_orders, order_stand_alone.main),
    "preemption": (test_preemption, preemption_stand_alone.main),
    "reclaim": (test_stand_alone, stand_alone.main),
    "reclaim-jobs": (test_reclaim_jobs, test_reclaim_jobs.main),
}
"""For each kind of proof a module with an instance and its prover, and the stand-alone checker."""


@cache
def _proof(problem: str) -> Any:
    """Return the proof of the optimum of an instance."""
    source, _ = PROOFS[problem]
    return source.proved(source.FLEET)


def _read_proof(problem: str, path: Path) -> None:
    """Check a proof; the stand-alone checker says the same by its exit code, or cannot read it."""
    source, judge = PROOFS[problem]
    instance = path.with_name("fleet.json")
    instance.write_text(json.dumps(source.FLEET))
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        code = judge([str(instance), str(path)])
    assert code in (0, 1, 2)
    loaded, proof = load_instance(instance), read_json_object(path)
    found = checked_proof(loaded, loaded.proved_document(), proof, str(path))
    assert code in (2, 0 if found.holds else 1)


def _read_trace(path: Path) -> None:
    """Read a trace, whose time begins with its first job."""
    assert read_workload(path).jobs[0].submit_s == 0


@cache
def readers():
    """Return of each kind of file the suffix of its name and what reads it."""
    tables = {
        "usage": read_usage,
        "slowdowns": read_slowdowns,
        "throughputs": load_throughputs,
        "node list": partial(read_nodes, known=known_gpu_types()),
        "job trace": read_trace,
    }
    settings = {
        "timers": read_timers,
        "topology": read_topology,
        "GPU types": read_gpu_types,
        "study": read_study,
        "scenario": lambda path: load_scenario(str(path)),
    }
    return {
        **{f"instance of {problem}": (".json", _read_twice) for problem in PROBLEMS},
        **{f"solution of {name}": (".json", partial(_read_and_check, name)) for name in SOLUTIONS},
        **{f"proof of {name}": (".json", partial(_read_proof, name)) for name in PROOFS},
        **{f"trace of {layout}": (".csv", _read_trace) for layout in LAYOUTS},
        **{kind: (".csv", read) for kind, read in tables.items()},
        **{kind: (".toml", read) for kind, read in settings.items()},
    }


def undamaged(draw: Draw, kind: str) -> Any:
    """Return a valid file of a kind: a document, or text."""
    first, _, rest = kind.partition(" of ")
    if first == "instance":
        variant = draw.choice(PROBLEMS[rest].VARIANTS)
        return odd_document(Choices(draw.randint), rest, variant)
    if first == "solution":
        return deepcopy(SOLUTIONS[rest].valid)
    if first == "trace":
        return LAYOUTS[rest]
    if first == "proof":
        return deepcopy(_proof(rest))
    texts = tables(__file__) | {"job trace": OURS}
    if kind in texts:
        return texts[kind]
    folders = {
        "topology": [ROOT / "instances" / "network" / "four-racks.toml"],
        "GPU types": [ROOT / "instances" / "heterogeneous" / "gpu_types.toml"],
        "study": sorted((ROOT / "experiments" / "studies").glob("*.toml")),
        "scenario": sorted((ROOT / "experiments" / "scenarios").glob("*.toml")),
    }
    return draw.choice(folders[kind]).read_text()


def damaged(draw: Draw, kind: str) -> bytes:
    """Return a file of a kind with one to three changes, of its values or of its bytes."""
    valid = undamaged(draw, kind)
    if isinstance(valid, str):
        data = valid.encode()
        for _ in range(draw.randint(1, 3)):
            data = _changed_text(draw, data)
    else:
        for _ in range(draw.pick(1, 1, 2, 3)):
            valid = _changed_document(draw, valid)
        text = json.dumps(valid, ensure_ascii=draw.sometimes(0.5))
        data = text.encode("utf-8", "surrogatepass")
        if draw.sometimes(0.2):
            data = _changed_text(draw, data)
    if draw.sometimes(0.1):
        data = draw.pick(partial(gzip.compress, mtime=0), bz2.compress, lzma.compress)(data)
        if draw.sometimes(0.7):
            data = _changed_bytes(draw, data)
    return data


def at_the_edge(draw: Draw, document: Any) -> Any:
    """Return a document in which one or two numbers are at the edge of what any rule allows.

    Or beyond: then the document is no instance.
    """
    for _ in range(draw.pick(1, 1, 2)):
        places = [(within, key) for within, key in places_in(document) if _is_number(within[key])]
        within, key = draw.choice(places)
        within[key] = draw.choice(EDGES)
    return document


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def places_in(document: Any) -> list[tuple[Any, Any]]:
    """Return every object or list of a document with each of its keys."""
    found = []
    for key, entry in document.items() if isinstance(document, dict) else enumerate(document):
        found.append((document, key))
        if isinstance(entry, dict | list):
            found += places_in(entry)
    return found


def _changed_document(draw: Draw, document: Any) -> Any:
    """Replace a value, leave it out, say it twice, or give a table a key that it does not know."""
    if not isinstance(document, dict | list) or draw.sometimes(0.01):
        return draw.choice(ODD_VALUES)
    places = places_in(document)
    if not places:
        return document
    within, key = draw.choice(places)
    what = draw.random()
    if what < 0.6:
        within[key] = deepcopy(draw.choice(ODD_VALUES))
    elif what < 0.75:
        del within[key]
    elif what < 0.85:
        other, other_key = draw.choice(places)
        within[key] = deepcopy(other[other_key])
    elif isinstance(within, list):
        within.append(deepcopy(within[key]))
    else:
        within[str(draw.choice(ODD_CELLS))] = deepcopy(draw.choice(ODD_VALUES))
    return document


def _changed_text(draw: Draw, data: bytes) -> bytes:
    """Replace a word by an odd one, move, leave out or double a line, or change bytes."""
    words = list(CELL.finditer(data))
    if words and draw.sometimes(0.5):
        word = draw.choice(words)
        odd = draw.choice(ODD_CELLS).encode()
        return data[: word.start()] + odd + data[word.end() :]
    lines = data.splitlines(keepends=True)
    if len(lines) > 1 and draw.sometimes(0.5):
        number = draw.randrange(len(lines))
        line = lines.pop(number)
        lines[number:number] = [line] * draw.pick(0, 0, 2, 3)
        if draw.sometimes(0.3):
            lines.insert(draw.randrange(len(lines) + 1), line)
        return b"".join(lines)
    return _changed_bytes(draw, data)


def _changed_bytes(draw: Draw, data: bytes) -> bytes:
    """Flip, cut out or insert bytes, cut the end off, or change how text is written."""
    place = draw.randrange(len(data) + 1)
    changes = {
        "flipped": lambda: data[:place] + draw.randbytes(1) + data[place + 1 :],
        "cut out": lambda: data[:place] + data[place + draw.randint(1, 20) :],
        "inserted": lambda: data[:place] + draw.randbytes(draw.randint(1, 3)) + data[place:],
        "truncated": lambda: data[:place],
        "carriage returns": lambda: data.replace(b"\n", b"\r\n"),
        "byte order mark": lambda: b"\xef\xbb\xbf" + data,
        "sixteen bits": lambda: data.decode("latin-1").encode("utf-16"),
        "nothing": lambda: b"",
    }
    return draw.choice(list(changes.values()))()


def outcome(read, path):
    """Return the outcome of reading a path: "read", "refused", or a fault of the reader."""
    try:
        read(path)
    except UserError as error:
        said = str(error)
        is_one_line = "\n" not in said and said.startswith(str(path))
        return "refused" if is_one_line else f"refusal: {said!r}"
    except Exception as error:
        return f"exception: {type(error).__name__}: {error}"
    return "read"
