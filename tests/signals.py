"""Signals of processes that tests start."""

import signal


def hear_signals():
    """End at Ctrl-C and SIGHUP, which background jobs and nohup have every process ignore.

    To be called in the new process (`preexec_fn`).
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
