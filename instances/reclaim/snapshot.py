"""Family ``snapshot``: what runs on a fleet at a moment of the replay of a job trace.

The trace is replayed as `lyra_opt.instances.reclaim.replay` says, by one of the rules of
`lyra_opt.instances.reclaim.placement`. Published traces are small beside a fleet of 520 servers, so
their arrivals are scaled to a load of 95 % unless ``--load-percent`` says otherwise; the load
is part of the instance's name, as are trace and rule. It is an average of what is asked for:
at single moments less may run, or all GPUs may be taken and jobs wait.

A moment is drawn by seed: every millisecond from the submission after the first tenth of the
jobs, the warm-up, to the last is equally likely. (The warm-up is counted in jobs because a
trace may begin with a long spell in which hardly anything is recorded.) The replay does not
depend on the seed: the snapshots of several seeds are moments of one history.

Jobs larger than the fleet are left out; `SnapshotFamily.remarks` says how many.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.reclaim.family import Layout, ReclaimFamily, numbered_ids
from lyra_opt.instances.reclaim.placement import PLACEMENT_RULES
from lyra_opt.instances.reclaim.replay import Replay, replay
from lyra_opt.instances.traces import Trace, read_trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.instances.reclaim.parameters import ReclaimParameters

WARM_UP_PERCENT = 10
LONGEST_TRACE_LABEL = 60

_UNFIT_FOR_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class SnapshotFamily(ReclaimFamily):
    """Snapshots of a replayed trace; see the module."""

    required = ("servers", "reclaim", "trace")
    optional: ClassVar[tuple[str, ...]] = (*ReclaimFamily.optional, "placement", "load_percent")

    def _layout(self, parameters: ReclaimParameters, seed: int) -> Layout:
        history = self._history(parameters)
        submissions = history.submissions_ms
        warm = submissions[len(submissions) * WARM_UP_PERCENT // 100]
        stream = self._stream("moment", parameters.servers, seed)
        moment = stream.between(warm, submissions[-1])
        return Layout(
            server_ids=numbered_ids("s", parameters.servers),
            jobs=[(run.job.job_id, run.allocation) for run in history.running_at(moment)],
        )

    def _size_label(self, parameters: ReclaimParameters) -> str:
        trace = _UNFIT_FOR_FILE_NAMES.sub("_", _trace_of(parameters).name)[:LONGEST_TRACE_LABEL]
        rule, load = parameters.placement, parameters.load_percent
        return f"-{trace}-{rule}-load{load}-s{parameters.servers}"

    def remarks(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return how many jobs of the trace are left out, if any."""
        dropped = self._history(self.check(parameters)).dropped_jobs
        return (f"jobs of the trace larger than the fleet, left out: {dropped}",) if dropped else ()

    def _history(self, parameters: ReclaimParameters) -> Replay:
        return _replay_once(
            _trace_of(parameters),
            parameters.servers,
            parameters.placement,
            parameters.load_percent,
            self.version,
        )


def _trace_of(parameters: ReclaimParameters) -> Trace:
    assert parameters.trace is not None  # it is required
    return read_trace(parameters.trace)


@lru_cache(maxsize=2)  # all snapshots of a call are cut from one replay
def _replay_once(trace: Trace, servers: int, rule: str, load: int | str, version: int) -> Replay:
    stream = IntegerStream(
        family="snapshot",
        version=version,
        purpose="replay",
        placement=rule,
        servers=servers,
        load=load,
    )
    load_percent = load if isinstance(load, int) else None
    return replay(trace, servers, load_percent, PLACEMENT_RULES[rule](servers, stream))


SNAPSHOT = SnapshotFamily(
    "snapshot",
    version=1,
    summary="what runs at a moment of the replay of a job trace; needs --trace",
)
