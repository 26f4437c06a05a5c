"""Replay and snapshots: small traces by hand, and the published ones where they are present."""

import hashlib

import pytest

from lyra_opt.core.documents import format_document
from lyra_opt.core.errors import UserError
from lyra_opt.core.problem import find_problem
from lyra_opt.instances.family import find_family, generate
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.reclaim.placement import PLACEMENT_RULES, BestFit
from lyra_opt.instances.reclaim.snapshot import replay
from lyra_opt.instances.traces import Trace, TraceJob


def trace_of(*rows):
    """Return a trace of (id, submission, duration, GPUs), in seconds."""
    return Trace("made-up", tuple(TraceJob(i, 1000 * s, 1000 * d, g) for i, s, d, g in rows))


def fleet(rule, servers):
    return PLACEMENT_RULES[rule](servers, IntegerStream(test=rule))


def history(trace, servers, load_percent=None, rule="bf"):
    run = replay(trace, servers, load_percent, fleet(rule, servers))
    return {r.job.job_id: (r.start_ms / 1000, r.end_ms / 1000, r.allocation) for r in run.runs}


def test_best_fit_fills_the_server_with_most_room_where_nothing_fits():
    placement = BestFit(3, IntegerStream(seed=0))
    for gpus in (8, 8, 8):
        placement.place(gpus)
    placement.release({0: 2, 1: 3, 2: 2})
    assert placement.place(6) == {1: 3, 0: 2, 2: 1}


def test_replay_by_hand():
    trace = trace_of(
        ("a", 100, 10, 8),  # first submission: moment 0 of the replay
        ("b", 101, 4, 4),
        ("wide", 102, 5, 12),  # waits until a and b have ended
        ("late", 103, 2, 4),  # passes it
        ("huge", 104, 9, 17),  # larger than two servers: left out
        ("none", 105, 0, 1),  # lasts no time
        ("d", 105, 1, 2),  # starts as b and late end
    )
    assert history(trace, servers=2) == {
        "a": (0, 10, {0: 8}),
        "b": (1, 5, {1: 4}),
        "late": (3, 5, {1: 4}),
        "d": (5, 6, {1: 2}),
        "wide": (10, 15, {0: 8, 1: 4}),
    }
    run = replay(trace, 2, None, fleet("bf", 2))
    assert run.dropped_jobs == 1
    assert run.submissions_ms == (0, 1000, 2000, 3000, 5000, 5000)
    assert [r.job.job_id for r in run.running_at(5000)] == ["a", "d"]
    assert [r.job.job_id for r in run.running_at(15_000)] == []


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (trace_of(("a", 0, 1, 9)), "--servers is 1: too few for any job of trace made-up"),
        (trace_of(("a", 5, 1, 1), ("b", 5, 1, 1)), "--load-percent is 95: must be trace for"),
        (trace_of(("a", 5, 0, 1), ("b", 6, 0, 1)), "--load-percent is 95: must be trace for"),
    ],
)
def test_traces_that_cannot_be_replayed(trace, message):
    with pytest.raises(UserError, match=message):
        replay(trace, 1, 95, fleet("bf", 1))


@pytest.fixture
def trace_file(tmp_path):
    rows = [f"j{n},{60 * n},{600 + n % 7},{(1, 2, 8, 16, 100)[n % 5]}" for n in range(200)]
    path = tmp_path / "my jobs.csv"
    path.write_text("job_id,submit_time_s,duration_s,gpus\n" + "\n".join(rows) + "\n")
    return path


GOLDEN = {
    "bf": "541a9077f1c9d4aacebb3b788a89f4d6eba6ad7974fb74ea49a9d5382ff398b2",
    "messy": "c36812256cae93e39c8a12d26399ce239755eecd1e4903f4b9c6d6e609a030c0",
    "rnd": "943246253b03dea08bb2b6cdcf9f9da8712f040e0fa976540dce6d8560a7ca77",
}


@pytest.mark.parametrize("rule", GOLDEN)
def test_golden_bytes(trace_file, rule):
    parameters = {"servers": 6, "reclaim": 2, "trace": trace_file, "placement": rule}
    instance = generate("reclaim", "snapshot", **parameters, seed=1)
    text = format_document(find_problem("reclaim").instance_document(instance))
    assert hashlib.sha256(text.encode()).hexdigest() == GOLDEN[rule]


def test_snapshot_of_a_file(trace_file):
    parameters = {"servers": 6, "reclaim": 2, "trace": trace_file}
    instance = generate("reclaim", "snapshot", **parameters)
    assert instance.name == "snapshot-v1-my_jobs-bf-load95-s6-k2-seed0"
    assert {job.id for job in instance.jobs} <= {f"j{n}" for n in range(200) if n % 5 != 4}
    remarks = find_family("reclaim", "snapshot").remarks(parameters)
    assert remarks == ("jobs of the trace larger than the fleet, left out: 40",)


def snapshot_of(trace, rule, servers, reclaim, seed):
    question = {"servers": servers, "reclaim": reclaim, "seed": seed}
    return generate("reclaim", "snapshot", trace=trace, placement=rule, **question)


@pytest.mark.parametrize("rule", sorted(PLACEMENT_RULES))
def test_snapshots_of_one_call_equal_those_asked_alone(trace_file, rule):
    def cut(seed):
        return snapshot_of(trace_file, rule, 12, 3, seed)

    together = [cut(seed) for seed in range(4)]
    from lyra_opt.instances.reclaim import snapshot

    for seed in (3, 1):
        snapshot._replay_once.cache_clear()
        assert cut(seed) == together[seed]
    assert len({instance.jobs for instance in together}) > 1
