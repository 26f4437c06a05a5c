"""The inner loops of the multiple-choice knapsack, over classes of items in flat arrays.

Class c has the items ``start[c]`` to ``start[c + 1]``. Within a class weights and values increase,
so that no item is dominated. Slopes are floats and only guide the search. Bounds are computed from
integer values in units of `lyra_opt.allocation.knapsack.data.ScaledKnapsack`, chosen so that every
sum and product below stays under 2**62.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel

NEVER = 2**61
"""A loss that excludes an item from every better solution."""

NONE = -1

NOISE_BITS = 40
"""Values of items and prices computed from their slopes agree to at least this many bits."""


@kernel
def mark_undominated(start: Any, order: Any, value: Any, is_kept: Any) -> Any:
    """Mark the items worth more than all lighter and equally heavy items of their class.

    `order` lists the items of each class by weight, and the best first among equally heavy items.
    """
    for c in range(len(start) - 1):
        best = 0
        for place in range(start[c], start[c + 1]):
            item = order[place]
            if value[item] > best:
                best = value[item]
                is_kept[item] = 1
    return is_kept


@kernel
def climb_hulls(
    start: Any,
    weight: Any,
    value: Any,
    step_class: Any,
    step_item: Any,
    step_weight: Any,
    step_slope: Any,
) -> Any:
    """Walk along the upper convex hull of each class, from no item to its best item.

    Returns ``(steps, step_class, step_item, step_weight, step_slope)``. Each step leads to an item,
    adds weight, and adds value per weight; within a class the slopes never rise. Items below the
    line between two hull points are LP-dominated and have no step. Time O(items).
    """
    steps = 0
    for c in range(len(start) - 1):
        first = steps
        for item in range(start[c], start[c + 1]):
            while True:
                added_weight = weight[item]
                added_value = value[item]
                if steps > first:
                    added_weight -= weight[step_item[steps - 1]]
                    added_value -= value[step_item[steps - 1]]
                slope = added_value / added_weight
                # Slopes that differ only by rounding count as equal; equal steps are not merged.
                if steps == first or slope <= step_slope[steps - 1] * 1.000000000001:
                    break
                steps -= 1
            if steps > first:
                slope = min(slope, step_slope[steps - 1])
            step_class[steps] = c
            step_item[steps] = item
            step_weight[steps] = added_weight
            step_slope[steps] = slope
            steps += 1
    return steps, step_class, step_item, step_weight, step_slope


@kernel
def split_slope(steps: int, capacity: int, weight: Any, slope: Any) -> Any:
    """Return the optimal price per unit of weight in the linear relaxation of the knapsack.

    The price is the slope of a hull step. All steeper steps fit together, and the steps of this
    slope no longer fit; 0 if all steps fit. Reorders `weight` and `slope`. The algorithm partitions
    around a pivot and continues in one part (Balas and Zemel 1980; Dyer and Zemel for the knapsack
    with classes): O(steps) expected time.
    """
    low = 0
    high = steps
    left = capacity
    while low < high:
        first = slope[low]
        middle = slope[(low + high) // 2]
        last = slope[high - 1]
        pivot = max(min(first, middle), min(max(first, middle), last))
        steeper = (
            low  # [low, steeper) above the pivot, [steeper, place) at it, [flatter, high) below
        )
        place = low
        flatter = high
        steeper_weight = 0
        equal_weight = 0
        while place < flatter:
            here = slope[place]
            here_weight = weight[place]
            if here > pivot:
                slope[place] = slope[steeper]
                weight[place] = weight[steeper]
                slope[steeper] = here
                weight[steeper] = here_weight
                steeper_weight += here_weight
                steeper += 1
                place += 1
            elif here < pivot:
                flatter -= 1
                slope[place] = slope[flatter]
                weight[place] = weight[flatter]
                slope[flatter] = here
                weight[flatter] = here_weight
            else:
                equal_weight += here_weight
                place += 1
        if steeper_weight > left:
            high = steeper
        elif steeper_weight + equal_weight > left:
            return pivot
        else:
            left -= steeper_weight + equal_weight
            low = flatter
    return 0.0


@kernel
def take_steps(
    capacity: int, order: Any, step_class: Any, step_item: Any, step_weight: Any, chosen: Any
) -> Any:
    """Return the item of each class after taking the steps in `order` while they fit.

    A class whose step does not fit takes no further step. `chosen` is -1 at first and marks such
    classes meanwhile.
    """
    left = capacity
    for k in order:
        c = step_class[k]
        if chosen[c] < NONE:
            continue
        if step_weight[k] <= left:
            left -= step_weight[k]
            chosen[c] = step_item[k]
        else:
            chosen[c] = -3 - chosen[c]
    for c in range(len(chosen)):
        if chosen[c] < NONE:
            chosen[c] = -3 - chosen[c]
    return chosen


@kernel
def fill_table(
    first: int,
    end: int,
    capacity: int,
    start: Any,
    weight: Any,
    value: Any,
    lowest: Any,
    best: Any,
    after: Any,
    table: Any,
) -> Any:
    """Extend the dynamic-programming table from class `first` to class `end`.

    The recursion ``best_c(w) = max(best_{c-1}(w), max_k best_{c-1}(w - w_ck) + v_ck)`` is evaluated
    for ``w >= lowest[c]`` only, the capacity that the heaviest items of the later classes leave.
    `table` stores the chosen k. Among equally good items the lightest wins. Returns `best`, `after`
    and `table`. Time O(items * capacity).
    """
    width = capacity + 1
    for c in range(first, end):
        low = lowest[c]
        row = c * width
        for w in range(low, width):
            after[w] = best[w]
            table[row + w] = NONE
        for item in range(start[c], start[c + 1]):
            item_weight = weight[item]
            item_value = value[item]
            number = item - start[c]
            for w in range(max(low, item_weight), width):
                found = best[w - item_weight] + item_value
                is_better = found > after[w]
                after[w] = found if is_better else after[w]
                table[row + w] = number if is_better else table[row + w]
        swapped = best
        best = after
        after = swapped
    return best, after, table


@kernel
def trace_table(capacity: int, start: Any, weight: Any, table: Any, chosen: Any) -> Any:
    """Trace back the completed dynamic-programming table; return the item of each class."""
    width = capacity + 1
    left = capacity
    for c in range(len(start) - 2, -1, -1):
        number = table[c * width + left]
        chosen[c] = NONE
        if number != NONE:
            chosen[c] = start[c] + number
            left -= weight[start[c] + number]
    return chosen


@kernel
def price_items(
    price: int, start: Any, weight: Any, value: Any, base: Any, loss: Any, none_loss: Any
) -> Any:
    """Find the loss of each item against the best item of its class at a price of weight.

    Returns ``(total, base, loss, none_loss)``: the sum of the best values minus price of all
    classes; the items that give them (`base`, -1 for no item, the lightest of several); the loss of
    each item and of taking no item. Time O(items).
    """
    total = 0
    for c in range(len(start) - 1):
        best = 0
        base[c] = NONE
        for item in range(start[c], start[c + 1]):
            reduced = value[item] - price * weight[item]
            if reduced > best:
                best = reduced
                base[c] = item
        total += best
        none_loss[c] = best
        for item in range(start[c], start[c + 1]):
            loss[item] = best - (value[item] - price * weight[item])
    return total, base, loss, none_loss


@kernel
def settle_ties(
    capacity: int, start: Any, weight: Any, value: Any, base: Any, loss: Any, none_loss: Any
) -> Any:
    """Choose among items that tie with the best of their class so that little capacity is left.

    An item counts as tied if it loses no more than rounding explains: 2 units, 1 for each unit of
    weight that it is heavier than the best, and 2**-NOISE_BITS of the value. First each class takes
    its lightest tied item, then in turn its heaviest tied item that fits. Returns ``(room, base,
    loss, none_loss)``: the capacity left, below 0 if the lightest items do not fit; the items
    taken; and the losses minus what rounding explains, at least 1. Time O(items).
    """
    room = capacity
    for c in range(len(start) - 1):
        held = 0
        worth = 0
        if base[c] != NONE:
            held = weight[base[c]]
            worth = value[base[c]]
        none_loss[c] = max(1, none_loss[c] - 2 - (worth >> NOISE_BITS))
        is_settled = none_loss[c] == 1
        if is_settled:
            base[c] = NONE
        for item in range(start[c], start[c + 1]):
            noise = 2 + max(0, weight[item] - held) + (max(value[item], worth) >> NOISE_BITS)
            loss[item] = max(1, loss[item] - noise)
            if loss[item] == 1 and not is_settled:
                is_settled = True
                base[c] = item
        if base[c] != NONE:
            room -= weight[base[c]]
    for c in range(len(start) - 1):
        held = 0
        if base[c] != NONE:
            held = weight[base[c]]
        item = start[c + 1] - 1
        while room > 0 and item >= start[c] and weight[item] > held:
            if loss[item] == 1 and weight[item] - held <= room:
                room -= weight[item] - held
                base[c] = item
                break
            item -= 1
    return room, base, loss, none_loss


@kernel
def least_losses(
    start: Any,
    weight: Any,
    base: Any,
    loss: Any,
    none_loss: Any,
    least_loss: Any,
    lighter_loss: Any,
    heavier_loss: Any,
) -> Any:
    """Find, for each class, the least loss of value from replacing its base item.

    Returns ``(least_loss, lighter_loss, heavier_loss)``: the least loss, and the least loss per
    weight, rounded down, of lighter and of heavier choices than the base. The value is `NEVER` if
    there is no such choice. Time O(items).
    """
    for c in range(len(start) - 1):
        held = 0
        least = NEVER
        lighter = NEVER
        heavier = NEVER
        if base[c] != NONE:
            held = weight[base[c]]
            least = none_loss[c]
            lighter = none_loss[c] // held
        for item in range(start[c], start[c + 1]):
            if item == base[c]:
                continue
            lost = loss[item]
            least = min(least, lost)
            if weight[item] < held:
                lighter = min(lighter, lost // (held - weight[item]))
            else:
                heavier = min(heavier, lost // (weight[item] - held))
        least_loss[c] = least
        lighter_loss[c] = lighter
        heavier_loss[c] = heavier
    return least_loss, lighter_loss, heavier_loss


class Classes(NamedTuple):
    """The constant data of the core search `expand_core`.

    Arrays are indexed by item, by class (``start``, ``base``, ``none_loss``) or by position in
    ``order``, which lists the classes that may change. ``next_loss``, ``lighter_loss`` and
    ``heavier_loss`` are minima over all classes from a position on, with one more entry `NEVER`.
    ``unit`` is the common divisor of the weights that these classes can add, with one more entry 1.
    Some optimal choice adds to any of the classes a total weight between ``lightest`` and
    ``heaviest``.
    """

    price: int
    tolerance: int
    room: int
    lightest: int
    heaviest: int
    start: Any
    weight: Any
    loss: Any
    base: Any
    none_loss: Any
    order: Any
    next_loss: Any
    lighter_loss: Any
    heavier_loss: Any
    unit: Any


class Search(NamedTuple):
    """The state of the core search: the size of the core, the gap and the best choice.

    The best choice is given by the class added last, the state before it and the item, -1 for the
    base solution. The states of the last level are ``first`` to ``last``.
    """

    level: int
    gap: int
    best_level: int
    best_parent: int
    best_item: int
    first: int
    last: int


class States(NamedTuple):
    """The dynamic-programming states of the core search, with one level per class in the core.

    A state has the weight that the choices in the core add to the base, and their loss. ``parent``
    is the state of the previous level, and ``item`` the item of the class added.
    """

    weight: Any
    loss: Any
    parent: Any
    item: Any


class Changes(NamedTuple):
    """The alternatives to the base item of one class, with their added weight and loss.

    The arrays are scratch, with two elements more than the largest class. ``head`` is the next
    state for each alternative.
    """

    item: Any
    weight: Any
    loss: Any
    head: Any


@kernel
def list_changes(c: int, gap: int, classes: Any, changes: Any) -> Any:
    """List the base item of class `c` and its alternatives below the gap; return their number."""
    loss = classes.loss
    weight = classes.weight
    base = classes.base[c]
    count = 1
    changes.item[0] = base
    changes.weight[0] = 0
    changes.loss[0] = 0
    held = 0
    if base != NONE:
        held = weight[base]
        if classes.none_loss[c] < gap:
            changes.item[count] = NONE
            changes.weight[count] = -held
            changes.loss[count] = classes.none_loss[c]
            count += 1
    for item in range(classes.start[c], classes.start[c + 1]):
        if loss[item] < gap and item != base:
            changes.item[count] = item
            changes.weight[count] = weight[item] - held
            changes.loss[count] = loss[item]
            count += 1
    return count


@kernel
def add_class(count: int, classes: Any, search: Any, states: Any, changes: Any) -> Any:
    """Merge the states of the last level with `count` alternatives of the next class.

    Each alternative gives a list of new states that rises by weight, as the old states do, so the
    lightest head of all lists comes next. Returns the new search state and the number of states
    examined.
    """
    price = classes.price
    first = search.first
    last = search.last
    gap = search.gap
    best_level = search.best_level
    best_parent = search.best_parent
    best_item = search.best_item
    level = search.level
    state_weight = states.weight
    state_loss = states.loss
    other_weight = changes.weight
    other_loss = changes.loss
    head = changes.head
    for k in range(count):
        head[k] = first
    least_next = classes.next_loss[level + 1]
    per_heavier = min(price, classes.heavier_loss[level + 1])
    per_lighter = classes.lighter_loss[level + 1]
    next_unit = classes.unit[level + 1]
    looked_at = 0
    best_gain = -NEVER
    size = last
    while True:
        picked = NONE
        new_weight = 0
        new_loss = 0
        for k in range(count):
            if head[k] < last:
                its_weight = state_weight[head[k]] + other_weight[k]
                its_loss = state_loss[head[k]] + other_loss[k]
                if (
                    picked == NONE
                    or its_weight < new_weight
                    or (its_weight == new_weight and its_loss < new_loss)
                ):
                    picked = k
                    new_weight = its_weight
                    new_loss = its_loss
        if picked == NONE or new_weight > classes.heaviest:
            break
        looked_at += 1
        parent = head[picked]
        head[picked] += 1
        if new_loss >= gap or new_weight < classes.lightest:
            continue
        gain = price * new_weight - new_loss
        if gain <= best_gain:
            continue
        best_gain = gain
        slack = classes.room - new_weight
        if slack >= 0 and new_loss + price * slack < gap:
            gap = new_loss + price * slack - classes.tolerance
            best_level = level
            best_parent = parent
            best_item = changes.item[picked]
        unused = slack % next_unit
        affordable = gap - 1 - new_loss - price * unused
        if affordable < least_next:
            continue
        slack -= unused
        if slack > 0:
            if per_heavier > 0 and slack > affordable // per_heavier:
                continue
        elif slack < 0 and per_lighter > 0 and -slack > affordable // per_lighter:
            continue
        state_weight[size] = new_weight
        state_loss[size] = new_loss
        states.parent[size] = parent
        states.item[size] = changes.item[picked]
        size += 1
    found = Search(level + 1, gap, best_level, best_parent, best_item, last, size)
    return found, looked_at


@kernel
def expand_core(state_budget: int, classes: Any, search: Any, states: Any, changes: Any) -> Any:
    """Add classes to the core in order until no other class can improve on the best choice.

    A state gives the weight that the classes in the core have added to the base solution, and their
    loss. If it is completed with ``room - weight`` left over, it falls short of the bound by its
    loss plus the price of the weight left over. The gap is the least known shortfall minus
    ``tolerance``, and only smaller shortfalls are of interest. So a state is dropped if

    * its weight is not between ``lightest`` and ``heaviest``; or
    * another state has at most its weight and at least its value (price x weight - loss); or
    * its loss plus the least loss of any class outside the core (``next_loss``) reaches the gap; or
    * its loss plus the least cost of bringing its weight to the capacity reaches the gap. That cost
      uses the least loss per weight outside the core (``lighter_loss``, ``heavier_loss``) or the
      price, and the weight that must be left over because classes outside the core add only
      multiples of ``unit``.

    Stops once `state_budget` states have been examined. Returns ``(is_done, looked_at, search,
    states)``. If the search is not done and ``looked_at`` is below the budget, there was no space
    for the states of the next level.
    """
    looked_at = 0
    is_done = 0
    while True:
        if classes.next_loss[search.level] >= search.gap or search.first == search.last:
            is_done = 1
            break
        if looked_at >= state_budget:
            break
        count = list_changes(classes.order[search.level], search.gap, classes, changes)
        if search.last + count * (search.last - search.first) > len(states.weight):
            break
        search, seen = add_class(count, classes, search, states, changes)
        looked_at += seen
    return is_done, looked_at, search, states
