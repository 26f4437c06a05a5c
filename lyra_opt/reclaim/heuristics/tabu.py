"""Tabu search for reclaiming: swap servers from several greedy choices, with short bans."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lyra_opt.core.kernels import LARGEST_COMPILED_INTEGER, kernel
from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy
from lyra_opt.core.stopwatch import is_out_of_time
from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic
from lyra_opt.reclaim.heuristics.greedy import LyraGreedy, LyraGreedyElastic, Marginal, Peeling
from lyra_opt.reclaim.instance import Instance, Semantics, Solution
from lyra_opt.reclaim.reduction import ReducedReclaim, SearchResult, reduce_instance


class SwapProblem(NamedTuple):
    """The constant data of a tabu search that swaps servers.

    Parameters
    ----------
    weight, losses
        Weights and losses of the reduced instance.
    largest_loss
        Shape (jobs,): the most workers that the job loses to one server.
    chosen_count
        N_R, the number of chosen servers.
    longest_chosen_ban, longest_free_ban
        Longest bans, in moves. They are below the numbers of chosen and of free servers, so that a
        swap always exists.
    """

    weight: Any
    losses: Any
    largest_loss: Any
    chosen_count: int
    longest_chosen_ban: int
    longest_free_ban: int


class Walk(NamedTuple):
    """The state of a swap search: the current choice, the effect of each move, the best choice.

    Parameters
    ----------
    order
        Shape (servers,): the chosen servers, then the free servers.
    is_chosen, best_is_chosen
        Shape (servers,): whether the server is in the current choice, and in the best choice.
    excess
        Shape (jobs,): workers that the job has lost beyond its slack. The job is preempted while
        the excess is positive.
    change
        Shape (servers,): change of the objective if the server is removed (chosen) or added (free).
    ban_end
        Shape (servers,): the first move in which the server may be moved.
    """

    order: Any
    is_chosen: Any
    best_is_chosen: Any
    excess: Any
    change: Any
    ban_end: Any


@kernel
def best_place(first: int, end: int, draw: int, move: int, less_than: Any, walk: Any) -> int:
    """Return the index in ``walk.order`` of the best server to move, from `first` up to `end`.

    Ties are broken cyclically from a random index on. A ban is ignored if the change is less than
    `less_than`.
    """
    change = walk.change
    place = first + draw % (end - first)
    best = -1
    least = 0
    for _ in range(end - first):
        s = walk.order[place]
        if (best < 0 or change[s] < least) and (walk.ban_end[s] <= move or change[s] < less_than):
            best = place
            least = change[s]
        place += 1
        if place == end:
            place = first
    return best


@kernel
def move_server(moved: int, is_addition: int, problem: Any, walk: Any) -> None:
    """Add or remove a server, and update the objective changes of servers that share its jobs.

    Time O(sum of spans of its jobs). A job that stays preempted, or stays safe, whichever server
    moves costs only O(1).
    """
    losses = problem.losses
    change = walk.change
    change[moved] = -change[moved]
    walk.is_chosen[moved] = is_addition
    for job_entry in range(losses.server_start[moved], losses.server_start[moved + 1]):
        j = losses.server_jobs[job_entry]
        before = walk.excess[j]
        after = before - losses.server_counts[job_entry]
        if is_addition:
            after = before + losses.server_counts[job_entry]
        walk.excess[j] = after
        largest = problem.largest_loss[j]
        if min(before, after) > largest or max(before, after) <= -largest:
            continue
        for entry in range(losses.job_start[j], losses.job_start[j + 1]):
            s = losses.job_servers[entry]
            if s == moved:
                continue
            lost = -losses.job_counts[entry] if walk.is_chosen[s] else losses.job_counts[entry]
            # Moving server s preempts the job (effect 1), rescues it (-1) or does neither (0).
            effect_before = (before + lost > 0) - (before > 0)
            effect_after = (after + lost > 0) - (after > 0)
            if effect_before != effect_after:
                change[s] += problem.weight[j] * (effect_after - effect_before)


@kernel
def swap_servers(
    moves: int,
    first_move: int,
    target: int,
    objective: int,
    best_objective: int,
    draws: Any,
    problem: Any,
    walk: Any,
) -> Any:
    """Make `moves` swaps, or stop earlier at a choice with an objective of at most `target`.

    A swap removes the chosen server whose removal lowers the objective most. It then adds the free
    server, other than the removed one, whose addition raises the objective least. Each half of a
    swap updates the changes of all other servers, so the change of the pair is exact, even for jobs
    on both servers.

    For some moves, an added server may not be removed and a removed server may not be added, unless
    that gives the best objective so far.

    Parameters
    ----------
    moves, first_move
        Number of swaps to make, and number of swaps made before.
    objective, best_objective
        Objective of the current choice and of the best choice.
    draws
        Shape (3 * moves,): integers of at least 0, three for each move. They give the indices at
        which the search for a removal and for an addition starts, and the length of the bans.

    Returns
    -------
    tuple
        ``(moves made in total, objective, best_objective, walk)``, with which the search can be
        continued.

    Notes
    -----
    A move takes O(servers) time and the time of two calls of `move_server`.
    """
    servers = len(walk.order)
    chosen_count = problem.chosen_count
    order = walk.order
    move = first_move
    draw = 0
    while move < first_move + moves and best_objective > target:
        removed_place = best_place(0, chosen_count, draws[draw], move, -objective - 1, walk)
        removed = order[removed_place]
        objective += walk.change[removed]
        move_server(removed, 0, problem, walk)
        added_place = best_place(
            chosen_count, servers, draws[draw + 1], move, best_objective - objective, walk
        )
        added = order[added_place]
        objective += walk.change[added]
        move_server(added, 1, problem, walk)
        order[removed_place] = added
        order[added_place] = removed
        ban = draws[draw + 2]
        walk.ban_end[added] = move + 1 + ban % (problem.longest_chosen_ban + 1)
        walk.ban_end[removed] = move + 1 + ban % (problem.longest_free_ban + 1)
        draw += 3
        move += 1
        if objective < best_objective:
            best_objective = objective
            for s in range(servers):
                walk.best_is_chosen[s] = walk.is_chosen[s]
    return move, objective, best_objective, walk


MOVES_PER_START = 3_000
LONGEST_BAN = 3
"""Longest ban, in moves. Of 1, 3, 5, 10 and 20 it gave the least mean excess over the optimum."""
MOVES_BETWEEN_CLOCK_READINGS = 250
STEPS_OF_A_GREEDY = 8
"""Servers that a move examines in about the time of one step of a greedy's inner loop."""
_LARGEST_DRAW = 2**31
_DRAWS_PER_MOVE = 3


