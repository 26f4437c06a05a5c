"""A name that is spelt wrong is one line at the user's own call, with the nearest name."""

import re
import traceback
from pathlib import Path

import pandas as pd
import pytest

import lyra_opt as lo
from tests.conftest import FIGURE_5
from tests.tables import tables


@pytest.mark.parametrize(("word", "arguments", "options", "says"), tables(__file__)["misspelt"])
def test_a_misspelt_name(word, arguments, options, says, tmp_path, monkeypatch):
    """The message has the nearest name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/gap").mkdir(parents=True)
    (tmp_path / "results/gap/results.sqlite").touch()
    given = [lo.load(FIGURE_5) if each == "FLEET" else each for each in arguments]
    with pytest.raises(lo.UserError, match=re.escape(says)) as caught:
        getattr(lo, word)(*given, **options)
    assert_ends_at_the_call(caught.value)


CALLS = {
    "picture": lambda runs: runs.plot("x"),
    "argument": lambda runs: runs.plot(stile="paper"),
    "format": lambda runs: runs.summary("latx"),
    "scheme": lambda runs: runs.differences("lyyra"),
    "value": lambda _: lo.reclaim.Server(id="", gpus=8),
    "missing": lambda _: lo.reclaim.Server(id="a"),
    "unknown": lambda _: lo.reclaim.Server(id="a", gpu=8),
    "needed": lambda _: lo.Cluster.of_servers(),
    "cluster": lambda _: lo.Cluster.of_servers(0),
    "frame": lambda _: lo.Workload.from_frame(pd.DataFrame({"id": [""]})),
    "instance": lambda _: lo.reclaim.Instance.from_frames(reclaim_servers="", servers=[], jobs=[]),
    "folder": lambda _: lo.plot_study("nope"),
    "results": lambda runs: lo.plot(runs),
}


def test_methods_and_constructors():
    """The same holds for the methods of results, and for objects."""
    jobs = pd.DataFrame({"job_id": ["a"], "submit_time_s": 0, "duration_s": 60, "gpus": 8})
    runs = lo.simulate(jobs=jobs, cluster=lo.Cluster.of_servers(1), schemes=["fifo"])
    for call in CALLS.values():
        with pytest.raises(lo.UserError) as caught:
            call(runs)
        assert_ends_at_the_call(caught.value)


def assert_ends_at_the_call(error):
    """Neither a script nor IPython shows inner frames of the toolkit, or another exception."""
    assert "\n" not in str(error)
    *own, wrapper = traceback.extract_tb(error.__traceback__)
    assert wrapper.name == "ending_here"
    assert {frame.filename for frame in own} == {__file__}
    assert (error.__cause__, error.__suppress_context__) == (None, True)
    assert error._render_traceback_() == [
        *(f"{Path(__file__).name}, line {frame.lineno}: {frame.line}" for frame in own),
        f"{type(error).__name__}: {error}",
    ]
