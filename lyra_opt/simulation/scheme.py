"""Schemes: complete schedulers that a simulation can run, each with a policy and a tenure.

`lyra_opt.registry` lists the built-in schemes. Other packages register theirs in the entry-point
group ``lyra_opt.schemes``. A scheme, or a policy that becomes a scheme, can also be given as
``my_file.py:NAME``, as an object or as a class.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from inspect import getdoc, signature
from typing import Any, Self

from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.core.own_files import is_reference
from lyra_opt.core.plugins import Plugins, maker_of
from lyra_opt.core.rules import require_choice, require_number, require_text
from lyra_opt.core.solver import Solver
from lyra_opt.heterogeneous.heuristics.policy import RoundPolicy
from lyra_opt.network.heuristics.policy import PlacementPolicy
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.cluster import Cluster, LoanPlan
from lyra_opt.simulation.decisions import ReclaimRule, ScalingRule, scaling_rule
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.policies.composed import SCALING_INTERVAL_S, ComposedPolicy
from lyra_opt.simulation.policies.composition import BORROW, IGNORE, OF_GOODPUT, Composition
from lyra_opt.simulation.policy import Policy
from lyra_opt.simulation.queue_orders import ORDERS, own_order
from lyra_opt.simulation.speed import MIXED_EFFICIENCY, Speed
from lyra_opt.simulation.tenure import TENURES, Epochs, Forever, Leases, Rounds, Tenure
from lyra_opt.simulation.view import Observer
from lyra_opt.simulation.workload import Workload

ENTRY_POINT_GROUP = "lyra_opt.schemes"

FOREVER, LEASES, ROUNDS, EPOCHS = TENURES
"""The names of the tenures."""

_NOT_PARAMETERS = frozenset({"name", "summary", "paper", "tenure"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of a simulated cluster that apply to every scheme.

    Parameters
    ----------
    seed
        Random seed for schemes that use random numbers.
    mixed_efficiency
        Throughput of a job that uses own and borrowed GPUs at once, relative to the ideal.
    scaling_interval_s
        Least time between two resizings of elastic jobs; 0 resizes at every event.
    forever, leases, rounds, epochs
        The four tenures with their lengths and costs; a scheme uses the tenure that it names.
    """

    seed: int = 0
    mixed_efficiency: float = MIXED_EFFICIENCY
    scaling_interval_s: float = SCALING_INTERVAL_S
    forever: Forever = field(default_factory=Forever)
    leases: Leases = field(default_factory=Leases)
    rounds: Rounds = field(default_factory=Rounds)
    epochs: Epochs = field(default_factory=Epochs)

    def __post_init__(self) -> None:
        require_number("mixed_efficiency", self.mixed_efficiency, minimum=0, above=True, maximum=1)
        require_number("scaling_interval_s", self.scaling_interval_s, minimum=0)

    def tenure(self, name: str) -> Tenure:
        """Return the tenure called ``forever``, ``leases``, ``rounds`` or ``epochs``."""
        tenures = (self.forever, self.leases, self.rounds, self.epochs)
        return dict(zip(TENURES, tenures, strict=True))[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme(ABC):
    """A complete scheduler: queue order, allocation, placement and tenure.

    Parameters
    ----------
    name
        The name of the scheme on the command line.
    summary
        One line about what the scheme does.
    paper
        The paper that proposes the scheme or, for a scheme that no paper proposes, compares with
        it.
    tenure
        How long jobs keep their GPUs by default: ``forever``, ``leases``, ``rounds`` or ``epochs``.
    """

    name: str
    summary: str
    paper: str = "other"
    tenure: str = FOREVER

    def __post_init__(self) -> None:
        require_text("name", self.name)
        require_choice("tenure", self.tenure, TENURES)

    @abstractmethod
    def policy(self, cluster: Cluster, options: Options) -> Policy:
        """Return the policy that decides in one simulation run."""

    def refusal(self, workload: Workload, cluster: Cluster, tenure: Tenure) -> str | None:
        """Return why the scheme cannot run a workload on a cluster, as a clause; None if it can."""
        if cluster.tenants is not None and not self.knows_tenants:
            return (
                "the cluster has quotas of tenants, which only schemes composed of a queue, "
                "scaling and reclaiming can keep, without serving or priced preemption"
            )
        sliced = next((job for job in workload.jobs if job.is_slice), None)
        if sliced is not None and (reason := self.slice_obstacle(cluster, tenure)) is not None:
            return f"job {sliced.id} asks for part of a GPU, but {reason}"
        return self.obstacle(workload, cluster, tenure)

    def slice_obstacle(self, cluster: Cluster, tenure: Tenure) -> str | None:  # noqa: ARG002
        """Return why the scheme cannot run jobs on parts of GPUs; None if it can."""
        return "only schemes composed of a queue and a placement can divide GPUs"

    @property
    def knows_tenants(self) -> bool:
        """Whether the scheme can run on a cluster with quotas of tenants."""
        return False

    def obstacle(self, workload: Workload, cluster: Cluster, tenure: Tenure) -> str | None:  # noqa: ARG002
        """Return why this kind of scheme cannot run a workload; see `refusal`."""
        return None

    @property
    def reading(self) -> Reading | None:
        """Return which `Reading` of preempted work bounds may assume; None if no bound is valid.

        Unless jobs share GPUs, `Reading.CONSERVED` applies to every scheme whose jobs run no faster
        than the workload says.
        """
        return Reading.CONSERVED

    @property
    def has_copies(self) -> bool:
        """Whether the scheme may run several copies of a job at once."""
        return False

    def require_parts(self) -> None:  # noqa: B027 - most schemes name no solver
        """Raise `UserError` if a solver that the scheme names is missing or of the wrong kind."""

    def with_parameters(self, parameters: Mapping[str, Any]) -> Self:
        """Return a copy of the scheme with some of its parameters changed.

        Parameters
        ----------
        parameters
            New arguments for the function ``make`` of the scheme; a scheme without ``make`` takes
            its own fields.

        Raises
        ------
        FieldError
            If the scheme has no such parameter, or a value breaks its rule.
        """
        make = getattr(self, "make", None)
        names = [each.name for each in fields(self)]
        takes_any = False
        if make is not None:
            arguments = signature(make).parameters.values()
            names = [
                each.name
                for each in arguments
                if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
            ]
            takes_any = any(each.kind is each.VAR_KEYWORD for each in arguments)
        known = [name for name in names if name not in _NOT_PARAMETERS]
        for name, value in parameters.items():
            if name not in known and not takes_any:
                raise FieldError(name, value, unknown_key(name, known))
        if make is None or not parameters:
            return replace(self, **parameters)
        changed = partial(make, **parameters)
        try:
            changed()
        except FieldError:
            raise
        except (TypeError, ValueError) as error:
            raise FieldError("", dict(parameters), f"the scheme rejects them: {error}") from None
        return replace(self, make=changed)  # type: ignore[call-arg]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedScheme(Composition, Scheme):
    """A scheme composed of a queue, elastic scaling and reclaiming; see `Composition`."""

    def __post_init__(self) -> None:
        Scheme.__post_init__(self)
        Composition.__post_init__(self)

    @property
    def borrows(self) -> bool:
        """Whether the scheme runs jobs on borrowed inference servers."""
        return self.reclaimer is not None

    def require_parts(self) -> None:
        """Raise `UserError` if a solver or the queue of the scheme cannot be used."""
        from lyra_opt.simulation.preempting import PreemptionRule, taking_back

        if isinstance(self.queue, str) and is_reference(self.queue):
            own_order(self.queue)
        if self.reclaimer is not None:
            ReclaimRule(self.reclaimer)
        if self.scaling is not None and self.scaling != OF_GOODPUT:
            scaling_rule(self.scaling)
        if self.preempter is not None:
            PreemptionRule(self.preempter)
        if self.takes_back is not None:
            taking_back(self.takes_back)

    def policy(self, cluster: Cluster, options: Options) -> Policy:
        """Return a `ComposedPolicy` with the queue, scaling and reclaimer of this scheme."""
        scaling = None if self.scaling is None else self._scaling_rule(cluster, options.seed)
        interval_s = options.scaling_interval_s
        return ComposedPolicy(self.name, self, scaling=scaling, scaling_interval_s=interval_s)

    def obstacle(self, workload: Workload, cluster: Cluster, tenure: Tenure) -> str | None:
        """Return why this scheme cannot run a workload with a tenure; None if it can."""
        has_quotas = cluster.tenants is not None and self.quotas != IGNORE
        takes_back = has_quotas and self.quotas == BORROW and self.takes_back is not None
        parts = self.preempter, self.serving, self.priced_preemption
        stops = takes_back or any(part is not None for part in parts)
        if stops and not tenure.frees_at_once:
            return (
                "it starts a gang at once on the GPUs of the jobs that give way, but with tenure "
                f"{tenure.name} these GPUs become free later"
            )
        if has_quotas and (reason := self._quota_obstacle(workload, cluster)) is not None:
            return reason
        reason = _goodput_obstacle(workload, cluster) if self.scaling == OF_GOODPUT else None
        return reason or _spread_obstacle(workload, cluster)

    @property
    def reading(self) -> Reading | None:
        """Return `Reading.RESTART` if GPUs are kept for ever, else `CONSERVED`; None if tuned.

        The scheme stops and restarts jobs but never moves a job.
        """
        if self.scaling == OF_GOODPUT:
            return None
        return Reading.RESTART if self.tenure == FOREVER else Reading.CONSERVED

    def slice_obstacle(self, cluster: Cluster, tenure: Tenure) -> str | None:
        """Return which part of the scheme or the cluster counts whole GPUs only; None if none."""
        if not isinstance(tenure, Forever):
            return f"with tenure {tenure.name} the scheme counts whole GPUs only"
        if cluster.tenants is not None and self.quotas != IGNORE:
            return "the quotas of tenants count whole GPUs only"
        names = [
            "scaling",
            "run_time_caps",
            "voluntary_preemption",
            "priced_preemption",
            "preempter",
            "backfill",
            "serving",
        ]
        if cluster.inference_servers:
            names.append("reclaimer")
        if found := [name for name in names if getattr(self, name) is not None]:
            return f"its {found[0]} counts whole GPUs only; use a scheme without it"
        return None

    @property
    def knows_tenants(self) -> bool:
        """Whether the scheme can keep quotas, which serving and priced preemption ignore."""
        return self.serving is None and self.priced_preemption is None

    def _quota_obstacle(self, workload: Workload, cluster: Cluster) -> str | None:
        """Return which job is larger than its tenant may ever hold; None if no job is."""
        assert cluster.tenants is not None, "only quotas limit tenants"
        limits = self.limits(cluster.tenants)
        for job in workload.jobs:
            place = cluster.tenants.tenant_of(job.tenant, job.id)
            if job.min_gpus > limits[place]:
                return (
                    f"job {job.id} has a gang of {job.min_gpus} GPUs, but its tenant {job.tenant} "
                    f"may hold at most {limits[place]:g}"
                )
        return None

    def _scaling_rule(self, cluster: Cluster, seed: int) -> ScalingRule:

        assert self.scaling is not None, "only schemes that scale have a scaling rule"
        if self.scaling == OF_GOODPUT:
            from lyra_opt.simulation.goodput.allocation import TunedKnapsackScaling
            from lyra_opt.simulation.goodput.tuning import TunedSpeed

            gpus_per_server = max(cluster.most_on_a_server.values())
            return TunedKnapsackScaling(TunedSpeed(seed=seed, gpus_per_server=gpus_per_server))
        return scaling_rule(self.scaling)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolluxScheme(Scheme):
    """Pollux: at the start of each epoch, all GPUs are reallocated for the highest fitness.

    Parameters
    ----------
    queue
        Order in which inelastic jobs wait, one of `queue_orders.ORDERS`; None, as
        published, has no queue.
    """

    tenure: str = EPOCHS
    queue: str | None = None

    def __post_init__(self) -> None:
        Scheme.__post_init__(self)
        if self.queue is not None:
            require_choice("queue", self.queue, list(ORDERS))

    def policy(self, cluster: Cluster, options: Options) -> Policy:
        """Return an `EpochByEpoch` policy with the goodput model of Pollux."""
        from lyra_opt.simulation.goodput.tuning import GoodputSpeed
        from lyra_opt.simulation.policies.epoch_by_epoch import EpochByEpoch

        gpus_per_server = max(cluster.most_on_a_server.values())
        tuned = GoodputSpeed(seed=options.seed, gpus_per_server=gpus_per_server)
        return EpochByEpoch(self.name, tuned, self.queue)

    def obstacle(self, workload: Workload, cluster: Cluster, tenure: Tenure) -> str | None:
        """Return why the tenure, job speeds or GPU types rule Pollux out; None if they do not."""
        if not isinstance(tenure, Epochs):
            return f"it decides at the start of each epoch, but the tenure is {tenure.name}"
        if (reason := _goodput_obstacle(workload, cluster)) is not None:
            return reason
        if len(cluster.own_gpus) > 1:
            return "its goodput model covers one GPU type, but the cluster has several"
        return None

    @property
    def reading(self) -> Reading | None:
        """Return None: Pollux tunes jobs, so they may run faster than any bound assumes."""
        return None


def _goodput_obstacle(workload: Workload, cluster: Cluster) -> str | None:
    """Return why a goodput model cannot set the speed of these jobs; None if it can."""
    if cluster.communication is None and all(job.measured is None for job in workload.jobs):
        return None
    return (
        "it computes job speeds with its own goodput model, which covers neither measured "
        "throughputs nor gangs that distance slows down"
    )


def _spread_obstacle(workload: Workload, cluster: Cluster) -> str | None:
    """Return which job runs only when spread over servers; None if no job needs that."""
    speed = Speed(cluster)
    for job in workload.jobs:
        if job.measured is not None and not speed.pools_of(job, is_lent=False):
            return (
                f"job {job.id} runs only when spread over several servers, but the scheme places "
                "gangs by the number of free GPUs and cannot ensure that"
            )
    return None


def _worker_size_obstacle(workload: Workload) -> str | None:
    wide = next((job for job in workload.jobs if job.gpus_per_worker > 1), None)
    if wide is None:
        return None
    return (
        f"it places GPUs one by one, but each worker of job {wide.id} needs {wide.gpus_per_worker} "
        "GPUs on one server"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundScheme(Scheme):
    """A scheme whose round-based policy decides at the start of each round where jobs run.

    Parameters
    ----------
    make
        Builds the policy for one run.
    needs_types
        Whether the policy needs at least two GPU types to differ from a simpler policy.
    """

    make: Callable[[], RoundPolicy]
    tenure: str = ROUNDS
    needs_types: bool = False

    def policy(self, cluster: Cluster, options: Options) -> Policy:  # noqa: ARG002
        """Return the round-based policy, wrapped for the simulator."""
        from lyra_opt.simulation.policies.round_by_round import RoundByRound

        return RoundByRound(self.make())

    @property
    def has_copies(self) -> bool:
        """Whether the round-based policy runs copies of jobs."""
        return self.make().forks

    @property
    def reading(self) -> Reading | None:
        """Return `Reading.CONSERVED`, as jobs keep all progress; None if the policy shares GPUs."""
        return None if self.make().packs else Reading.CONSERVED

    def obstacle(self, workload: Workload, cluster: Cluster, tenure: Tenure) -> str | None:
        """Return why tenure, workload or cluster rules out the policy; None if they allow it."""
        rule = self.make()
        if not isinstance(tenure, Rounds):
            return f"it decides at the start of each round, but the tenure is {tenure.name}"
        if rule.packs and not workload.packed:
            return (
                "it lets two jobs share GPUs, but the workload has no throughputs of such pairs; "
                "give a table of throughputs with pairs"
            )
        if self.needs_types and len(cluster.gpu_types) < 2:
            return "it compares the prices of GPU types, but the cluster has only one type"
        if (reason := _worker_size_obstacle(workload)) is not None:
            return reason
        speed = Speed(cluster)
        for job in workload.jobs:
            gang = f"job {job.id} has a gang of {job.min_gpus}"
            if job.min_gpus > 1 and not rule.takes_gangs:
                return f"{gang} GPUs, but it runs only jobs with one GPU"
            if rule.forks and not speed.runs_on_a_server(job):
                return f"{gang} GPUs, which no single server can run, and it never spreads a gang"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementScheme(Scheme):
    """A scheme whose placement policy decides which waiting gangs start, and on which machines.

    Parameters
    ----------
    make
        Builds the policy for one run.
    """

    make: Callable[[], PlacementPolicy]
    tenure: str = LEASES

    def policy(self, cluster: Cluster, options: Options) -> Policy:  # noqa: ARG002
        """Return the placement policy, wrapped for the simulator."""
        from lyra_opt.simulation.policies.placing_gangs import PlacingGangs

        return PlacingGangs(self.make)

    @property
    def reading(self) -> Reading | None:
        """Return `Reading.RESTART` if gangs keep GPUs for ever, else `Reading.CONSERVED`.

        The scheme moves gangs within a pool and never resizes them.
        """
        return Reading.RESTART if self.tenure == FOREVER else Reading.CONSERVED

    def obstacle(self, workload: Workload, cluster: Cluster, tenure: Tenure) -> str | None:  # noqa: ARG002
        """Return, as a clause, which job has workers with several GPUs; None if no job has."""
        return _worker_size_obstacle(workload)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnScheme(Scheme):
    """A scheme made from a user's own policy class.

    Parameters
    ----------
    make
        Builds the policy for one run.
    """

    make: Callable[[], Policy]

    def policy(self, cluster: Cluster, options: Options) -> Policy:  # noqa: ARG002
        """Return a new policy object of the user's class."""
        return self.make()

    @property
    def reading(self) -> Reading | None:
        """Return `Reading.CONSERVED`, as jobs may keep all progress; None for tuned jobs."""
        return Reading.CONSERVED if self.make().tuned is None else None

    @property
    def has_copies(self) -> bool:
        """Whether the user's policy runs copies of jobs."""
        return self.make().forks

    def require_parts(self) -> None:
        """Raise `UserError` if the policy names a reclaim solver that cannot be used."""
        if (reclaimer := self.make().reclaimer) is not None:
            ReclaimRule(reclaimer)


AnyPolicy = Policy | RoundPolicy | PlacementPolicy
SchemeLike = str | Scheme | AnyPolicy | Callable[[], Scheme | AnyPolicy]
"""The types that `scheme_of` accepts."""


def _scheme_from(given: Any) -> Scheme | None:
    """Return the scheme for a scheme, a policy or a factory of either; None for other objects."""
    make = maker_of(given)
    made = make()
    if isinstance(made, Scheme):
        return made
    kinds = {Policy: OwnScheme, RoundPolicy: RoundScheme, PlacementPolicy: PlacementScheme}
    for kind, scheme in kinds.items():
        if isinstance(made, kind):
            summary = (getdoc(type(made)) or "a user's own policy").partition("\n")[0]
            found: Scheme = scheme(name=made.name, summary=summary, make=make)
            return found
    if isinstance(made, Solver):
        rule = f"is a solver of {made.problem}, not a scheme"
        if made.problem == "reclaim":
            rule += '. Make it a part of one: {name="lyra", reclaimer="my_file.py:NAME"}'
        raise UserError(rule)
    return None


SCHEMES = Plugins(ENTRY_POINT_GROUP, "scheme", Scheme, adapt=_scheme_from)
"""The registered schemes by name."""


def scheme_names() -> list[str]:
    """Return the names of all schemes, in order."""
    return SCHEMES.names()


def find_scheme(name: str) -> Scheme:
    """Return the scheme called `name`, or the scheme that ``my_file.py:NAME`` refers to."""
    scheme: Scheme = SCHEMES.find(name)
    return scheme


def scheme_of(given: SchemeLike) -> Scheme:
    """Return a `Scheme` for a name, a scheme, a policy, a class or a function.

    Parameters
    ----------
    given
        The name of a scheme or ``my_file.py:NAME``; a `Scheme`; or a policy that becomes a scheme:
        `lyra_opt.simulation.policy.Policy`, `lyra_opt.heterogeneous.heuristics.policy.RoundPolicy`
        or `lyra_opt.network.heuristics.policy.PlacementPolicy`. Each may be an object, which is
        copied for every run, a class, or a function that makes the object.

    Raises
    ------
    UserError
        If no scheme has this name, or the object is neither a scheme nor a policy.
    """
    scheme: Scheme = SCHEMES.of(given)
    return scheme


def prepare(
    workload: Workload,
    cluster: Cluster,
    scheme: SchemeLike,
    *,
    plan: LoanPlan | None = None,
    options: Options | None = None,
    tenure: Tenure | None = None,
    ignores_distance: bool = False,
    observers: Sequence[Observer] = (),
) -> Kernel:
    """Return a simulation that is ready to run.

    Parameters
    ----------
    workload
        The jobs to replay.
    cluster
        The cluster on which the jobs run.
    scheme
        The scheduler; anything that `scheme_of` accepts.
    plan
        The number of servers on loan over time, for clusters with inference servers.
    options
        Costs and settings of the cluster; None for the defaults.
    tenure
        How long jobs keep their GPUs; None uses the tenure of the scheme.
    ignores_distance
        Whether gangs run at full speed however far apart their GPUs are.
    observers
        Objects that are told of every event.

    Raises
    ------
    UserError
        If there is no such scheme, a solver that it names is missing, or the scheme cannot run the
        workload on the cluster.
    """
    found = scheme_of(scheme)
    found.require_parts()
    options = options or Options()
    tenure = tenure or options.tenure(found.tenure)
    reason = found.refusal(workload, cluster, tenure)
    if reason is not None:
        raise UserError(f"scheme {found.name} cannot run on cluster {cluster.name}: {reason}")
    policy = found.policy(cluster, options)
    return Kernel(
        workload,
        cluster,
        policy,
        speed=Speed(
            cluster,
            mixed_efficiency=options.mixed_efficiency,
            tuned=policy.tuned,
            ignores_distance=ignores_distance,
            packed=workload.packed,
        ),
        tenure=tenure,
        plan=plan,
        observers=observers,
        seed=options.seed,
    )


def simulate(workload: Workload, cluster: Cluster, scheme: SchemeLike, **settings: Any) -> Kernel:
    """Replay a workload to its end and return the simulation; takes the parameters of `prepare`.

    Raises
    ------
    UserError
        See `prepare`.
    PolicyError
        If the policy breaks a rule, or a solver has no answer.
    """
    return prepare(workload, cluster, scheme, **settings).run()
