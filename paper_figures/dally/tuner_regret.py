"""How far Dally's auto-tuner is from the best fixed timers, and these from a clairvoyant schedule.

No table of the paper. On a few draws of jobs fixed timers are tuned by simulation
(`experiments.tuning`), so that they are the best in hindsight, and held against the auto-tuner on
the same draws and on fresh ones. On each draw a search that knows all jobs
(`experiments.tuning.clairvoyant_search`) says what can be had, and a bound
(`lyra_opt.simulation.clairvoyant_bounds`) what cannot.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from experiments.tuning.outcome import percent, regret, regret_in_words
from experiments.tuning.timer_space import BASELINES
from lyra_opt.network.class_timers import shown_leases
from paper_figures.comparison import MISSING, Table
from paper_figures.dally.schemes import DALLY, NAMES, notes_on_missing
from paper_figures.dally.tuner_regret_cases import (
    BEST_FIXED,
    BUSY_JOBS_PER_DAY,
    CHANGES,
    JOBS,
    OTHERS,
    PLACES,
    SPACE,
    TOPOLOGY,
    TRIALS,
    ClairvoyantCase,
    Regret,
    TuningCase,
    cases,
    combined,
    draws,
)
from paper_figures.report import Answer, Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.network.class_timers import ClassTimers
    from paper_figures.dally.cases import Results

__all__ = ["NAME", "TITLE", "cases", "make_page", "page"]

NAME = "dally-tuner-regret"
TITLE = "How far is Dally's auto-tuner from the best timers, and these from the best schedule?"

HOUR_S = 3600


def page(results: Results) -> Page:
    """Return the page."""
    seeds = draws(results.setting)
    return make_page(
        [
            combined(
                place,
                results.of(TuningCase(place=place)),
                [results.of(ClairvoyantCase(place=place, seed=seed)) for seed in seeds],
            )
            for place in PLACES
        ]
    )


def make_page(found: Sequence[Regret]) -> Page:
    """Return the page of what was found."""
    number = len(found[0].bound_s)
    return Page(
        name=NAME,
        title=TITLE,
        picture="tuner_regret",
        found=(
            Answer(
                question="How far is Dally's auto-tuner from the best fixed timers?",
                sentences=tuple(_tuner_sentences(found)),
            ),
            Answer(
                question="How far are the best fixed timers from a clairvoyant schedule?",
                sentences=tuple(_clairvoyant_sentences(found)),
            ),
        ),
        data=(_hindsight(found), _regrets(found), _distances(found), _timers(found)),
        series=_series(found),
        remarks=(
            f"{JOBS} jobs with the figures of Dally's batch set, all at once or at "
            f"{BUSY_JOBS_PER_DAY:g} a day, on {TOPOLOGY.gpus} GPUs (two racks of four machines of "
            "eight), whatever the scale. Leases of an hour, hand-over of 1 s for each GPU.",
            f"Timers are tuned on {number} draws of jobs, the same for every candidate, with "
            f"{TRIALS} trials of which {len(BASELINES)} are the baselines; in hindsight they "
            f"cannot be worse than these. Fresh draws are {number} others. More trials, or timers "
            "by more classes, may find better ones: regrets in hindsight are lower bounds.",
            "Timers hold back gangs that fit a machine (rack and network timer), and those that "
            "fit a rack (network timer). The auto-tuner has timers for each gang size; the table "
            "has the mean over what it said of waiting gangs that were offered GPUs, and the "
            "largest.",
            "Clairvoyant timers: each job has its own, chosen by a search that knows all jobs, but "
            "jobs choose in Dally's order (most hurt first). Best schedule found: the order too "
            "is by what jobs still need. Both are what a search of "
            f"{CHANGES} changes beside plain plans found on a draw, or a rule if that was better; "
            "better ones may exist, down to the bound, which is proved for any schedule.",
            f"{_capital(' and '.join(NAMES[name] for name in OTHERS))} are told how long jobs "
            "still run, as the clairvoyant search is; Dally's order does not ask.",
            "In brackets the least and the greatest over draws. Links congested-3 are left out: "
            "gangs that no machine holds run there at 3 % of their speed at best, and make up "
            "nearly all of a mean.",
            *notes_on_missing(OTHERS),
        ),
    )


def _tuner_sentences(found: Sequence[Regret]) -> list[str]:
    sentences = []
    for each in found:
        tuned = each.tuned
        known = regret_in_words(tuned.jct_s[DALLY], each.best_fixed_s)
        fresh = regret(tuned.fresh_jct_s[DALLY], tuned.fresh_jct_s[BEST_FIXED])
        sentences.append(
            f"{_capital(each.place.in_words)}: in hindsight the auto-tuner's mean JCT is "
            f"{known} % above that of the best fixed timers; on fresh draws "
            f"{_more_or_less(fresh)} theirs."
        )
    floors = [regret(each.tuned.jct_s[DALLY], each.tuned.jct_s["floors (6, 12)"]) for each in found]
    learns = (
        "what it learns is worth less than 1 % either way"
        if max(map(abs, floors)) < 0.01
        else "what it learns makes a difference"
    )
    sentences.append(
        "Against timers fixed at its own floors (6 and 12 leases) the auto-tuner is from "
        f"{percent(min(floors))} to {percent(max(floors))} % above in hindsight: {learns}."
    )
    return sentences


def _clairvoyant_sentences(found: Sequence[Regret]) -> list[str]:
    sentences = [
        f"{_capital(each.place.in_words)}: the best fixed timers are "
        f"{percent(regret(each.best_fixed_s, each.timers_s))} % above clairvoyant timers in "
        f"the same order, {percent(regret(each.best_fixed_s, each.found_s))} % above the best "
        f"schedule found, and at most {percent(regret(each.best_fixed_s, each.bound_s))} % "
        "above any. The best schedule found is at most "
        f"{percent(regret(each.found_s, each.bound_s))} % above the optimum."
        for each in found
    ]
    tuner = [math.fsum(each.tuned.jct_s[DALLY]) - math.fsum(each.best_fixed_s) for each in found]
    timers = [math.fsum(each.best_fixed_s) - math.fsum(each.timers_s) for each in found]
    order = [math.fsum(each.timers_s) - math.fsum(each.found_s) for each in found]
    total = math.fsum(tuner) + math.fsum(timers) + math.fsum(order)
    if total > 0:
        sentences.append(
            "Of what separates the auto-tuner from the best schedules found, over all draws, "
            f"{percent(math.fsum(tuner) / total)} % are the tuner's against the best fixed timers, "
            f"{percent(math.fsum(timers) / total)} % what clairvoyant timers add, and "
            f"{percent(math.fsum(order) / total)} % the order in which jobs choose."
        )
    return sentences


def _more_or_less(share: float) -> str:
    if abs(share) < 0.0005:
        return "it is as good as"
    return f"{percent(abs(share))} % {'above' if share > 0 else 'below'}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _hours(jct_s: Sequence[float] | None) -> str:
    return MISSING if jct_s is None else f"{statistics.fmean(jct_s) / HOUR_S:.1f}"


def _hindsight(found: Sequence[Regret]) -> Table:
    rules = {
        "defaults (1, 2)": "fixed at 1 and 2",
        "floors (6, 12)": "fixed at 6 and 12",
        DALLY: "auto-tuner",
        BEST_FIXED: "best fixed (hindsight)",
        **{name: NAMES[name] for name in OTHERS},
    }
    return Table(
        title="Mean JCT (h) on the draws that timers were tuned on",
        header=[
            "",
            *rules.values(),
            "clairvoyant timers, found",
            "best schedule found",
            "bound for any schedule",
        ],
        rows=[
            [
                each.place.in_words,
                *(_hours(each.tuned.jct_s.get(name)) for name in rules),
                _hours(each.timers_s),
                _hours(each.found_s),
                _hours(each.bound_s),
            ]
            for each in found
        ],
    )


def _regrets(found: Sequence[Regret]) -> Table:
    rules = {DALLY: "auto-tuner", "defaults (1, 2)": "1 and 2", "floors (6, 12)": "6 and 12"}
    rows = []
    for each in found:
        for called, jct_s in (
            ("hindsight", each.tuned.jct_s),
            ("fresh draws", each.tuned.fresh_jct_s),
        ):
            rows.append(
                [
                    f"{each.place.in_words}, {called}",
                    _hours(jct_s[BEST_FIXED]),
                    *(regret_in_words(jct_s[name], jct_s[BEST_FIXED]) for name in rules),
                    *(
                        regret_in_words(jct_s[name], jct_s[BEST_FIXED])
                        if name in jct_s
                        else MISSING
                        for name in OTHERS
                    ),
                ]
            )
    return Table(
        title="Above the best fixed timers (%); below 0 a rule is better",
        header=["", "best fixed (h)", *rules.values(), *(NAMES[name] for name in OTHERS)],
        rows=rows,
    )


def _distances(found: Sequence[Regret]) -> Table:
    return Table(
        title="The best fixed timers above what a clairvoyant has (%)",
        header=[
            "",
            "clairvoyant timers, found",
            "best schedule found",
            "bound for any schedule",
            "best schedule found above the bound",
        ],
        rows=[
            [
                each.place.in_words,
                regret_in_words(each.best_fixed_s, each.timers_s),
                regret_in_words(each.best_fixed_s, each.found_s),
                regret_in_words(each.best_fixed_s, each.bound_s),
                regret_in_words(each.found_s, each.bound_s),
            ]
            for each in found
        ],
    )


def _timers(found: Sequence[Regret]) -> Table:
    rows = []
    for each in found:
        for choice in SPACE.choices:
            auto = each.tuned.auto_leases.get(choice.name)
            said = MISSING if auto is None else f"{auto[0]:.1f} ({auto[1]:g})"
            leases = chosen_leases(each.tuned.timers, choice.name)
            rows.append(
                [f"{each.place.in_words}, {CALLED[choice.name]}", shown_leases(leases), said]
            )
    return Table(
        title="Timers in leases",
        header=["", "best fixed", "auto-tuner's mean (largest)"],
        rows=rows,
    )


def chosen_leases(timers: ClassTimers, name: str) -> float:
    """Return the timer that a choice of `TimerSpace` stands for."""
    kind, _, gang = name.partition("-")
    each = next(each for each in timers.classes if each.largest_gang == int(gang))
    return each.rack_leases if kind == "rack" else each.network_leases


def _called(name: str) -> str:
    kind, _, gang = name.partition("-")
    fits = "a machine" if int(gang) <= TOPOLOGY.largest_machine_gpus else "a rack"
    return f"{kind} timer of gangs that fit {fits}"


CALLED = {choice.name: _called(choice.name) for choice in SPACE.choices}
"""Timers that are chosen, in words."""


def _series(found: Sequence[Regret]) -> dict[str, list[tuple[float, float]]]:
    """Return points by what they show: the number of the place, or of the timer, and a value."""
    rules: dict[str, list[tuple[float, float]]] = {}
    for place, each in enumerate(found):
        for called, jct_s in (
            (NAMES[DALLY], each.tuned.jct_s[DALLY]),
            (BEST_FIXED, each.best_fixed_s),
            *((NAMES[name], each.tuned.jct_s[name]) for name in OTHERS if name in each.tuned.jct_s),
            ("clairvoyant timers, found", each.timers_s),
            ("best schedule found", each.found_s),
        ):
            above = 1 + regret(jct_s, each.bound_s)
            rules.setdefault(f"rule: {called}", []).append((place, above))
    for each in found:
        where = each.place.in_words
        for number, name in enumerate(CALLED):
            leases = chosen_leases(each.tuned.timers, name)
            rules.setdefault(f"best: {where}", []).append((number, leases))
            if name in each.tuned.auto_leases:
                auto = each.tuned.auto_leases[name][0]
                rules.setdefault(f"auto: {where}", []).append((number, auto))
    return rules
