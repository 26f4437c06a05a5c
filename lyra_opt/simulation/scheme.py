"""Schemes: what decides, for how long jobs keep their GPUs, and what a run needs.

`lyra_opt.registry` lists the built-in schemes; other packages register theirs in the entry-point
group ``lyra_opt.schemes``. A scheme, or a policy from which a scheme is made, can also be given as
``my_file.py:NAME``, as an object or as a class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from functools import partial
from inspect import getdoc, signature
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.core.plugins import Plugins, maker_of
from lyra_opt.core.rules import require_choice, require_number, require_text
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.policies.composed import SCALING_INTERVAL_S, ComposedPolicy
from lyra_opt.simulation.policies.composition import OF_GOODPUT, Composition
from lyra_opt.simulation.policy import Policy
from lyra_opt.simulation.queues import ORDERS
from lyra_opt.simulation.speed import MIXED_EFFICIENCY, Speed
from lyra_opt.simulation.tenure import TENURES, Epochs, Forever, Leases, Rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from lyra_opt.heterogeneous.heuristics.policy import RoundPolicy
    from lyra_opt.network.heuristics.policy import PlacementPolicy
    from lyra_opt.simulation.cluster import Cluster, LoanPlan
    from lyra_opt.simulation.decisions import ScalingRule
    from lyra_opt.simulation.tenure import Tenure
    from lyra_opt.simulation.view import Observer
    from lyra_opt.simulation.workload import Workload

ENTRY_POINT_GROUP = "lyra_opt.schemes"

FOREVER, LEASES, ROUNDS, EPOCHS = TENURES
"""Tenures by name."""

_NOT_PARAMETERS = frozenset({"name", "summary", "paper", "tenure"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a cluster behaves, whatever the scheme.

    Parameters
    ----------
    seed
        For schemes that draw.
    mixed_efficiency
        Throughput of a job on own and borrowed GPUs at once, as a share of the ideal.
    scaling_interval_s
        Least time between two resizings of elastic jobs; 0 resizes at every event.
    forever, leases, rounds, epochs
        What tenures cost, for schemes that have them.
    """

    seed: int = 0
    mixed_efficiency: float = MIXED_EFFICIENCY
    scaling_interval_s: float = SCALING_INTERVAL_S
    forever: Forever = field(default_factory=Forever)
    leases: Leases = field(default_factory=Leases)
    rounds: Rounds = field(default_factory=Rounds)
    epochs: Epochs = field(default_factory=Epochs)

    def __post_init__(self) -> None:
        if require_number("mixed_efficiency", self.mixed_efficiency, minimum=0, above=True) > 1:
            raise FieldError("mixed_efficiency", self.mixed_efficiency, "must be at most 1")
        require_number("scaling_interval_s", self.scaling_interval_s, minimum=0)

    def tenure(self, name: str) -> Tenure:
        """Return the tenure called ``forever``, ``leases``, ``rounds`` or ``epochs``."""
        tenures = (self.forever, self.leases, self.rounds, self.epochs)
        return dict(zip(TENURES, tenures, strict=True))[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme(ABC):
    """How a cluster is run.

    Parameters
    ----------
    name
        The name the command line knows it by.
    summary
        What it does, on one line.
    paper
        Whose rule it is, or who compares with it where nobody calls it his own.
    tenure
        For how long jobs keep their GPUs where nothing else is said: ``forever``, ``leases``,
        ``rounds`` or ``epochs``.
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
        """Return who decides in a run."""

    def obstacle(self, workload: Workload, cluster: Cluster, tenure: Tenure) -> str | None:  # noqa: ARG002
        """Return why it cannot run a workload on a cluster, in a clause; None if it can."""
        return None

    @property
    def reading(self) -> Reading | None:
        """What its schedules may do, by which bounds hold for them; None if none does.

        Where no GPUs are shared, those of schemes are `Reading.CONSERVED` at least but for those
        whose jobs run faster than the workload says.
        """
        return Reading.CONSERVED

    @property
    def has_copies(self) -> bool:
        """Whether it may run several copies of a job at once."""
        return False

    def require_parts(self) -> None:  # noqa: B027 - most have none
        """Raise `UserError` if it names a solver that is not there, or of another kind."""

    def with_parameters(self, parameters: Mapping[str, Any]) -> Self:
        """Return the scheme with some parameters other than it has them.

        Parameters
        ----------
        parameters
            Arguments of the rule that ``make`` makes; where there is none, fields of the scheme.

        Raises
        ------
        FieldError
            If it has no such parameter, or a value breaks its rule.
        """
        make = getattr(self, "make", None)
        known = [
            name
            for name in (
                signature(make).parameters
                if make is not None
                else (each.name for each in fields(self))
            )
            if name not in _NOT_PARAMETERS
        ]
        for name, value in parameters.items():
            if name not in known:
                raise FieldError(name, value, unknown_key(name, known))
        if make is None or not parameters:
            return replace(self, **parameters)
        changed = partial(make, **parameters)
        try:
            changed()
        except FieldError:
            raise
        except (TypeError, ValueError) as error:
            raise FieldError("", dict(parameters), f"is refused: {error}") from None
        return replace(self, make=changed)  # type: ignore[call-arg]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedScheme(Composition, Scheme):
    """A scheme put together from a queue, elastic scaling and reclaiming; see `Composition`."""

    def __post_init__(self) -> None:
        Scheme.__post_init__(self)
        Composition.__post_init__(self)

    @property
    def borrows(self) -> bool:
        """Whether it runs jobs on inference servers."""
        return self.reclaimer is not None

    def require_parts(self) -> None:
        """See `Scheme`."""
        from lyra_opt.simulation.decisions import ReclaimRule, scaling_rule

        if self.reclaimer is not None:
            ReclaimRule(self.reclaimer)
        if self.scaling is not None and self.scaling != OF_GOODPUT:
            scaling_rule(self.scaling)

    def policy(self, cluster: Cluster, options: Options) -> Policy:
        """See `Scheme`."""
        scaling = None if self.scaling is None else self._scaling_rule(cluster, options.seed)
        interval_s = options.scaling_interval_s
        return ComposedPolicy(self.name, self, scaling=scaling, scaling_interval_s=interval_s)

    def obstacle(self, workload: Workload, cluster: Cluster, tenure: Tenure) -> str | None:  # noqa: ARG002
        """See `Scheme`."""
        reason = _otherwise_fast(workload, cluster) if self.scaling == OF_GOODPUT else None
        return reason or _unplaceable(workload, cluster)

    @property
    def reading(self) -> Reading | None:
        """See `Scheme`: it stops and starts jobs, and moves none."""
        if self.scaling == OF_GOODPUT:
            return None
        return Reading.RESTART if self.tenure == FOREVER else Reading.CONSERVED

    def _scaling_rule(self, cluster: Cluster, seed: int) -> ScalingRule:
        """Return the rule by which elastic jobs grow."""
        from lyra_opt.simulation.decisions import scaling_rule

        assert self.scaling is not None, "it scales"
        if self.scaling == OF_GOODPUT:
            from lyra_opt.simulation.goodput.allocation import TunedKnapsackScaling
            from lyra_opt.simulation.goodput.tuning import TunedSpeed

            gpus_per_server = max(cluster.most_on_a_server.values())
            return TunedKnapsackScaling(TunedSpeed(seed=seed, gpus_per_server=gpus_per_server))
        return scaling_rule(self.scaling)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolluxScheme(Scheme):
    """Pollux: see `lyra_opt.simulation.policies.epoch_by_epoch`.

    Parameters
    ----------
    queue
        In which order jobs that are not elastic wait, one of `lyra_opt.simulation.queues.ORDERS`;
        None as published, without a queue.
    """

    tenure: str = EPOCHS
    queue: str | None = None

    def __post_init__(self) -> None:
        Scheme.__post_init__(self)
        if self.queue is not None:
            require_choice("queue", self.queue, list(ORDERS))

    def policy(self, cluster: Cluster, options: Options) -> Policy:
        """See `Scheme`."""
        from lyra_opt.simulation.goodput.tuning import GoodputSpeed
        from lyra_opt.simulation.policies.epoch_by_epoch import EpochByEpoch

        gpus_per_server = max(cluster.most_on_a_server.values())
        tuned = GoodputSpeed(seed=options.seed, gpus_per_server=gpus_per_server)
        return EpochByEpoch(self.name, tuned, self.queue)

    def obstacle(self, workload: Workload, cluster: Cluster, tenure: Tenure) -> str | None:
        """See `Scheme`."""
        if not isinstance(tenure, Epochs):
            return f"it decides as epochs begin, but the tenure is {tenure.name}"
        if (reason := _otherwise_fast(workload, cluster)) is not None:
            return reason
        if len(cluster.own_gpus) > 1:
            return "its goodput is that of GPUs of one type"
        return None

    @property
    def reading(self) -> Reading | None:
        """See `Scheme`."""
        return None


def _otherwise_fast(workload: Workload, cluster: Cluster) -> str | None:
    """Return why the speed of jobs cannot follow from their goodput; None if it can."""
    if cluster.communication is None and all(job.measured is None for job in workload.jobs):
        return None
    return (
        "the speed of its jobs follows from a goodput model of its own, so that it runs neither "
        "measured jobs nor gangs slowed by distance"
    )


def _unplaceable(workload: Workload, cluster: Cluster) -> str | None:
    """Return which job a rule cannot place that looks at numbers of GPUs alone."""
    speed = Speed(cluster)
    for job in workload.jobs:
        if job.measured is not None and not speed.pools_of(job, is_lent=False):
            return (
                f"it places gangs by numbers of GPUs, and job {job.id} would have to be spread to "
                "run at all"
            )
    return None


def _wide_workers(workload: Workload) -> str | None:
    wide = next((job for job in workload.jobs if job.gpus_per_worker > 1), None)
    if wide is None:
        return None
    return (
        f"it places single GPUs, but a worker of job {wide.id} has {wide.gpus_per_worker} that "
        "belong together"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundScheme(Scheme):
    """A rule that decides round by round where gangs run.

    Parameters
    ----------
    make
        Makes the rule for a run.
    needs_types
        Whether it says nothing of its own where all GPUs are alike.
    """

    make: Callable[[], RoundPolicy]
    tenure: str = ROUNDS
    needs_types: bool = False

    def policy(self, cluster: Cluster, options: Options) -> Policy:  # noqa: ARG002
        """See `Scheme`."""
        from lyra_opt.simulation.policies.round_by_round import RoundByRound

        return RoundByRound(self.make())

    @property
    def has_copies(self) -> bool:
        """See `Scheme`."""
        return self.make().forks

    @property
    def reading(self) -> Reading | None:
        """See `Scheme`."""
        return None if self.make().packs else Reading.CONSERVED

    def obstacle(self, workload: Workload, cluster: Cluster, tenure: Tenure) -> str | None:
        """See `Scheme`."""
        rule = self.make()
        if not isinstance(tenure, Rounds):
            return f"it decides as rounds begin, but the tenure is {tenure.name}"
        if rule.packs and not workload.packed:
            return (
                "it lets jobs share GPUs, and nothing is known of how fast two are at once; a "
                "table of throughputs may say so"
            )
        if self.needs_types and len(cluster.gpu_types) < 2:
            return "its prices are by type of GPU, and there is one type"
        if (reason := _wide_workers(workload)) is not None:
            return reason
        speed = Speed(cluster)
        for job in workload.jobs:
            gang = f"job {job.id} has a gang of {job.min_gpus}"
            if job.min_gpus > 1 and not rule.takes_gangs:
                return f"{gang}, and it runs jobs of one GPU alone"
            if rule.forks and not speed.runs_on_a_server(job):
                return f"{gang}, which no server can run, and it spreads none"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementScheme(Scheme):
    """A rule that says which waiting gangs start where.

    Parameters
    ----------
    make
        Makes the rule for a run.
    """

    make: Callable[[], PlacementPolicy]
    tenure: str = LEASES

    def policy(self, cluster: Cluster, options: Options) -> Policy:  # noqa: ARG002
        """See `Scheme`."""
        from lyra_opt.simulation.policies.placing_gangs import PlacingGangs

        return PlacingGangs(self.make)

    @property
    def reading(self) -> Reading | None:
        """See `Scheme`: gangs that move do so within a pool, and hold as many GPUs all the time."""
        return Reading.RESTART if self.tenure == FOREVER else Reading.CONSERVED

    def obstacle(self, workload: Workload, cluster: Cluster, tenure: Tenure) -> str | None:  # noqa: ARG002
        """See `Scheme`."""
        return _wide_workers(workload)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnScheme(Scheme):
    """A scheme with a policy class of its own.

    Parameters
    ----------
    make
        Makes the policy for a run.
    """

    make: Callable[[], Policy]

    def policy(self, cluster: Cluster, options: Options) -> Policy:  # noqa: ARG002
        """See `Scheme`."""
        return self.make()

    @property
    def reading(self) -> Reading | None:
        """See `Scheme`."""
        return Reading.CONSERVED if self.make().tuned is None else None

    @property
    def has_copies(self) -> bool:
        """See `Scheme`."""
        return self.make().forks

    def require_parts(self) -> None:
        """See `Scheme`."""
        from lyra_opt.simulation.decisions import ReclaimRule

        if (reclaimer := self.make().reclaimer) is not None:
            ReclaimRule(reclaimer)


if TYPE_CHECKING:
    AnyPolicy = Policy | RoundPolicy | PlacementPolicy
    SchemeLike = str | Scheme | AnyPolicy | Callable[[], Scheme | AnyPolicy]
    """What a scheme can be given as; see `scheme_of`."""


def _adapted(given: Any) -> Scheme | None:
    """Return the scheme of what is given, or of what it makes; None if it is neither."""
    from lyra_opt.heterogeneous.heuristics.policy import RoundPolicy
    from lyra_opt.network.heuristics.policy import PlacementPolicy

    make = maker_of(given)
    made = make()
    if isinstance(made, Scheme):
        return made
    kinds = {Policy: OwnScheme, RoundPolicy: RoundScheme, PlacementPolicy: PlacementScheme}
    for kind, scheme in kinds.items():
        if isinstance(made, kind):
            summary = (getdoc(type(made)) or "a policy of one's own").partition("\n")[0]
            found: Scheme = scheme(name=made.name, summary=summary, make=make)
            return found
    return None


SCHEMES = Plugins(ENTRY_POINT_GROUP, "scheme", Scheme, adapt=_adapted)
"""All schemes by name."""


def scheme_names() -> list[str]:
    """Return the names of all schemes, in order."""
    return SCHEMES.names()


def find_scheme(name: str) -> Scheme:
    """Return the scheme called `name`, or what ``my_file.py:NAME`` names; see `scheme_of`."""
    scheme: Scheme = SCHEMES.find(name)
    return scheme


def scheme_of(given: SchemeLike) -> Scheme:
    """Return the scheme that is given, however.

    Parameters
    ----------
    given
        A scheme's name or ``my_file.py:NAME``; a `Scheme`, or a policy, of which a scheme is made:
        `lyra_opt.simulation.policy.Policy`, `lyra_opt.heterogeneous.heuristics.policy.RoundPolicy`
        or `lyra_opt.network.heuristics.policy.PlacementPolicy`. Each may be an object, of which
        every run has a copy, a class, or a function that makes one.

    Raises
    ------
    UserError
        If there is none of the name, or it is neither a scheme nor a policy.
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
        What is submitted.
    cluster
        Where it runs.
    scheme
        How it is run; whatever `scheme_of` takes.
    plan
        Loans over time, where servers can be borrowed.
    options
        How the cluster behaves.
    tenure
        For how long jobs keep their GPUs; None for that of the scheme.
    ignores_distance
        Whether gangs run anywhere as fast as close together.
    observers
        Who looks on.

    Raises
    ------
    UserError
        If there is no such scheme, a solver that it names is not there, or it cannot run the
        workload on the cluster.
    """
    found = scheme_of(scheme)
    found.require_parts()
    options = options or Options()
    tenure = tenure or options.tenure(found.tenure)
    reason = found.obstacle(workload, cluster, tenure)
    if reason is not None:
        raise UserError(f"scheme {found.name} does not run on cluster {cluster.name}: {reason}")
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
    """Replay a workload to its end; parameters and errors as of `prepare`.

    Raises
    ------
    PolicyError
        If the scheme breaks a rule, or has no answer.
    """
    return prepare(workload, cluster, scheme, **settings).run()
