"""What every scheme does on every kind of cluster, replayed and compared with what was recorded.

Record anew by ``python -m tests.lyra_opt.simulation.golden_cases --record``,
on purpose alone: when behaviour or format changes, and the commit says why.

A case is a scheme in a situation: a workload on a cluster with its options. ``golden_cases.toml``
lists the situations and their schemes, and ``golden_jobs.json.gz`` their workloads: the name, which
tells how the jobs were drawn and seeds schemes, and the fields of each `Job` or measured `GangJob`.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lyra_opt.core.fields import parsed
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.instances.heterogeneous.clusters import (
    cluster_of_servers,
    find_cluster,
    known_gpu_types,
)
from lyra_opt.simulation.cluster import Cluster, LoanPlan, Server
from lyra_opt.simulation.scheme import Options, find_scheme, simulate
from lyra_opt.simulation.topology import Rack, Topology
from lyra_opt.simulation.workload import Job, Workload
from tests.lyra_opt.simulation import test_by_hand as by_hand
from tests.lyra_opt.simulation.on_racks import cluster_of as racks_of
from tests.lyra_opt.simulation.on_racks import linked
from tests.lyra_opt.simulation.replays import lending, workload_of
from tests.tables import tables

GOLDENS = Path(__file__).with_name("goldens.npz")
TABLES = tables(__file__)
"""Situations by kind of cluster and name."""
WORKLOADS = json.loads(
    gzip.decompress(Path(__file__).with_name("golden_jobs.json.gz").read_bytes())
)
GROUPS = TABLES.pop("groups")
"""Schemes that are replayed in the same situations, and other groups of them."""

# How a case is replayed.


class Situation(NamedTuple):
    """What is replayed, whatever the scheme, whose parameters it sets."""

    workload: Workload
    cluster: Cluster
    plan: LoanPlan | None
    options: Options
    parameters: Mapping[str, Any]


class Outcome(NamedTuple):
    """What became of the jobs, by submission.

    Parameters
    ----------
    completion_s, queued_s
        float64, shape (jobs,).
    preemptions
        int64, shape (jobs,).
    extra
        int64, shape (jobs, columns); the columns are those of `EXTRA_COLUMNS`.
    """

    completion_s: np.ndarray
    queued_s: np.ndarray
    preemptions: np.ndarray
    extra: np.ndarray


EXTRA_COLUMNS = {"pools": (), "rounds": ("restarts",), "racks": ("migrations", "losses")}
"""What else is counted of a job, by kind of cluster."""


def replay(situation, scheme, kind):
    """Replay a situation under a scheme."""
    workload, cluster, plan, options, parameters = situation
    found = find_scheme(scheme).with_parameters(parameters)
    runs = simulate(workload, cluster, found, plan=plan, options=options).runs
    extra = [[getattr(run, name) for name in EXTRA_COLUMNS[kind]] for run in runs]
    return Outcome(
        completion_s=np.array([run.completion_s for run in runs], np.float64),
        queued_s=np.array([run.queued_s for run in runs], np.float64),
        preemptions=np.array([run.preemptions for run in runs], np.int64),
        extra=np.array(extra, np.int64),
    )


# What is replayed.

LENT = (6, 1, 4, 0, 5, 2, 6, 3, 0, 4, 1, 5, 2)
"""Servers on loan in turn; up and down at almost every decision."""


def _cluster_of(given):
    if "like" in given:
        return find_cluster(given["like"])
    if "gpus_on" in given:
        servers = [Server(id=f"s{n}", gpus=gpus) for n, gpus in enumerate(given["gpus_on"])]
        types = {known_gpu_types()[name] for server in servers for name in server.gpus}
        return cluster_of_servers(servers, sorted(types, key=lambda each: -each.relative_speed))
    if "linked" in given:
        racks = (Rack(machines=count, gpus_per_machine=gpus) for count, gpus in given["linked"])
        return linked(Topology(name="linked", racks=tuple(racks)), given["links"])
    if "models" in given:
        return racks_of(*given["racks"], models=given["models"])
    return by_hand.cluster_of(dict(given))


def _job_of(fields):
    if "measured" in fields:
        return Job.of_gang(parsed(GangJob, fields["measured"]))
    return Job(**fields)


@cache
def situation_of(kind, name):
    """Return a situation."""
    given = TABLES[kind][name]
    workload = WORKLOADS[given.get("jobs", f"{kind}/{name}")]
    interval_s, decisions = given.get("loans", (0.0, 0))
    on_loan = (LENT * decisions)[:decisions]
    return Situation(
        workload_of(*map(_job_of, workload["jobs"]), name=workload["name"]),
        _cluster_of(given),
        lending(*on_loan, interval_s=interval_s, busy=0.25) if decisions else None,
        by_hand.options_of(given),
        given.get("parameters", {}),
    )


def schemes_of(given):
    """Yield the schemes of a group by name, or of a list of schemes and groups."""
    for name in GROUPS[given] if isinstance(given, str) else given:
        yield from schemes_of(name) if name in GROUPS else (name,)


class Case(NamedTuple):
    """A scheme in a situation."""

    kind: str
    scheme: str
    situation: str

    @property
    def name(self):
        """Such as ``pools/lyra/loans-elastic``."""
        return "/".join(self)

    @property
    def tolerance(self):
        """The relative difference of two times that are taken for equal.

        None where events are added up one by one; rounds may be added up in another order, and the
        rates of Pollux are powers, whose last digits are the machine's.
        """
        is_exact = self.kind == "pools" or (
            self.kind == "racks" and self.scheme in GROUPS["leases"]
        )
        return 0.0 if is_exact and self.scheme != "pollux" else 1e-9

    def replay(self):
        """Run it."""
        return replay(situation_of(self.kind, self.situation), self.scheme, self.kind)


CASES = tuple(
    Case(kind, scheme, situation)
    for kind, situations in TABLES.items()
    for situation, table in situations.items()
    for scheme in schemes_of(table["schemes"])
)
"""Those of a situation next to each other."""


# What was recorded.


def save_goldens(outcomes, path=GOLDENS):
    """Write the outcomes of cases by name, column by column."""
    parts = list(outcomes.values())
    text = "\n".join(outcomes).encode()
    columns = {
        "names": np.frombuffer(text, np.uint8),
        "jobs": np.array([len(part.completion_s) for part in parts], np.int64),
        "completion_s": _planes(np.concatenate([part.completion_s for part in parts])),
        "queued_s": _planes(np.concatenate([part.queued_s for part in parts])),
        "preemptions": np.concatenate([part.preemptions for part in parts]),
        "extra": np.concatenate([part.extra.ravel() for part in parts]),
    }
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".npz", delete=False) as file:
        np.savez_compressed(file, allow_pickle=False, **columns)
    Path(file.name).replace(path)
    path.chmod(0o644)


@cache
def load_goldens(path=GOLDENS):
    """Return the outcomes recorded, by the name of the case."""
    with np.load(path, allow_pickle=False) as file:
        columns = dict(file)
    names = columns["names"].tobytes().decode().split("\n")
    completion_s = np.ascontiguousarray(columns["completion_s"].T).view("<f8").ravel()
    queued_s = np.ascontiguousarray(columns["queued_s"].T).view("<f8").ravel()
    found = {}
    start = extra_start = 0
    for name, jobs in zip(names, columns["jobs"].tolist(), strict=True):
        end = start + jobs
        width = len(EXTRA_COLUMNS[name.partition("/")[0]])
        extra_end = extra_start + jobs * width
        found[name] = Outcome(
            completion_s[start:end],
            queued_s[start:end],
            columns["preemptions"][start:end],
            columns["extra"][extra_start:extra_end].reshape(jobs, width),
        )
        start, extra_start = end, extra_end
    return found


def _planes(numbers):
    """Return the bytes of float64, all first ones first, which compress better; shape (8, n)."""
    little = np.ascontiguousarray(numbers, "<f8")
    return np.ascontiguousarray(little.view(np.uint8).reshape(-1, 8).T)


def _record():
    stopwatch = time.perf_counter()
    outcomes = {case.name: case.replay() for case in CASES}
    save_goldens(outcomes)
    size_kib = GOLDENS.stat().st_size / 1024
    elapsed_s = time.perf_counter() - stopwatch
    print(f"{len(outcomes)} cases in {elapsed_s:.1f} s, {size_kib:.0f} KiB: {GOLDENS}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", required=True)
    parser.parse_args()
    _record()
