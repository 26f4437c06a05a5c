"""The search: start values first, the same trials for the same file, and small changes last."""

import math

import pandas as pd
import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.experiments.plots.trials import importances
from lyra_opt.experiments.simulation.scenario.setup import SimulationError
from lyra_opt.experiments.tuning.outcome import (
    AUTO_TUNER,
    BEST,
    JCT,
    PROVED,
    Found,
    with_clairvoyant,
)
from lyra_opt.experiments.tuning.search import best_of, loss_of, search
from lyra_opt.experiments.tuning.tasks import SCHEDULE, TIMERS
from lyra_opt.experiments.tuning.tuning_file import (
    ParameterTable,
    RowTable,
    StartTable,
    TargetTable,
    TuningTable,
)

TARGETS = (
    TargetTable(measure="queue_mean_s", value=100.0),
    TargetTable(measure="jct_mean_s", value=1000.0, tolerance=0.2),
)

OF_X = (TargetTable(row="x", measure="jct_mean_s", value=1.0),)


def table(**keys):
    """Return a search for two numbers from 0 to 99, the second of which may be inf."""
    return TuningTable(
        **{
            "format": "lyra-opt/tuning",
            "version": 1,
            "name": "drawn",
            "scenario": "lyra-paper",
            "seeds": (0, 1),
            "random": 5,
            "targets": TARGETS,
            "parameters": tuple(
                ParameterTable(path=name, least=0, most=99, or_inf=name == "b") for name in "ab"
            ),
            **keys,
        }
    )


def means(candidates):
    """Return figures whose targets are met by 40 and 70 alone."""
    return [{"queue_mean_s": 60.0 + c["a"], "jct_mean_s": 930.0 + c["b"]} for c in candidates]


def test_the_best_is_found_and_kept():
    """Small changes of the best end where nothing is better; no trial gets lost on the way."""
    found = search(table(trials=20, refinements=150), means)
    assert len(found) == 170
    assert best_of(found).loss == min(trial.loss for trial in found) == 0
    assert best_of(found).steps == {"a": 40, "b": 70}
    assert min(trial.loss for trial in found[:20]) > 0, "the sampler alone is not that lucky"
    assert all(0 <= trial.steps["a"] <= 99 and 0 <= trial.steps["b"] <= 100 for trial in found)


def test_start_comes_first_and_the_same_file_gives_the_same_trials():
    """So an interrupted search goes on; another seed tries others. A batch is asked at once."""
    start = (StartTable(name="ends", values=(0, float("inf"))), StartTable(name="x", values=(3, 4)))
    asked = []

    def counted(candidates):
        asked.append(len(candidates))
        return means(candidates)

    keys = {"start": start, "trials": 12, "refinements": 4, "batch": 2}
    one, same, other = (search(table(**keys, seed=seed), counted) for seed in (1, 1, 2))
    assert one == same
    assert one[:2] == other[:2]
    assert one[2:] != other[2:]
    assert [trial.values(table(**keys)) for trial in one[:2]] == [[0, float("inf")], [3, 4]]
    assert asked[: len(asked) // 3] == [7, 2, 2, 1, 2, 2]


def test_loss_counts_in_tolerances():
    """The worst miss, and the mean of all; without targets the measure itself."""
    figures = {"queue_mean_s": 85, "jct_mean_s": 1200}
    assert loss_of(table(trials=1), figures) == pytest.approx(1.5 + (1.5 + 1.0) / 2)
    assert loss_of(table(trials=1, targets=(), measure="queue_mean_s"), figures) == 85
    assert loss_of(table(trials=1, largest_miss=1.2), figures) == pytest.approx((1.2 + 1.0) / 2)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"measure": "jct_mean_s"}, "cannot be combined with targets"),
        ({"targets": ()}, "measure"),
        ({"targets": (), "measure": "jct_average_s"}, "measure"),
        ({"targets": OF_X}, "requires rows"),
        ({"rows": (RowTable(name="x", scheme="lyra"),)}, r"targets\[0\].row"),
        ({"rows": (RowTable(name="x", scheme="lyra"),), "targets": OF_X, "compiled": True}, "rows"),
        ({"judged": (1,)}, "judged"),
        ({"start": (StartTable(name="x", values=(1,)),)}, "must have 2 values"),
        ({"start": (StartTable(name="x", values=(float("inf"), 1)),)}, r"start\[0\].a is Infinity"),
        ({"clairvoyant": 1}, "requires measure jct_mean_s"),
    ],
)
def test_rules_of_the_file(keys, named):
    """Each names its key."""
    with pytest.raises(FieldError, match=named):
        table(trials=5, **keys)


