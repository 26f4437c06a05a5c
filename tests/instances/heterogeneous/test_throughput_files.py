"""Tables of throughput in files of users: what is read, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import InputError, UserError
from lyra_opt.instances.heterogeneous.clusters import known_gpu_types
from lyra_opt.instances.heterogeneous.throughput_files import (
    THROUGHPUTS,
    gavel_throughputs,
    load_throughputs,
    parse_throughputs,
)
from tests.tables import tables

TABLES = tables(__file__)


TABLE = TABLES["example"]


def test_names(tmp_path):
    """The toolkit's own are known by name, and a name that is none is told with them."""
    assert THROUGHPUTS.names() == ["gavel"]
    assert load_throughputs("gavel") is gavel_throughputs()
    with pytest.raises(
        UserError, match=r"'other': neither a CSV file nor a known table; known: gavel"
    ):
        load_throughputs("other")
    with pytest.raises(InputError, match="cannot be read"):
        load_throughputs(tmp_path)


def test_a_table_of_ones_own(write):
    """Any types; blank cells are left out; the first type is the reference."""
    path = write(TABLE, "measured.csv")
    table = load_throughputs(path)
    assert (table.name, table.reference, table.gpu_types) == ("measured", "a100", ("a100", "mine"))
    assert table.reference_speed == pytest.approx(1555 / 900)
    assert [(kind.name, kind.gang) for kind in table.job_types] == [
        ("GPT-4", 1),
        ("GPT-4", 8),
        ("Diffusion", 1),
    ]
    assert table.job_types[1].throughput == {"a100": 70.0}
    assert table.job_types[1].spread_throughput == {"a100": 40.0}
    assert table.job_types[2].throughput == {"a100": 2.5, "mine": 0.0}


def test_job_types_without_a_rate_on_the_reference_are_left_out():
    """What runs beside them too; results name them."""
    rows = "GPT,4,1,,,10,30\nOld,2,1,,,,5\nOlder,,1,,,0,5\nGPT,4,1,Old,2,5,5\nOld,2,1,GPT,4,1,1\n"
    header = "model,batch_size,gpus,beside_model,beside_batch_size,a100,k80\n"
    table = parse_throughputs(header + rows, "mine.csv", name="mine")
    assert [kind.name for kind in table.job_types] == ["GPT-4"]
    assert table.packed == {}
    assert table.remarks(()) == (
        "Left out of table mine, because they have no rate on the reference a100: "
        "Old-2 on 1 GPUs, Older on 1 GPUs.",
    )


def test_reference_of_ones_own(write):
    """It comes first, and its speed is that of its definition."""
    path = write("model,batch_size,gpus,mine,a100\nGPT,4,1,30,10\n", "measured.csv")
    assert load_throughputs(path).reference_speed is None
    own = known_gpu_types({"mine": {"relative_speed": 5}})
    table = load_throughputs(path, gpu_types=own)
    assert table.reference_speed == 5
    assert table.job_types[0].spread_throughput is None


HEADER = "model,batch_size,gpus,a100"


@pytest.mark.parametrize(("text", "message"), TABLES["damaged_tables"])
def test_damage_is_named(text, message):
    """One line with the file, the row, the column and the rule."""
    with pytest.raises(InputError) as caught:
        parse_throughputs(text, "mine.csv", name="mine")
    assert str(caught.value).startswith("mine.csv: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@given(
    text=st.text(alphabet=' ,\n"01a-.', max_size=60),
    header=st.sampled_from(["", f"{HEADER}\n", f"{HEADER},b,b_unconsolidated\n"]),
)
def test_any_text_is_a_table_or_one_error(text, header):
    """No other exception leaves the parser, and what it takes keeps the rules of a table."""
    try:
        table = parse_throughputs(header + text, "mine.csv", name="mine")
    except InputError:
        return
    assert all(kind.throughput[table.reference] > 0 for kind in table.job_types)


BESIDE = TABLES["beside"]


def test_rates_beside_another_job():
    """They are of pairs of kinds, and reach the jobs of an instance by their kinds."""
    table = parse_throughputs(BESIDE, "mine.csv", name="mine")
    assert [kind.name for kind in table.job_types] == ["GPT-4", "Diffusion"]
    a100 = [known_gpu_types()["a100"]]
    jobs = [
        table.gang_of(name, kind, gang=1, reference_s=9.0, release_s=0.0, gpu_types=a100)
        for name, kind in zip("ab", table.job_types, strict=True)
    ]
    rates = {(r.kind, r.beside): dict(r.throughput) for r in table.packed_rates(jobs, a100)}
    assert rates == {
        ("GPT-4 on 1", "Diffusion on 1"): {"a100": 8.0},
        ("Diffusion on 1", "GPT-4 on 1"): {"a100": 2.0},
        ("GPT-4 on 1", "GPT-4 on 1"): {"a100": 0.0},
    }
    assert table.packed_rates(jobs[:1], a100)[0].beside == "GPT-4 on 1"
    larger = table.gang_of(
        "c", table.job_types[0], gang=2, reference_s=9.0, release_s=0.0, gpu_types=a100
    )
    assert larger.kind is None, "nothing was measured of two on so many GPUs"


MEASURED = TABLES["measurements"]


def test_measurements_as_gavel_keeps_them(write):
    """Kinds, spread rates and pairs of one JSON file; the reference is V100."""
    path = write(json.dumps(MEASURED), "simulation_throughputs.json")
    table = load_throughputs(path)
    assert (table.name, table.reference) == ("simulation_throughputs", "v100")
    assert table.gpu_types == ("k80", "v100")
    gpt, a3c, pair = table.job_types
    assert (gpt.model, gpt.batch_size, gpt.throughput) == ("GPT", 4, {"k80": 1.5, "v100": 10})
    assert (a3c.name, a3c.gang, a3c.spread_throughput) == ("A3C", 1, {})
    assert (pair.gang, pair.spread_throughput) == (2, {"v100": 4})
    assert table.packed == {(1, "GPT-4", "A3C"): {"v100": 8}, (1, "A3C", "GPT-4"): {"v100": 2.5}}


@pytest.mark.parametrize(("document", "message"), TABLES["damaged_measurements"])
def test_damaged_measurements_are_named(document, message, write):
    """One line with the file and the key."""
    path = write(json.dumps(document), "damaged.json")
    with pytest.raises(InputError) as caught:
        load_throughputs(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