class Tabu(ReclaimHeuristic):
    """Repeatedly swap one chosen for one free server, except servers that moved just before.

    A move removes the chosen server whose removal lowers the objective most, then adds the free
    server whose addition raises it least, even if the result is worse than before. A moved server
    may not move back for a random number of up to 3 moves, unless that gives the best objective so
    far. Ties are broken from a random index on, so that the search drifts over plateaus. The best
    choice found is returned.

    The search starts from the choices of peeling, of `Marginal` and of Lyra's rule
    (interchangeable: of ``lyra-greedy-elastic``), and from the warm start if there is one. Each
    start gets the same number of moves. The search ends early at objective 0. It is never worse
    than any start that it reached. Without a time limit these are all starts; with one, at least
    the warm start or else peeling's choice.

    Parameters
    ----------
    moves_per_start
        Swaps from each start, at least 0.

    Notes
    -----
    Source: the swap search of this project's study of minimum k-union; tabu search after Glover
    (1989). It works on the instance that `reduce_instance` returns. Complexity of a move: O(servers
    + sum of spans of the jobs on the two servers). Guarantee: none.

    The time limit is checked every 250 moves; the greedy starts are not interrupted. Without a time
    limit the seed determines the answer, and interpreted and compiled runs agree. If the sum of the
    weights exceeds 64 bits, the search runs interpreted, about fifty times slower.
    """

    name = "tabu"

    def __init__(self, moves_per_start: int = MOVES_PER_START) -> None:
        if moves_per_start < 0:
            raise ValueError(f"moves_per_start must be at least 0, not {moves_per_start}")
        self.moves_per_start = moves_per_start

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:
        """Return the best choice of the search without a time limit, in file order."""
        solution = self.solve(instance, limits=Limits(), rng=rng).solution
        assert solution is not None
        return solution.positions(instance)

    def solve(
        self,
        instance: Instance,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,
        warm_start: Solution | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[Solution]:
        """Run the tabu search from each starting choice in turn, within the time limit."""
        reduced = reduce_instance(instance)
        found = search_by_swaps(
            reduced,
            _starts(instance, reduced, rng, warm_start),
            moves_per_start=self.moves_per_start,
            rng=rng,
            observer=observer,
        )
        return SolveResult(
            status=Status.FEASIBLE,
            stopped_by=found.stopped_by,
            solution=reduced.solution(instance, found.places),
            objective=found.objective,
            counters={"moves": found.moves},
        )


def _starts(
    instance: Instance,
    reduced: ReducedReclaim,
    rng: np.random.Generator,
    warm_start: Solution | None,
) -> Iterable[list[int]]:
    """Yield the starting choices of the tabu search, as server indices in the reduced instance."""
    place = {int(server): place for place, server in enumerate(reduced.servers)}
    if warm_start is not None:
        yield [place[server] for server in warm_start.positions(instance)]
    rigid = instance.semantics is Semantics.RIGID
    for rule in (Peeling(), LyraGreedy() if rigid else LyraGreedyElastic(), Marginal()):
        yield [place[server] for server in rule.choose(instance, rng)]


def search_by_swaps(
    reduced: ReducedReclaim,
    starts: Iterable[Sequence[int]],
    *,
    moves_per_start: int,
    rng: np.random.Generator,
    bound: int = 0,
    observer: Callable[[str, int | float], None] | None = None,
) -> SearchResult:
    """Run the tabu search from each start; return the best choice found.

    The current time limit ends the search between starts and between slices of moves.

    Parameters
    ----------
    starts
        Choices of ``reclaim_servers`` distinct places, at least one. Each start is drawn only after
        the search from the previous start. Equal starts are searched from once.
    moves_per_start
        Swaps from each start.
    rng
        Draws where ties are broken, and how long servers are banned from moving.
    bound
        A proved lower bound: the search ends at a choice with this objective or less.
    observer
        Called with ("objective", value) at each improvement.
    """
    best_places: list[int] = []
    best_objective: int | None = None
    moves = 0
    stopped_by = None
    searched = set()
    for start in starts:
        if best_objective is not None and is_out_of_time():
            stopped_by = StoppedBy.TIME
            break
        places = tuple(sorted(start))
        if places in searched:
            continue
        searched.add(places)
        walk = _SwapSearch(reduced, places, moves_per_start)
        while True:
            if best_objective is None or walk.best_objective < best_objective:
                best_objective, best_places = walk.best_objective, walk.best_places()
                if observer is not None:
                    observer("objective", best_objective)
            if best_objective <= bound or walk.is_over:
                break
            if is_out_of_time():
                stopped_by = StoppedBy.TIME
                break
            walk.advance(MOVES_BETWEEN_CLOCK_READINGS, bound, rng)
        moves += walk.moves
        if stopped_by is not None or best_objective <= bound:
            break
    if best_objective is None:
        raise ValueError("the swap search needs at least one start")
    return SearchResult(best_places, best_objective, bound, stopped_by, moves=moves)


class _SwapSearch:
    """A swap search from one start, with the data and state that `swap_servers` needs.

    Parameters
    ----------
    places
        The choice to start from.
    most_moves
        Number of moves after which the search is over.
    """

    def __init__(self, reduced: ReducedReclaim, places: Sequence[int], most_moves: int) -> None:
        losses = reduced.losses
        # No objective, change of the objective, or difference of two changes exceeds this bound.
        self._largest = 2 * sum(reduced.server_cost.tolist()) + 2 * sum(reduced.weight.tolist())
        dtype = np.int64 if self._largest < LARGEST_COMPILED_INTEGER else object
        weight = reduced.weight.astype(dtype)
        self._problem = SwapProblem(
            weight=weight,
            losses=losses,
            largest_loss=(
                np.maximum.reduceat(losses.job_counts, losses.job_start[:-1])
                if losses.jobs
                else np.zeros(0, dtype=np.int64)
            ),
            chosen_count=len(places),
            longest_chosen_ban=min(LONGEST_BAN, len(places) - 1),
            longest_free_ban=min(LONGEST_BAN, losses.servers - len(places) - 1),
        )
        self._most_moves = most_moves
        self.moves = 0

        is_chosen = np.zeros(losses.servers, dtype=np.int64)
        is_chosen[list(places)] = 1
        excess = losses.row_sums(is_chosen) - reduced.slack
        self._objective = sum(reduced.server_cost[is_chosen == 1].tolist()) + sum(
            weight[excess > 0].tolist()
        )
        self.best_objective = self._objective
        # Compute how adding or removing each server would change the objective.
        sign = np.where(is_chosen == 1, -1, 1)
        change = sign * reduced.server_cost.astype(dtype)
        job = np.repeat(np.arange(losses.jobs), losses.span())
        excess_then = excess[job] + sign[losses.job_servers] * losses.job_counts
        effect = (excess_then > 0).astype(np.int64) - (excess[job] > 0)
        np.add.at(change, losses.job_servers, effect * weight[job])
        # The fields start as arrays, but become lists if the kernel runs without compilation.
        self.walk = Walk(
            order=np.concatenate((np.flatnonzero(is_chosen == 1), np.flatnonzero(is_chosen == 0))),
            is_chosen=is_chosen,
            best_is_chosen=is_chosen.copy(),
            excess=excess,
            change=change,
            ban_end=np.zeros(losses.servers, dtype=np.int64),
        )

    @property
    def is_over(self) -> bool:
        """Whether all moves have been made or no swap is possible."""
        can_swap = 0 < self._problem.chosen_count < self._problem.losses.servers
        return self.moves >= self._most_moves or not can_swap

    def best_places(self) -> list[int]:
        """Return the positions of the servers in the best choice so far, ascending."""
        return [int(place) for place in np.flatnonzero(self.walk.best_is_chosen)]

    def advance(self, most_moves: int, target: int, rng: np.random.Generator) -> None:
        """Make up to `most_moves` more swaps; stop at an objective of at most `target`."""
        moves = min(most_moves, self._most_moves - self.moves)
        self.moves, self._objective, self.best_objective, self.walk = swap_servers.run(
            moves,
            self.moves,
            target,
            self._objective,
            self.best_objective,
            rng.integers(_LARGEST_DRAW, size=_DRAWS_PER_MOVE * moves),
            self._problem,
            self.walk,
            work=self._most_moves * self._problem.losses.servers // STEPS_OF_A_GREEDY,
            largest=self._largest,
        )
