"""Small workloads of gangs in whole seconds, and plain schedulers that share no code with ours."""

from itertools import permutations

from hypothesis import strategies as st

from lyra_opt.simulation.clairvoyant.gangs import Capacity, Gangs

GPUS = 4
Fields = tuple[int, int, int]
"""Release, seconds, GPUs."""

GANG = st.tuples(st.integers(0, 12), st.integers(1, 8), st.integers(1, GPUS))
GANGS = st.lists(GANG, min_size=1, max_size=12)
FEW_GANGS = st.lists(GANG, min_size=1, max_size=5)


@st.composite
def rooms(draw):
    """Draw steps (second, GPUs) the last of which has room for any gang."""
    seconds = sorted(draw(st.sets(st.integers(1, 25), max_size=4)))
    gpus = [draw(st.integers(0, 2 * GPUS)) for _ in seconds]
    return list(zip([0, *seconds], [*gpus, draw(st.integers(GPUS, 2 * GPUS))], strict=True))


def gangs_of(jobs):
    """Return jobs as schedulers take them."""
    return Gangs.of(*zip(*jobs, strict=True))


def capacity_of(room):
    """Return steps as schedulers take them."""
    gangs = gangs_of([(second, 1, max(1, gpus)) for second, gpus in room])
    return Capacity(since_s=gangs.release_s, gpus=gangs.gpus * [gpus > 0 for _, gpus in room])


def free_by_second(jobs, room):
    """Return the GPUs of each second, for as many as any schedule may need."""
    seconds = max(job[0] for job in jobs) + room[-1][0] + sum(job[1] for job in jobs) + 1
    return [[gpus for since, gpus in room if since <= now][-1] for now in range(seconds)]


def fits(job, now, free):
    """Whether a job could run from a second on."""
    return now >= job[0] and all(free[now + n] >= job[2] for n in range(job[1]))


def hold(job, now, free):
    """Take the GPUs of a job that runs from a second on."""
    for n in range(job[1]):
        free[now + n] -= job[2]


def hold_soonest(job, free):
    """Take the GPUs of a job from the first second on at which it fits, and return that."""
    now = next(now for now in range(len(free)) if fits(job, now, free))
    hold(job, now, free)
    return now


def by_the_second(jobs, room, turn, *, backfills):
    """Return the starts of a list schedule, second by second."""
    free = free_by_second(jobs, room)
    order = sorted(range(len(jobs)), key=lambda job: turn[job])
    starts = [-1] * len(jobs)
    for now in range(len(free)):
        for job in order:
            if starts[job] >= 0 or jobs[job][0] > now:
                continue
            if fits(jobs[job], now, free):
                hold(jobs[job], now, free)
                starts[job] = now
            elif not backfills:
                break
    return starts


def least_mean_jct_s(jobs, room):
    """Return the least mean JCT: some order, each job as soon as it fits, is optimal."""
    totals = []
    for order in permutations(jobs):
        free = free_by_second(jobs, room)
        totals.append(sum(hold_soonest(job, free) + job[1] - job[0] for job in order))
    return min(totals) / len(jobs)
