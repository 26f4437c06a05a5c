"""Timers by demand class, and their files."""

import math

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.network.heuristics.delay_scheduling import FixedTimers
from lyra_opt.simulation.class_timers import ClassTimers, manual

CLASS = "[[class]]\nlargest_gang = 8\nrack_leases = 1\nnetwork_leases = 2\n"
HEAD = 'format = "lyra-opt/timers"\nversion = 1\n'


def test_a_list_of_tables_is_the_file(tmp_path):
    """Tuning files and what they find have timers in place, for ever and fractions included."""
    path = tmp_path / "timers.toml"
    path.write_text(HEAD + CLASS.replace("= 1", "= inf").replace("= 2", "= 2.5"))
    tables = [{"largest_gang": 8, "rack_leases": math.inf, "network_leases": 2.5}]
    for timers in (path, tables):
        rule = manual(timers=timers)._timers
        assert isinstance(rule, FixedTimers)
        assert (rule._largest, rule._leases[0]) == ([8], (math.inf, 2.5))
    with pytest.raises(FieldError, match="timers.class\\[0\\].rack_leases is -1"):
        manual(timers=[tables[0] | {"rack_leases": -1}])
    with pytest.raises(FieldError, match="must be a file or a list of tables"):
        manual(timers=3)


def test_there_is_at_least_one_class():
    """Timers of nobody say nothing."""
    with pytest.raises(FieldError, match="class is"):
        ClassTimers(())
