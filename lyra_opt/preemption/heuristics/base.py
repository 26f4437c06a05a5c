"""The base class of the preemption heuristics, and the state that their rules change."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator

import numpy as np

from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import HeuristicSolver, Unsupported
from lyra_opt.core.stopwatch import within_time
from lyra_opt.preemption.costs import Effect
from lyra_opt.preemption.index import Flags, Integers, PreemptionIndex
from lyra_opt.preemption.instance import Instance, Moves, Solution, matches
from lyra_opt.preemption.objective import excess_of

NOTHING_FOUND = (
    "the rule finds no victims that make room; this does not prove that no such victims exist"
)


def has_required_level(instance: Instance) -> bool:
    """Return whether all pending pods must be in one domain of a level."""
    demand = instance.demand
    return demand is not None and demand.level is not None and demand.is_level_required


class State:
    """The pods that stay, are lost or move, and the room that they leave for pending pods.

    All changes go through its methods, which keep the arrays up to date. A change of one pod group
    takes time O(resources + shapes); a change of many groups is vectorised.

    Attributes
    ----------
    stay, lost
        Number of pods of each pod group that stay on their node, and that are lost, (K,).
    kept
        Number of pods of each gang that are not lost, (G,).
    moved
        Number of pods that move, by pod group and target node.
    placed
        Number of pending pods of each shape on each node, (S, N).
    wanted
        Number of pending pods of each shape that must be placed, (S,).
    emptied
        Nodes chosen to be emptied, besides those that must be.
    free
        Amount of each resource that no pod holds, (N, R).
    is_open
        Whether pods may come to the node, (N,).
    room
        Number of further pods of each shape that fit on each node, (S, N), each shape on its own.
    area
        Number of the area of each node, (N,). All pending pods must be in one area: a domain of
        the level if the demand requires one, else the whole cluster.
    room_in
        Sum of `room` over each area, (S, areas).
    """

    def __init__(self, instance: Instance, wanted: Integers | None = None) -> None:
        self.instance = instance
        self.index: PreemptionIndex = instance.index
        index = self.index
        is_split = has_required_level(instance)
        self.area = np.maximum(index.domain, 0) if is_split else np.zeros_like(index.domain)
        self.areas = index.domains if is_split else 1
        self.stay = index.group_count.copy()
        self.lost = np.zeros_like(self.stay)
        self.kept = index.size.copy()
        self.moved: dict[tuple[int, int], int] = {}
        self.placed = np.zeros(index.shape_allowed.shape, dtype=np.int64)
        self.wanted = (index.shape_count if wanted is None else wanted).copy()
        self.emptied: list[int] = []
        self.free = index.free.copy()
        self.is_open = index.may_use.copy()
        self.room = np.zeros_like(self.placed)
        self.room_in = np.zeros((len(self.wanted), self.areas), dtype=np.int64)
        self._by_node = np.argsort(index.group_node, kind="stable")
        self._first_on = np.searchsorted(
            index.group_node[self._by_node], np.arange(len(index.free) + 1)
        )
        self._refresh()

    def copy(self) -> "State":
        """Return an independent copy; time O(S * N + K + N * R)."""
        other = object.__new__(State)
        for name, value in vars(self).items():
            is_own = isinstance(value, np.ndarray | dict | list)
            setattr(other, name, value.copy() if is_own else value)
        return other

    def become(self, other: "State") -> None:
        """Take over the state of a copy, which must not be changed afterwards."""
        vars(self).update(vars(other))

    @property
    def moves(self) -> list[tuple[int, int, int]]:
        """The moves as triples of pod group, target node and number of pods."""
        return [(group, node, count) for (group, node), count in self.moved.items()]

    def groups_on(self, node: int) -> Integers:
        """Return all pod groups on a node in file order, including those that are lost."""
        return self._by_node[self._first_on[node] : self._first_on[node + 1]]

    def groups_of(self, gang: int) -> range:
        """Return the pod groups of a gang."""
        return range(int(self.index.first_group[gang]), int(self.index.first_group[gang + 1]))

    def evict(self, group: int, count: int | None = None) -> None:
        """Lose `count` staying pods of a group; by default all of them."""
        self._shift(group, int(self.stay[group]) if count is None else count)

    def put_back(self, group: int, count: int | None = None) -> None:
        """Let `count` lost pods of a group stay, without checking that they fit; by default all."""
        self._shift(group, -int(self.lost[group]) if count is None else -count)

    def evict_groups(self, groups: Integers, counts: Integers | None = None) -> None:
        """Lose pods of the given groups, by default all that stay. Time O(groups + S * N * R)."""
        index = self.index
        counts = self.stay[groups] if counts is None else counts
        np.add.at(
            self.free, index.group_node[groups], counts[:, None] * index.group_request[groups]
        )
        np.subtract.at(self.kept, index.group_gang[groups], counts)
        self.stay[groups] -= counts
        self.lost[groups] += counts
        self._refresh()

    def evict_gang(self, gang: int) -> None:
        """Lose all pods of a gang, including those that move."""
        for group in self.groups_of(gang):
            self.evict(group)
        for group, node in [each for each in self.moved if each[0] in self.groups_of(gang)]:
            self.move(group, node, -self.moved[group, node])

    def put_back_gang(self, gang: int) -> None:
        """Let all lost pods of a gang stay on their nodes again."""
        for group in self.groups_of(gang):
            self.put_back(group)

    def put_back_gangs(self, gangs: Iterable[int]) -> None:
        """Let the gangs stay one after the other, each if the missing pods still fit."""
        for gang in within_time(gangs, every=100):
            self.put_back_gang(gang)
            if not self.fits():
                self.evict_gang(gang)

    def has_space(self, group: int) -> bool:
        """Return whether another pod of a group fits on its node."""
        free = self.free[self.index.group_node[group]]
        return bool((free >= self.index.group_request[group]).all())

    def move(self, group: int, node: int, count: int = 1) -> None:
        """Move lost pods of a group to a node where they fit; a negative count takes them back."""
        self.lost[group] -= count
        self.kept[self.index.group_gang[group]] += count
        self.moved[group, node] = self.moved.get((group, node), 0) + count
        if not self.moved[group, node]:
            del self.moved[group, node]
        self._hold(node, count * self.index.group_request[group])

    def may_hold(self, group: int) -> Flags:
        """Return whether each node is open and has the labels that pods of a group need, (N,)."""
        gang = int(self.index.group_gang[group])
        pods = self.instance.gangs[gang].pods[group - int(self.index.first_group[gang])]
        if not pods.selector:
            return self.is_open
        return self.is_open & [matches(node, pods.selector) for node in self.instance.nodes]

    def may_move_to(self, group: int) -> Flags:
        """Return whether the instance allows pods of a group to move to each node, (N,)."""
        is_movable = self.index.may_move[self.index.group_gang[group]]
        allowed: Flags = self.may_hold(group) & is_movable
        allowed[self.index.group_node[group]] = False
        return allowed

    def clear(self, node: int) -> None:
        """Lose all pods that stay on a node."""
        for group in self.groups_on(node):
            self.evict(int(group))

    def choose_empty(self, node: int) -> None:
        """Choose a node to be emptied: lose all pods that stay on it, and close it."""
        self.emptied.append(node)
        self.is_open[node] = False
        self.clear(node)
        self._refresh(node)

    def place(self, shape: int, node: int, count: int = 1) -> None:
        """Place `count` pending pods of a shape on a node; a negative count removes them."""
        self.placed[shape, node] += count
        self._hold(node, count * self.index.shape_request[shape])

    def missing(self) -> Integers:
        """Return the number of wanted pods of each shape that are not placed yet, (S,)."""
        return np.asarray(np.maximum(self.wanted - self.placed.sum(axis=1), 0))

    def possible_areas(self) -> Iterator[int]:
        """Yield the areas with room for the missing pods of each shape, considered alone.

        Yields
        ------
        int
            Number of the area.
        """
        missing = self.missing()
        used = np.unique(self.area[self.placed.any(axis=0)])
        for area in np.flatnonzero((self.room_in >= missing[:, None]).all(axis=0)):
            if len(used) == 0 or area in used:
                yield int(area)

    def fits(self) -> bool:
        """Return whether the missing pods fit in addition to the pods that are already placed.

        For one shape the answer is exact and takes time O(areas). Several shapes are placed by
        first fit, which may fail although the pods fit.
        """
        if len(self.wanted) > 1:
            return self.placement() is not None
        return next(self.possible_areas(), None) is not None

    def placement(self) -> Integers | None:
        """Return the number of missing pods of each shape by node, (S, N); None if first fit fails.

        The first area in which all pods fit is used. Shapes come in decreasing order of the largest
        share that one pod takes of any resource of the cluster, then in file order. Nodes come in
        file order. If the demand prefers a level without requiring it, domains with the most room
        for the first shape come first. Time O(areas tried * S * nodes * resources).
        """
        for area in self.possible_areas():
            found = self._first_fit(np.flatnonzero(self.area == area), self.missing())
            if found is not None:
                return found
        return None

    def _first_fit(self, nodes: Integers, missing: Integers) -> Integers | None:
        found = np.zeros_like(self.placed)
        shares = self.index.shape_request / np.maximum(self.index.capacity.sum(axis=0), 1)
        order = np.argsort(-shares.max(axis=1, initial=0.0), kind="stable").tolist()
        if self.areas == 1 and self.index.domains > 1 and order:
            sums = np.bincount(
                np.maximum(self.index.domain, 0),
                weights=self.room[order[0]],
                minlength=self.index.domains,
            )
            domain = self.index.domain[nodes]
            nodes = nodes[np.lexsort((nodes, domain, -sums[domain]))]
        for shape in order:
            free = self.free[nodes] - np.einsum(
                "sn,sr->nr", found[:, nodes], self.index.shape_request
            )
            room = np.minimum(
                pods_in(free, self.index.shape_request[shape]), self.room[shape, nodes]
            )
            found[shape, nodes] = first_fit(missing[shape], room)
            if found[shape].sum() < missing[shape]:
                return None
        return found

    def _shift(self, group: int, count: int) -> None:
        """Lose `count` staying pods of a group; with a negative count, let lost pods stay again."""
        if not count:
            return
        self.stay[group] -= count
        self.lost[group] += count
        self.kept[self.index.group_gang[group]] -= count
        self._hold(int(self.index.group_node[group]), -count * self.index.group_request[group])

    def _hold(self, node: int, amounts: Integers) -> None:
        self.free[node] -= amounts
        self._refresh(node)

    def _refresh(self, nodes: int | slice = slice(None)) -> None:
        """Recompute the room on a node, or on all nodes."""
        index = self.index
        is_open = self.is_open[nodes] & index.shape_allowed[:, nodes]
        for shape in range(len(self.wanted)):
            further = index.shape_per_node[shape] - self.placed[shape, nodes]
            fitting = pods_in(self.free[nodes], index.shape_request[shape])
            room = is_open[shape] * np.minimum(fitting, further)
            np.add.at(self.room_in[shape], self.area[nodes], room - self.room[shape, nodes])
            self.room[shape, nodes] = room


_MANY = 2**40


def pods_in(free: Integers, request: Integers) -> Integers:
    """Return how many pods with a request fit into each row of free amounts."""
    room = np.full(free.shape[:-1], _MANY)
    for resource in request.nonzero()[0]:
        room = np.minimum(room, free[..., resource] // request[resource])
    return room


def first_fit(count: int, room: Integers) -> Integers:
    """Return how many of `count` pods each node gets if the first nodes are filled first."""
    return np.asarray(np.clip(count - (np.cumsum(room) - room), 0, room))


class PreemptionHeuristic(HeuristicSolver):
    """A base class for rules that choose the lost pods; it completes their choice to a solution.

    A rule evicts pods of a `State`, and may move lost pods, place pending pods and choose nodes to
    be emptied. The base class then completes the solution:

    1. A gang that keeps fewer pods than its minimum is lost whole.
    2. If the rule chose too few nodes to be emptied, nodes that are empty anyway are added in file
       order.
    3. Missing pending pods are placed by `State.placement`, exactly for one shape.
    4. If the demand accepts fewer pods than its count, further pods are placed by first fit.

    The rule is applied to the full number of pending pods, then to their minimum if it differs. If
    no victims are needed, it is not applied at all. Without a valid solution the status is unknown,
    because the failure of a rule proves nothing. Hard budgets are checked only at the end.
    """

    problem = "preemption"
    variants = tuple(Moves)
    takes_several_shapes = False
    """Whether the rule handles several shapes of pending pods."""
    takes_required_level = False
    """Whether the rule handles a demand with a required level."""
    takes_empty_nodes = False
    """Whether the rule handles nodes to be emptied."""

    def targets(self, index: PreemptionIndex) -> Iterator[Integers]:
        """Yield the numbers of pending pods for which the rule is tried, in order.

        Yields
        ------
        ndarray
            Number of pods of each shape, (S,).
        """
        yield index.shape_count
        if (index.shape_min < index.shape_count).any():
            yield index.shape_min

    @abstractmethod
    def choose(self, state: State, rng: np.random.Generator) -> bool:
        """Change `state` so that the wanted pods fit and nodes are empty; return whether it can.

        Pods on nodes that must be empty are already lost when the rule begins.
        """

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return which feature of the instance the rule cannot handle; None if it can."""
        has_nodes = instance.empty_nodes > 0 or bool(instance.index.must_be_empty.any())
        several = len(instance.index.shape_count) > 1
        for feature, is_used, is_handled in (
            ("several shapes of pending pods", several, self.takes_several_shapes),
            ("a required level", has_required_level(instance), self.takes_required_level),
            ("nodes to be emptied", has_nodes, self.takes_empty_nodes),
        ):
            if is_used and not is_handled:
                return Unsupported(f"{self.name} does not handle {feature}")
        return super().supports(instance)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Solution]:
        """Return the solution from the rule's choice, or the reason why the rule fails."""
        index = instance.index
        message = ""
        for wanted in self.targets(index):
            state = State(instance, wanted)
            for node in np.flatnonzero(index.must_be_empty):
                state.clear(int(node))
            is_done = not instance.empty_nodes and not state.lost.any() and state.fits()
            if is_done or self.choose(state, rng):
                why_not = complete(state)
                if why_not is None:
                    return result_of(state)
                message = message or why_not
        return SolveResult(status=Status.UNKNOWN, message=message or NOTHING_FOUND)


