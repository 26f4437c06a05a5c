"""Tables of throughput in files of users: what is read, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import InputError, UserError
from lyra_opt.instances.heterogeneous.gpu_types import gpu_types
from lyra_opt.instances.heterogeneous.throughput_files import (
    THROUGHPUTS,
    gavel_throughputs,
    load_throughputs,
    parse_throughputs,
)

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """model,batch_size,gpus,a100,mine,a100_unconsolidated
GPT,4,1,10,30,10
GPT,4,8,70,,40
Diffusion,,1,2.5,0,2.5
"""


def test_names(tmp_path: Path) -> None:
    """The toolkit's own are known by name, and a name that is none is told with them."""
    assert THROUGHPUTS.names() == ["gavel"]
    assert load_throughputs("gavel") is gavel_throughputs()
    with pytest.raises(UserError, match=r"'other': no such CSV file or table; known: gavel"):
        load_throughputs("other")
    with pytest.raises(InputError, match="cannot be read"):
        load_throughputs(tmp_path)


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    """Any types; blank cells are left out; the first type is the reference."""
    path = tmp_path / "measured.csv"
    path.write_text(TABLE)
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


def test_reference_of_ones_own(tmp_path: Path) -> None:
    """It is named, and its speed is that of its definition."""
    path = tmp_path / "measured.csv"
    path.write_text("model,batch_size,gpus,a100,mine\nGPT,4,1,10,30\n")
    assert load_throughputs(path, reference="mine").reference_speed is None
    own = gpu_types({"mine": {"relative_speed": 5}})
    table = load_throughputs(path, reference="mine", gpu_types=own)
    assert table.reference_speed == 5
    assert table.job_types[0].spread_throughput is None
    with pytest.raises(InputError, match=r"measured.csv: row 1 has no column for the reference x"):
        load_throughputs(path, reference="x")


HEADER = "model,batch_size,gpus,a100"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,gpus,a100\n", "row 1: column batch_size is missing; a table has model, batch_si"),
        ("model,batch_size,gpus\n", "row 1 has no column for a type of GPUs"),
        (f"{HEADER},a100\n", "row 1: column a100 occurs more than once"),
        (f"{HEADER},\n", "row 1 has a column without a name"),
        (f"{HEADER},b_unconsolidated\n", "column b_unconsolidated has no column b beside it"),
        (f"{HEADER}\n", "has a header, but no rows"),
        (f"{HEADER}\nGPT,4,1\n", "row 2 has 3 fields, but the header has 4"),
        (f"{HEADER}\n,4,1,1\n", 'row 2, column model is "": must not be empty'),
        (f"{HEADER}\nGPT,4,,1\n", 'row 2, column gpus is "": must not be empty'),
        (f"{HEADER}\nGPT,4,0,1\n", 'row 2, column gpus is "0": must be an integer from 1'),
        (f"{HEADER}\nGPT,4.5,1,1\n", 'column batch_size is "4.5": must be an integer from 1'),
        (f"{HEADER}\nGPT,4,1,fast\n", 'row 2, column a100 is "fast": must be steps a second'),
        (f"{HEADER}\nGPT,4,1,-1\n", 'row 2, column a100 is "-1": must be steps a second from 0'),
        (f"{HEADER}\nGPT,4,1,nan\n", 'row 2, column a100 is "nan": must be steps a second'),
        (f"{HEADER}\nGPT,4,1,1_0\n", 'row 2, column a100 is "1_0": must be steps a second'),
        (f"{HEADER}\nGPT,4,1,1\nA,,1,0\n", 'row 3, column a100 is "0": must be above 0, for it'),
        (f"{HEADER}\nGPT,4,1,1\nGPT,4,1,2\n", 'row 3, column model is "GPT": stands twice on 1'),
        (f'{HEADER}\n"GPT,4,1,1\n', "is not valid CSV"),
    ],
)
def test_damage_is_named(text: str, message: str) -> None:
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
def test_any_text_is_a_table_or_one_error(text: str, header: str) -> None:
    """No other exception leaves the parser, and what it takes keeps the rules of a table."""
    try:
        table = parse_throughputs(header + text, "mine.csv", name="mine")
    except InputError:
        return
    assert all(kind.throughput[table.reference] > 0 for kind in table.job_types)
