"""Priority fills over time in rational numbers, written from the definition."""

from fractions import Fraction


def mean_jct_of_fill(instance, key, *, one_by_one=False, in_turn=False):
    """Return the mean JCT of a fill by key(job, remaining work), ties in file order.

    Base demands first, or one job after the other; in turn no job overtakes one that waits.
    A scaling loss is the decimal that its file shows: 0.2 is 1/5. Keys and completions that are
    equal in these numbers are ties. The float 0.2 itself is larger than 1/5 by 1e-17 and would
    separate them.
    """
    jobs = instance.jobs
    left = {job.id: Fraction(job.work_worker_s) for job in jobs}
    started = {job.id for job in jobs if job.running}
    now, total = Fraction(0), Fraction(0)
    while left:
        active = [job for job in jobs if job.id in left and Fraction(job.release_s) <= now]
        order = sorted(active, key=lambda job: key(job, left[job.id]))
        workers = {job.id: job.min_workers for job in active if job.id in started}
        free = instance.gpus - sum(job.min_gpus for job in active if job.id in started)
        for job in order:
            if job.id not in workers:
                if job.min_gpus > free:
                    if in_turn:
                        break
                    continue
                workers[job.id] = job.min_workers
                free -= job.min_gpus
            if one_by_one:
                extra = min(job.max_workers - workers[job.id], free // job.gpus_per_worker)
                workers[job.id] += extra
                free -= extra * job.gpus_per_worker
        # Those who cannot start leave GPUs to those behind them that have started.
        for job in order:
            if job.id in workers:
                extra = min(job.max_workers - workers[job.id], free // job.gpus_per_worker)
                workers[job.id] += extra
                free -= extra * job.gpus_per_worker
        started |= set(workers)
        rates = {
            job.id: least + (workers[job.id] - least) * (1 - Fraction(str(job.scaling_loss)))
            for job in active
            if job.id in workers
            for least in (job.min_workers,)
        }
        ends = [now + left[name] / rate for name, rate in rates.items()]
        releases = [Fraction(job.release_s) for job in jobs if Fraction(job.release_s) > now]
        after = min(ends + releases)
        for job in active:
            if job.id in rates:
                left[job.id] -= rates[job.id] * (after - now)
                if left[job.id] == 0:
                    del left[job.id]
                    total += after - Fraction(job.release_s)
        now = after
    return total / len(jobs)