def test_the_most_important_setting_explains_the_loss():
    """Also if its best value is in the middle, or infinite; a constant one explains nothing."""
    middle = pd.Series(range(12))
    settings = pd.DataFrame({"middle": middle, "ends": middle % 2, "same": 1})
    settings["infinite"] = [math.inf, 1.0] * 6
    shares = importances(settings, abs(middle - 5.5))
    assert shares.idxmax() == "middle"
    assert shares["middle"] > 0.7 > 0.1 > shares["ends"] >= shares["same"] == 0
    assert importances(settings, settings.ends)["infinite"] == pytest.approx(1)
    assert importances(settings, settings.same).eq(0).all()


def with_search(*schedule_s, auto_s=(11, 22)):
    """Return mean JCTs on two seeds; a bound of 5 s, and timers 3 s above the schedules found."""
    jct_s = {"start": (12, 24), AUTO_TUNER: auto_s, BEST: (10, 20), "srtf": (8, 16)}
    searched = {TIMERS: [each + 3 for each in schedule_s], SCHEDULE: schedule_s}
    frame = pd.DataFrame(jct_s | searched)
    return with_clairvoyant(frame, pd.Series([5.0, 5.0]), ["start", AUTO_TUNER, BEST])


def found_with(jct_s):
    """Return the result of a tuning with these mean JCTs, by seed and entry."""
    return Found(
        table=table(trials=1, targets=(), measure=JCT),
        point={},
        trials=(),
        figures={str(name): pd.DataFrame({JCT: jct_s[name]}) for name in jct_s},
        replayed=pd.DataFrame(),
    )


def test_schemes_that_beat_the_clairvoyant_search_count_as_found():
    """Scheme srtf has 16 s on the second seed, where the search found 17 s in free order."""
    rows = with_search(6, 17).to_dict("list")
    assert (rows[TIMERS], rows[SCHEDULE], rows[PROVED]) == ([9, 20], [6, 16], [5, 5])


def test_a_schedule_below_the_bound_is_refused():
    """The schedule or the bound is wrong then."""
    with pytest.raises(SimulationError, match="is a proved lower bound"):
        with_search(4, 17)


def test_the_distance_is_split_without_remainder():
    """By hand: of 11 s the tuner has 3 s, the timers 1 s and the order 7 s."""
    words = found_with(with_search(6, 17)).shares_in_words()
    assert "27.3 % for the tuner" in words
    assert "9.1 % for clairvoyant timers" in words
    assert "63.6 % for the order" in words
    assert "No schedule" in found_with(with_search(6, 17, auto_s=(6, 16))).shares_in_words()
    assert found_with(with_search(6, 17)[[AUTO_TUNER, BEST]]).shares_in_words() == ""


def test_cells_show_mean_ratio_and_range():
    """Ratios are to the best values on the same seed; entries without judged seeds show dashes."""
    rows = {name: cells for name, *cells in found_with(with_search(6, 17)).comparison().rows()}
    assert rows[BEST][:2] == ["15.0 (10.0 to 20.0)", "1.000 (1.000 to 1.000)"]
    assert rows["srtf"][:2] == ["12.0 (8.00 to 16.0)", "0.800 (0.800 to 0.800)"]
    assert rows["start"] == ["18.0 (12.0 to 24.0)", "1.200 (1.200 to 1.200)", "–", "–"]
