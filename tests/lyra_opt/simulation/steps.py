"""Steps that policies of tests take by a table: what is done to which job, on which GPUs."""

from lyra_opt.simulation.job_run import Part
from lyra_opt.simulation.policy import QueuePolicy


def numbered(given):
    """Return GPUs by number, whose keys are text in a file, and anything else as it is."""
    return {int(host): gpus for host, gpus in given.items()} if isinstance(given, dict) else given


def starts(job, gpus, of=None):
    """Start a job on GPUs that are reserved for it, or for another."""
    return lambda policy, view, runs: policy.start(
        view, runs[job], view.reserve(runs[job if of is None else of], gpus)
    )


def starts_as_copies(job, *gpus):
    def act(policy, view, runs):
        of_copies = [view.reserve(runs[job], held, copy=copy) for copy, held in enumerate(gpus)]
        policy.start(view, runs[job], [part for parts in of_copies for part in parts])

    return act


def starts_there_after(leaves):
    """Return an act by which a job leaves its GPUs and starts on them at once."""

    def act(view, run):
        held = run.gpus
        leaves(view, run)
        view.start(run, view.reserve(run, held))

    return act


def all_start_on(gpus):
    def act(policy, view, runs):
        parts = view.reserve(runs[0], gpus)
        for run in runs:
            policy.start(view, run, parts)

    return act


def takes(gpus):
    return lambda policy, view, runs: view.hosts.take(gpus)


def grows(workers, gpus):
    return lambda policy, view, runs: view.grow(runs[0], runs[0].parts[0], workers, gpus)


def on_job(act):
    """Return a step about a job, which stays in the queue of the policy, and GPUs."""
    return lambda job, *gpus: lambda policy, view, runs: act(view, runs[job], *gpus)


STEPS = {
    "starts": starts,
    "starts_as_copies": starts_as_copies,
    "stops_and_starts_there": on_job(starts_there_after(lambda view, run: view.stop(run))),
    "lifts_and_starts_there": on_job(starts_there_after(lambda view, run: view.lift(run))),
    "all_start_on": all_start_on,
    "takes": takes,
    "grows": grows,
    "begins": on_job(lambda view, run, gpus: view.start(run, view.reserve(run, gpus))),
    "starts_on_nothing": on_job(lambda view, run: view.start(run, [])),
    "starts_on_what_fits": on_job(lambda view, run: view.start(run, view.fit(run))),
    "starts_untaken": on_job(lambda view, run, gpus: view.start(run, [Part(0, gpus, 1, 1)])),
    "reserves": on_job(lambda view, run, gpus: view.reserve(run, gpus)),
    "stops": on_job(lambda view, run: view.stop(run)),
    "lifts": on_job(lambda view, run: view.lift(run)),
    "puts": on_job(lambda view, run, gpus: view.put(run, view.reserve(run, gpus))),
    "puts_on_nothing": on_job(lambda view, run: view.put(run, [])),
    "grows_anew": lambda gpus: lambda policy, view, runs: view.grow(runs[0], Part(0, {}), 1, gpus),
    "shrinks": lambda gpus: (
        lambda policy, view, runs: view.shrink(runs[0], runs[0].parts[0], 1, gpus)
    ),
}


class FirstFits(QueuePolicy):
    """Starts whoever fits, by submission."""

    def decide(self, view):
        self.start_who_fits(view)

    def start_who_fits(self, view):
        for run in list(self.waiting.values()):
            parts = view.fit(run)
            if parts is not None:
                self.start(view, run, parts)


class Script(QueuePolicy):
    """Takes one step after another, each at its time.

    Parameters
    ----------
    steps
        Each as its time, its name in `STEPS` and what that takes.
    """

    def __init__(self, steps):
        super().__init__("script")
        self._steps = [(at_s, STEPS[name](*map(numbered, given))) for at_s, name, *given in steps]

    def decide(self, view):
        while self._steps and self._steps[0][0] <= view.now_s:
            self._steps.pop(0)[1](self, view, view.runs)
        if self._steps:
            self.wake_s = self._steps[0][0]
