"""Small instances of every problem for comparisons with the reference: usual ones and odd ones.

All come from `lyra_opt.testing.drawn_instances`, which describes each problem once. An odd instance
has other values in a few fields: ties, values at the limits of floats and integers, numbers that
floats cannot add exactly. Some of its entries are equal, and its names have quotes and spaces.
"""

from contextlib import suppress
from copy import deepcopy
from random import Random

from lyra_opt.core.errors import UserError
from lyra_opt.core.problem import find_problem
from lyra_opt.testing import drawn_instances
from lyra_opt.testing.choices import Choices
from lyra_opt.testing.strategies import strategy_of
from tests.optima import document_of
from tests.reference import PROBLEMS
from tests.reference.drawing import LARGEST_INTEGER
from tests.reference.heterogeneous import SHARES

TINY = {"max_jobs": 4, "max_machines": 4, "max_gpus": 4}
LIMITS = {
    "mean_jct": ({}, {"max_extra_workers": 0}, {"max_jobs": 2}),
    "network": ({**TINY, "with_timers": False}, {**TINY, "with_timers": True}),
    "preemption": ({"max_nodes": 3, "max_gangs": 3, "max_pending": 2},),
}
"""Limits of the strategies, by problem or variant, within which brute force is quick."""

VALUES = {
    "allocation": {
        "jobs.work_worker_s": ((1,), (1, 2, 3), (0.1, 0.3, 7.7), (1e-3, 1e3), (1e6, 1e6 + 1)),
        "jobs.scaling_loss": ((0.0,), (1.0,), (0.1, 0.9), (1 - 2**-53, 5e-324)),
    },
    "heterogeneous": {
        "jobs.throughput": ((1.0,), (0.1, 0.3, 3.0), (1e-3, 1e3, 1.0)),
        "jobs.steps": ((1,), (0.5, 0.3), (1e-9, 1e9)),
        "jobs.weight": ((1.0,), (0.1, 0.7), (1e-3, 1e3)),
        "jobs.elapsed_s": ((100.0, 0.0),),
    },
    "network": {
        "jobs.efficiency": ((1.0,), (1.0, 0.9, 0.3, 0.05), (1e-9, 1.0), (0.1, 0.2, 0.3)),
        "jobs.weight": ((1.0,), (1e12, 1e-12), (0.1, 0.3), (1e-270, 1.0)),
        "jobs.score": ((1.0,), (1.0, 1 - 2**-53)),
        "jobs.waiting_s": ((0.0, 3600.0), (1.0, 7200.0), (1e12, 0.0)),
        "jobs.rack_timer_s": ((None, 0.0, 3600.0, 3600.0000001, 1e12),),
        "jobs.network_timer_s": ((None, 0.0, 3600.0, 3600.0000001, 1e12),),
        "jobs.remaining_s": ((1.0, 1e12, 5e-324),),
        "jobs.attained_gpu_s": ((0.0, 1e12),),
        "waiting_weight_per_s": ((1.0,),),
        "machines.gpus": ((250_000,),),
    },
    "preemption": {
        "gangs.priority": ((0,), (5, 5, 9), (-(2**31), 2**31 - 1)),
        "gangs.weight": ((0, 1, LARGEST_INTEGER),),
        "gangs.start_s": ((0.0, -1e12, 1e12, 0.5, 60.0),),
        "demand.priority": ((2**31 - 1,),),
        "demand.shapes.max_per_node": ((1, 2, LARGEST_INTEGER),),
        "budgets.most": ((LARGEST_INTEGER,),),
    },
    "reclaim": {
        "jobs.weight": (
            *((1,), (0, 1), (1, 2, 4, 8, 16), (7,), (LARGEST_INTEGER, 1)),
            (10**6, 10**6 + 1, 999_999, 3),
        ),
        "servers.gpus": ((LARGEST_INTEGER // 16,),),
    },
}
"""For each field, sets of odd values; the entries of an odd instance take theirs from one set."""

EXTREME_WORK = (
    *((float(LARGEST_INTEGER), 1), (5e-324, 1), (1e-200, 2e-200), (1e-9, 1e9), (1 / 3,)),
)
"""Work that only objectives without a schedule can handle."""

FACTORS = {
    "allocation": (((2, 8), "gpus jobs.gpus_per_worker"),),
    "heterogeneous": (
        ((1e-6, 1e9), "jobs.throughput jobs.spread_throughput jobs.steps"),
        ((360.0, 0.1, 1e-3), "round_s restart_s jobs.release_s jobs.steps jobs.utility.deadline_s"),
    ),
    "preemption": (
        ((LARGEST_INTEGER // 256,), "nodes.capacity gangs.pods.request demand.shapes.request"),
    ),
}
"""Factors, and the fields that are all multiplied by one of them."""

NAMES = ("{0}{1}", "{1}", 'ü "{0}\\{1}', " {0} {1}, ", "{0}.{1}")
"""Forms of names, given a letter and a number."""


def small_instance(choose, problem, variant, **given_too):
    """Draw a small instance of a variant; brute force knows the optimum of most of them."""
    key = {"preemption": "moves", "reclaim": "semantics"}.get(problem, "objective")
    name = "mean_jct" if (problem, variant) == ("allocation", "mean_jct") else problem
    given_too |= {key: variant} | ({"max_jobs": 2} if variant in SHARES else {})
    limits = choose.one_of(*LIMITS.get(name, ({},)))
    return getattr(drawn_instances, f"{problem}_instance")(choose, **limits, **given_too)


def odd_instance(choose, problem, variant, **given_too):
    """Draw an instance of a variant, usual or odd; a change that breaks a rule is left out."""
    instance = small_instance(choose, problem, variant, **given_too)
    values, factors = VALUES[problem], FACTORS.get(problem, ())
    if problem == "allocation" and variant != "mean_jct":
        works = (*values["jobs.work_worker_s"], *EXTREME_WORK)
        values = values | {"jobs.work_worker_s": works}
        factors = (*factors, ((2**40,), factors[0][1]))
    changes = [
        *((_with_values, field, pools) for field, pools in values.items()),
        *((_multiplied, fields, pool) for pool, fields in factors),
        *((_with_twins, table, None) for table in ("jobs", "servers", "machines", "gangs")),
        (_with_odd_names, "", None),
    ]
    for change, fields, values_or_factors in choose.some(changes, 0, 4):
        document = deepcopy(document_of(instance))
        change(choose, document, fields, values_or_factors)
        with suppress(UserError):
            instance = find_problem(problem).parse_instance(document)
    return instance


odd_instances = strategy_of(odd_instance)


def _with_values(choose, document, field, pools):
    pool = choose.one_of(*pools)
    for within, key in _places(document, field.split(".")):
        within[key] = choose.one_of(*pool)


def _multiplied(choose, document, fields, factors):
    factor = choose.one_of(*factors)
    for field in fields.split():
        for within, key in _places(document, field.split(".")):
            if within.get(key):
                within[key] *= factor


def _with_twins(choose, document, table, _):
    """Make one entry of a table equal to another, except for its name."""
    entries = document.get(table, [])
    if len(entries) > 1:
        twin, other = choose.some(range(len(entries)), 2, 2)
        entries[twin] = {**entries[other], "id": entries[twin]["id"]}


def _with_odd_names(choose, document, *_):
    """Give entries, racks, labels and resources other names, in another order."""
    known = {"cpu", "zone"} | {
        entry[key]
        for entries in document.values()
        for entry in (entries if isinstance(entries, list) else ())
        for key in ("id", "name", "rack")
        if isinstance(entry, dict) and key in entry
    }
    numbers = choose.order(range(len(known)))
    form = choose.one_of(*NAMES)
    names = {old: form.format(old[0], new) for old, new in zip(sorted(known), numbers, strict=True)}
    names |= {f"lost:{old}": f"lost:{new}" for old, new in names.items()}
    document |= renamed({key: document[key] for key in document if key != "name"}, names)


def renamed(value, names):
    """Return a copy of a document in which names, as keys and as values, are replaced."""
    if isinstance(value, dict):
        return {names.get(key, key): renamed(entry, names) for key, entry in value.items()}
    if isinstance(value, list):
        return [renamed(entry, names) for entry in value]
    return names.get(value, value) if isinstance(value, str) else value


def _places(value, path):
    """Yield the objects and keys of all values at a path, which leads through lists and objects."""
    first, *rest = path
    for each in value if isinstance(value, list) else [value]:
        inner = each.get(first)
        if rest:
            yield from _places([] if inner is None else inner, rest)
        elif isinstance(inner, dict):
            yield from ((inner, key) for key in inner)
        else:
            yield each, first


def odd_document(choose, problem, variant):
    """Draw what the file of an odd instance holds."""
    return document_of(odd_instance(choose, problem, variant))


def choices_of(seed):
    """Return choices that are the same for the same seed, drawn faster than by Hypothesis."""
    return Choices(Random(seed).randint)


VARIANTS = [(problem, variant) for problem in PROBLEMS for variant in PROBLEMS[problem].VARIANTS]