def complete(state: State) -> str | None:
    """Complete a rule's choice to a valid solution; return why this fails, or None if it works."""
    instance, index = state.instance, state.index
    for gang in np.flatnonzero((state.kept < index.min_pods) & (state.kept > 0)):
        state.evict_gang(int(gang))
    for gang in np.flatnonzero((state.kept < index.size) & ~index.may_lose):
        return (
            f"pods of gang {instance.gangs[gang].id!r} must leave, but the gang may not lose pods"
        )
    holds = np.bincount(index.group_node, state.stay, len(state.free))
    holds[[node for _, node in state.moved]] += 1
    is_idle = index.can_be_chosen_empty & (holds == 0) & ~state.placed.any(axis=0)
    is_idle[state.emptied] = False
    for node in np.flatnonzero(is_idle)[: max(0, instance.empty_nodes - len(state.emptied))]:
        state.choose_empty(int(node))
    if len(state.emptied) != instance.empty_nodes:
        return f"the rule empties {len(state.emptied)} nodes, not {instance.empty_nodes}"
    placement = state.placement()
    if placement is None:
        return "the rule's victims do not make room for the pending pods"
    for shape, node in np.argwhere(placement):
        state.place(int(shape), int(node), int(placement[shape, node]))
    _place_more(state)
    effect = Effect.of(instance, state.lost, state.moves)
    for budget in instance.budgets:
        if budget.is_hard and excess_of(instance, budget, effect) > 0:
            return f"the rule's victims break the hard budget {budget.id!r}"
    return None


def _place_more(state: State) -> None:
    """Place pending pods beyond the wanted number, by first fit in the area of the placed pods."""
    used = np.unique(state.area[state.placed.any(axis=0)])
    area = int(used[0]) if len(used) else int(np.argmax(state.room_in.sum(axis=0)))
    left = state.index.shape_count - state.placed.sum(axis=1)
    for shape in np.flatnonzero(left):
        found = first_fit(left[shape], np.where(state.area == area, state.room[shape], 0))
        for node in np.flatnonzero(found):
            state.place(int(shape), int(node), int(found[node]))


def result_of(state: State) -> SolveResult[Solution]:
    """Return the solution of a completed state, with its objective."""
    solution = Solution.of_counts(
        state.instance,
        lost=state.lost,
        placed=state.placed,
        moved=state.moves,
        emptied=state.emptied,
    )
    terms = state.instance.terms
    values = terms.values(state.instance, state.lost, state.placed, state.moves)
    return SolveResult(status=Status.FEASIBLE, solution=solution, objective=terms.encode(values))
