"""One display of progress: what is done, and how far those runs are that have begun."""

import io
import sys
from types import SimpleNamespace

from lyra_opt.commands import progress
from lyra_opt.commands.messages import Loudness, as_loud_as, say
from lyra_opt.commands.progress import solving
from lyra_opt.core.run_progress import listening, within_run
from lyra_opt.reclaim.instance import Semantics


def test_lines_now_and_then(capsys, monkeypatch):
    """Where there is no terminal, a line now and then, with the time left."""
    clock = iter([0.0, 1.0, 20.0, 21.0])
    monkeypatch.setattr("lyra_opt.commands.progress.time.monotonic", lambda: next(clock))
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 1000.0)
    with progress.progress("gap", 5) as advance:
        for _ in range(3):
            advance()
    assert capsys.readouterr().err == "gap: 2 of 5 runs, about 30 s left\n"


def test_the_time_left_is_unknown_at_the_start(monkeypatch):
    """A share of one in 100,000 would announce days for a run of minutes."""
    monkeypatch.setattr(progress, "words_of_run", lambda: "")
    assert progress._with_time_left("0.0 of 9 runs", 15.0, 0.0001, 9) == "0.0 of 9 runs"
    assert progress._with_time_left("1 of 9 runs", 15.0, 1, 9) == "1 of 9 runs, about 120 s left"


def test_runs_that_have_begun_count_too(capsys, monkeypatch):
    """A run of hours is shown while it lasts, and says in words how far it is."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 0.001)
    told = []

    def begun():
        return told[-1] if told else 0.0

    with progress.progress("replays", 4, begun=begun), listening(told.append):
        within_run(0.5, "day 2.0")
        while "0.5 of 4 runs" not in (error := capsys.readouterr().err):
            pass
    assert "replays: 0.5 of 4 runs, about 0 s left; day 2.0\n" in error
    within_run(0.9)  # nobody listens
    assert told == [0.5]


def test_a_long_solve_says_what_it_knows_and_how_long_it_lasts(monkeypatch):
    """On a terminal alone, and not where little is to be said; only what is better counts."""
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 0.001)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("lyra_opt.commands.progress.time.monotonic", lambda: 0.0)
    with solving("exact", Semantics.RIGID, 10.0, runs_behind=2) as observer:
        assert observer is None
    screen.isatty = lambda: True
    with as_loud_as(Loudness.QUIET), solving("exact", Semantics.RIGID, 10.0, 2) as observer:
        assert observer is None
    with solving("exact", Semantics.RIGID, 10.0, runs_behind=2) as observer:
        for kind, value in (("objective", 7), ("dual_bound", 3), ("objective", 9)):
            observer(kind, value)
        line = "exact: 0 s, at most 30 s left, incumbent 7, bound 3"
        while line not in screen.getvalue():
            pass


def test_a_notebook_shows_a_bar(monkeypatch, capsys):
    """Its own, below the cell, which is updated; words where it cannot show HTML."""
    shown = []
    handle = SimpleNamespace(update=lambda bar: shown.append((repr(bar), bar._repr_html_())))
    shell = SimpleNamespace(kernel=True)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    display = SimpleNamespace(display=lambda bar, display_id: handle)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr("lyra_opt.commands.progress.time.monotonic", lambda: 0.0)
    say("demand")
    assert tuple(capsys.readouterr()) == ("demand\n", "")  # text on stderr would be red
    with progress.progress("a < b", 4) as advance:
        advance()
    text, html = shown[0]
    assert text == "a < b: 1 of 4 runs, about 0 s left"
    assert html == '<progress value="1" max="4"></progress> ' + text.replace("<", "&lt;")
