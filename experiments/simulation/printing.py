"""What ``lyra-opt simulate`` prints for people, the same for all schemes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.commands.messages import say
from lyra_opt.commands.output import print_line, print_table
from lyra_opt.core.errors import counted
from lyra_opt.experiments.simulation.bounds import MEAN_JCT
from lyra_opt.experiments.simulation.comparison import what_seeds_vary
from lyra_opt.experiments.simulation.demand import demand_by_day, demand_by_type, types_in_words
from lyra_opt.experiments.simulation.durations import duration
from lyra_opt.experiments.simulation.measures import (
    MEASURES,
    mean_shown,
    shown_measures,
    spread_shown,
)
from lyra_opt.experiments.simulation.runs import variants_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.experiments.simulation.measures import Measure
    from lyra_opt.experiments.simulation.runs import Replays
    from lyra_opt.experiments.simulation.setup import Setup

MOST_DAYS_SHOWN = 31


def say_demand(setup: Setup) -> None:
    """Tell how much is asked of the cluster, day by day, before time is spent."""
    of_types = demand_by_type(setup)
    say(f"{setup.demand_in_words}{types_in_words(of_types)}{_inference_in_words(setup)}")
    if setup.dropped:
        say(f"{counted(setup.dropped, 'job')} left out that can never run")
    days = demand_by_day(setup)
    if len(days) > 1:
        shown = " ".join(f"{100 * day.load:.0f}" for day in days[:MOST_DAYS_SHOWN])
        more = " ..." if len(days) > MOST_DAYS_SHOWN else ""
        say(f"demand by day of submission, in % of what the cluster can do: {shown}{more}")
    if days and days[-1].backlog_days >= 1:
        say(
            f"overloaded: at the last submission, work for {days[-1].backlog_days:.1f} days of all "
            "GPUs is left even if none ever idles"
        )
    for name, demand in of_types.items():
        if demand.is_overloaded:
            say(
                f"overloaded: at the last submission, work for {duration(demand.backlog_s)} of all "
                f"GPUs of type {name} is left even if none of them ever idles"
            )


def _mean(values: Sequence[Any], measure: Measure) -> str:
    """Return the mean over seeds, and behind it the least and the greatest in brackets."""
    spread = spread_shown(values, measure.show)
    mean = mean_shown(values, measure.show)
    return f"{mean} ({spread})" if spread else mean


def _inference_in_words(setup: Setup) -> str:
    if setup.loaning is None:
        return ""
    orchestrator, plan = setup.loaning.orchestrator, setup.loaning.plan
    mean = sum(plan.on_loan) / len(plan.on_loan)
    return f"; {mean:.0f} of {orchestrator.servers:,} inference servers can be borrowed on average"


def print_replays(replays: Replays) -> None:
    """Print schemes side by side, in the mean over seeds, and what is assumed of them."""
    for variant, runs in variants_of(replays.runs):
        first = runs[0]
        seeds = len({run.seed for run in runs})
        of_scheme: dict[str, list[Mapping[str, Any]]] = {}
        for run in runs:
            of_scheme.setdefault(run.scheme, []).append(run.figures or {})
        title = [f"scenario {replays.study.name}", variant, f"{first.workload} on {first.cluster}"]
        if seeds > 1:
            title[-1] = f"on {first.cluster}, means over {seeds} seeds (least – greatest)"
        print_line(f"{', '.join(filter(None, title))}:")
        figures = [each for of_one in of_scheme.values() for each in of_one]
        print_table(
            ["", *of_scheme],
            [
                [
                    measure.name,
                    *(
                        _mean([run.get(measure.key) for run in of_one], measure)
                        for of_one in of_scheme.values()
                    ),
                ]
                for measure in shown_measures(figures, MEASURES)
            ],
            right=1,
        )
        if varied := what_seeds_vary(runs, replays.jobs).in_words:
            print_line(varied)
    readings = sorted(
        {each["bound_reading"] for run in replays.runs if MEAN_JCT in (each := run.figures or {})}
    )
    if readings:
        print_line(
            f"What is proved holds for what the reading {' or '.join(readings)} permits, see "
            '"lyra-opt bound --help".'
        )
    print("What is assumed:")
    for sentence in dict.fromkeys(each for run in replays.runs for each in run.assumptions):
        print_line(f"- {sentence}", indent="  ")
