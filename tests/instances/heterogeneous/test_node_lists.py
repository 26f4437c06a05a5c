"""Node lists in every layout, and the defects that their reader refuses."""

import pytest

from lyra_opt.instances.heterogeneous.clusters import known_gpu_types
from lyra_opt.instances.heterogeneous.node_lists import LAYOUTS, read_nodes
from tests.conftest import assert_refused
from tests.tables import tables

TABLES = tables(__file__)
DEFECTS = [
    pytest.param(table["text"], *change, id=f"{layout}: {name}")
    for layout, table in TABLES.items()
    for name, change in table.get("defects", {}).items()
]


def read(path):
    return read_nodes(path, known_gpu_types())


def test_every_layout_has_an_example():
    assert sorted(TABLES) == sorted(LAYOUTS.all())


@pytest.mark.parametrize("layout", TABLES)
def test_servers_of_a_layout(write, layout):
    """The fastest GPU type comes first; nodes of one type are in file order."""
    table = TABLES[layout]
    cluster = read(write(table["text"], "nodes.csv"))
    assert cluster.name == "nodes"
    assert [[server.id, dict(server.gpus)] for server in cluster.servers] == table["servers"]
    if "said" in table:
        first = "The nodes of nodes are present all the time."
        assert list(cluster.assumptions) == [first, *table["said"]]


def test_speed_of_own_types(write):
    """A type of the user replaces the assumption, and keeps the user's spelling."""
    own = known_gpu_types({"ABACUS": {"relative_speed": 9}})
    cluster = read_nodes(write(TABLES["own"]["text"]), own)
    assert [each.name for each in cluster.gpu_types] == ["ABACUS", "a100", "t4"]
    assert not any("unknown speed" in sentence for sentence in cluster.assumptions)


@pytest.mark.parametrize(("text", "old", "new", "reason"), DEFECTS)
def test_malformed(write, text, old, new, reason):
    assert old in text, "the change changes nothing"
    assert_refused(read, write(text.replace(old, new, 1)), reason)


def test_an_empty_file(write):
    assert_refused(read, write(""), "is empty")
