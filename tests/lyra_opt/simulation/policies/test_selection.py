"""Backfilling and preemptive serving, compared with replays second by second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.policies.selection import SERVER_FILLING, FreeLater, Serving
from lyra_opt.simulation.scheme import Options, find_scheme
from lyra_opt.simulation.tenure import Forever
from tests.draws import draws
from tests.lyra_opt.simulation.replays import completions, job_of, replay

GPUS = 8
FREE = Options(forever=Forever(preemption_s=0.0))
JOBS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 20), st.sampled_from([1, 1, 2, 3, 4, 8])),
    min_size=1,
    max_size=10,
)


class Plain:
    """A cluster of 8 GPUs that goes on by a second at a time; jobs are numbered by submission."""

    def __init__(self, jobs):
        self.jobs = jobs
        self.left = [run_s for _, run_s, _ in jobs]
        self.gpus = [gpus for *_, gpus in jobs]
        self.running, self.waiting, self.ended_s = [], [], {}

    def replay(self, decide):
        now = 0
        while len(self.ended_s) < len(self.jobs):
            ended = [job for job in self.running if not self.left[job]]
            self.ended_s |= dict.fromkeys(ended, now)
            self.running = [job for job in self.running if job not in ended]
            come = [job for job, (at_s, *_) in enumerate(self.jobs) if at_s == now]
            self.waiting += come
            if ended or come:
                decide(self, now)
            for job in self.running:
                self.left[job] -= 1
            now += 1
        return [self.ended_s[job] for job in range(len(self.jobs))]

    def free(self):
        return GPUS - sum(self.gpus[job] for job in self.running)

    def start(self, job):
        self.waiting.remove(job)
        self.running.append(job)


def easy(plain, now):
    """The shadow time and the extra GPUs of the first job that does not fit, and who may pass."""
    while plain.waiting and plain.gpus[plain.waiting[0]] <= plain.free():
        plain.start(plain.waiting[0])
    if not plain.waiting:
        return
    first, *others = plain.waiting
    room, shadow_s, extra = plain.free(), 0, 0
    for job in sorted(plain.running, key=lambda job: plain.left[job]):
        if room >= plain.gpus[first] and plain.left[job] > shadow_s:
            break
        room, shadow_s = room + plain.gpus[job], plain.left[job]
    extra = room - plain.gpus[first]
    for job in others:
        is_short = plain.left[job] <= shadow_s
        if plain.gpus[job] <= plain.free() and (is_short or plain.gpus[job] <= extra):
            plain.start(job)
            extra -= 0 if is_short else plain.gpus[job]


def conservative(plain, now):
    """Each job in turn gets the first second from which the GPUs of every second suffice."""
    used = [0] * 1000
    for job in plain.running:
        for second in range(plain.left[job]):
            used[second] += plain.gpus[job]
    for job in list(plain.waiting):
        gpus, run_s = plain.gpus[job], plain.left[job]
        begin = next(s for s in range(1000) if all(u + gpus <= GPUS for u in used[s : s + run_s]))
        for second in range(begin, begin + run_s):
            used[second] += gpus
        if not begin:
            plain.start(job)


def serves(rank, rule):
    """Whoever is chosen runs; the last of the others make room as far as it is needed."""

    def decide(plain, now):
        def key(job):
            return rank(plain, job), job

        order = sorted(plain.running + plain.waiting, key=key)
        chosen = rule(plain, order)
        others = [job for job in order if job not in chosen and job in plain.running]
        come = [job for job in chosen if job in plain.waiting]
        for job in sorted(come, key=lambda job: (-plain.gpus[job], job)):
            stopped = []
            while plain.gpus[job] > plain.free() + sum(plain.gpus[each] for each in stopped):
                stopped.append(others.pop())
            for each in stopped:
                plain.running.remove(each)
                plain.waiting.append(each)
            plain.start(job)
        for job in sorted(plain.waiting, key=key):
            if plain.gpus[job] <= plain.free():
                plain.start(job)

    return decide


def first_fit(plain, order):
    found = []
    for job in order:
        if sum(plain.gpus[each] for each in (*found, job)) <= GPUS:
            found.append(job)
    return found


def filling(plain, order):
    sums = [sum(plain.gpus[job] for job in order[: end + 1]) for end in range(len(order))]
    end = next((end for end, gpus in enumerate(sums) if gpus >= GPUS), len(order) - 1)
    return first_fit(plain, sorted(order[: end + 1], key=lambda job: -plain.gpus[job]))


RULES = {
    "easy": easy,
    "conservative": conservative,
    "srpt-k": serves(lambda plain, job: plain.left[job], first_fit),
    "serverfilling-srpt": serves(lambda plain, job: plain.left[job] * plain.gpus[job], filling),
}


@pytest.mark.parametrize("name", RULES)
@given(jobs=JOBS)
@draws(200)
def test_as_second_by_second(name, jobs):
    """Each job ends when it ends in a replay that is written from the definition of the rule."""
    jobs = sorted(jobs, key=lambda job: job[0])
    given = [job_of(f"j{place}", *job, checkpoints=True) for place, job in enumerate(jobs)]
    ours = completions(replay(given, Cluster.of_servers(1), name, options=FREE))
    assert ours == pytest.approx(Plain(jobs).replay(RULES[name]))


@given(powers=st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_powers_of_two_fill_all_gpus(powers):
    """The theorem that ServerFilling rests on."""
    gangs = [2**power for power in powers]
    chosen = Serving(rule=SERVER_FILLING).chosen(gangs, GPUS)
    assert sum(gangs[place] for place in chosen) == min(GPUS, sum(gangs))


@pytest.mark.parametrize(("limit_h", "ended_s"), [(0.0, 11000), (2.0, 16000), (9.0, 26000)])
def test_limit_on_starvation(limit_h, ended_s):
    """The gang of two waits while single jobs overtake it, until it has waited for the limit."""
    short = [job_of(f"s{n}", 5000.0 * n, 10000.0) for n in range(4)]
    jobs = sorted([*short, job_of("wide", 1, 1000.0, 2)], key=lambda job: job.submit_s)
    parts = {"queue": "first-come-overtaking", "backfill": {"waited_h": limit_h}}
    scheme = find_scheme("fifo").with_parameters(parts)
    simulation = replay(jobs, Cluster.of_servers(1, gpus_per_server=2), scheme)
    assert simulation.runs[1].completion_s == ended_s


def test_a_gang_larger_than_the_pool_never_starts():
    later = FreeLater(0.0, 1, [(5.0, 1)])
    later.reserve(later.start_s(3, 1.0), 3, 1.0)  # nothing
    assert [later.start_s(gpus, 9.0) for gpus in (1, 2)] == [0.0, 5.0]
