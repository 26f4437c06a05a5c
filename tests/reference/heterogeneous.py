"""Gangs on unlike GPUs: what is drawn; schedules are in `rounds`, shares of time in `shares`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.reference import rounds, shares

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.reference.drawing import Document, Draw

ROUNDS = ("utility", "makespan", "mean_jct", "round_progress")
SHARES = ("max_min_share", "finish_time_fairness", "makespan_share", "throughput", "cost")
VARIANTS = (*ROUNDS, *SHARES)
MAXIMISED = ("utility", "round_progress", "max_min_share", "throughput", "cost")


def drawn(draw: Draw, variant: str, name: str) -> Document:
    """Return an instance: GPUs on which none runs, jobs too long, released late, equal or huge."""
    has_rounds = variant in ROUNDS
    types = draw.names("t", draw.pick(1, 2, 2, 3))
    servers = []
    for server in draw.names("h", draw.pick(1, 1, 2, 2, 3)):
        kinds = draw.sample(types, draw.randint(1, min(2, len(types))))
        gpus = {kind: draw.pick(1, 1, 2, 3) for kind in kinds}
        servers.append({"id": server, "gpus": gpus})
    draw.with_twins(servers, "id")
    counts = {kind: sum(each["gpus"].get(kind, 0) for each in servers) for kind in types}
    round_s = draw.pick(1.0, 1.0, 360.0, 0.1, 1e-3)
    scale = draw.pick(1.0, 1.0, 1.0, 1e-6, 1e9) if draw.sometimes(0.3) else 1.0
    rates = draw.pick((1.0,), (1.0, 2.0), (0.0, 1.0, 2.0, 4.0), (0.1, 0.3, 3.0), (1e-3, 1e3, 1.0))
    lengths = draw.pick((1,), (1, 2, 3), (2, 4, 6, 8), (0.5, 0.3), (1e-9, 1e9))
    weights = draw.pick((1.0,), (1.0,), (1.0, 2.0), (0.1, 0.7), (1e-3, 1e3))
    jobs = []
    for job in draw.names("j", draw.pick(1, 2, 2, 3) if has_rounds else draw.pick(1, 2, 2)):
        able = [kind for kind in types if counts[kind]] if not has_rounds else types
        sure = draw.pick(*able)
        gang = draw.pick(1, 1, 1, 2, 2, draw.randint(1, sum(counts.values()) + 1))
        if not has_rounds:
            gang = min(gang, counts[sure])
        throughput = {kind: draw.pick(*rates) * scale for kind in types if draw.sometimes(0.8)}
        throughput[sure] = max(max(rates), throughput.get(sure, 0.0)) * scale or scale
        entry: dict[str, Any] = {
            "id": job,
            "gang": gang,
            "steps": draw.pick(*lengths) * max(throughput.values()) * round_s,
            "throughput": throughput,
        }
        if draw.sometimes(0.3):
            factor = draw.pick(0.5, 0.0, 0.9, 2.0)
            entry["spread_throughput"] = {
                kind: rate * factor for kind, rate in throughput.items() if draw.sometimes(0.8)
            }
        if has_rounds and draw.sometimes(0.4):
            entry["release_s"] = round_s * draw.pick(0.0, 0.5, 1.0, 1.5, 3.0)
        if draw.sometimes(0.5):
            entry["weight"] = draw.pick(*weights)
        if draw.sometimes(0.6):
            entry["utility"] = _utility(draw, round_s if has_rounds else entry["steps"] / scale)
        if not has_rounds and draw.sometimes(0.4):
            entry["elapsed_s"] = draw.pick(0.0, 1.0, 100.0)
            entry["isolated_elapsed_s"] = draw.pick(0.0, 1.0, 100.0)
        jobs.append(entry)
    draw.with_twins(jobs, "id")
    if variant == "round_progress":
        _hold(draw, servers, jobs)
    document = {
        "format": "lyra-opt/heterogeneous",
        "version": 1,
        "name": name,
        "objective": variant,
        "round_s": round_s,
        "gpu_types": [
            {"name": kind, "price_per_hour": draw.pick(1.0, 1.0, 0.5, 3.0)} for kind in types
        ],
        "servers": servers,
        "jobs": jobs,
    }
    if has_rounds and variant != "round_progress":
        document["horizon_rounds"] = draw.pick(1, 2, 3, 4, 5)
    if variant == "round_progress":
        document["restart_s"] = draw.pick(0.0, 0.25, 1.0) * round_s
    if has_rounds:
        document["forking"] = draw.sometimes(0.4)
    return document


def _utility(draw: Draw, time_s: float) -> Document:
    value = draw.pick(0.0, 1.0, 4.0)
    return draw.pick(
        {"kind": "inverse_jct", "scale": draw.pick(1.0, 3.0, 1e6)},
        {
            "kind": "deadline",
            "deadline_s": time_s * draw.pick(0.5, 1.0, 2.0, 2.5),
            "value": value,
            "late_value": value * draw.pick(0.0, 0.5, 1.0),
        },
        {"kind": "table", "entries": [[time_s, 4.0], [time_s * 2, 4.0], [time_s * 3, 0.5]]},
    )


def _hold(draw: Draw, servers: list[Document], jobs: list[Document]) -> None:
    """Let some gangs hold GPUs as the round begins."""
    free = [
        (server["id"], kind)
        for server in servers
        for kind, count in server["gpus"].items()
        for _ in range(count)
    ]
    for job in jobs:
        if draw.sometimes(0.5) and len(free) >= job["gang"]:
            if draw.sometimes(0.5):
                draw.shuffle(free)
            held: dict[str, dict[str, int]] = {}
            for server, kind in (free.pop() for _ in range(job["gang"])):
                held.setdefault(server, {}).setdefault(kind, 0)
                held[server][kind] += 1
            job["current"] = held


def optimum(document: Document) -> Any:
    """Return the best value."""
    return (rounds if document["objective"] in ROUNDS else shares).optimum(document)


def measured(document: Document, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an answer is worth."""
    found: dict[str, Any] = (rounds if document["objective"] in ROUNDS else shares).measured(
        document, chosen["allocation"]
    )
    return found
