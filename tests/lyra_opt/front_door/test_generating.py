"""`lo.generate`: one instance, or the product of what is listed."""

import numpy as np
import pandas as pd
import pytest

import lyra_opt as lo
from lyra_opt.instances import family
from tests.tables import tables


def test_scalars_give_one_instance():
    """The same one as on the command line."""
    fleet = lo.generate("reclaim", "messy-dist", servers=20, reclaim=5, seed=3)
    assert fleet == family.generate("reclaim", "messy-dist", servers=20, reclaim=5, seed=3)
    assert fleet.name == "messy-dist-v1-s20-k5-seed3"
    assert lo.generate("reclaim", "messy-dist", servers=20, reclaim=5).name.endswith("seed0")


def test_lists_give_their_product_in_order():
    """The last parameter varies faster than the first, and seeds the fastest."""
    fleets = lo.generate(
        "reclaim", "rnd-dist", servers=[10, 20], off_loan_percent=(0, 10), seeds=range(2)
    )
    assert [fleet.name.removeprefix("rnd-dist-v1-") for fleet in fleets] == [
        *("s10-k3-seed0", "s10-k3-seed1", "s10-k3-offloan10-seed0", "s10-k3-offloan10-seed1"),
        *("s20-k6-seed0", "s20-k6-seed1", "s20-k6-offloan10-seed0", "s20-k6-offloan10-seed1"),
    ]


@pytest.mark.parametrize(
    ("listed", "count"), [({"seeds": [4]}, 1), ({"servers": [9]}, 1), ({"seeds": []}, 0)]
)
def test_a_list_gives_a_list_whatever_its_length(listed, count):
    """Code that goes through the result must not break where one value is left."""
    assert len(lo.generate("reclaim", "rnd-dist", **({"servers": 8} | listed))) == count


def test_numbers_of_numpy_and_pandas_are_taken():
    """They come out of arrays and data frames all the time."""
    frame = pd.DataFrame({"servers": [8, 9]})
    fleets = lo.generate("reclaim", "rnd-dist", servers=frame.servers, seeds=np.arange(2))
    assert len(fleets) == 4
    one = lo.generate("reclaim", "rnd-dist", servers=np.int64(8), seed=np.uint8(1))
    assert one == fleets[1]


def test_names_in_one_text_are_one_value(write):
    """Several such texts are listed as any values are; a path is no list of its parts."""
    makers = {"jobs": 3, "gpu_types": ["v100,k80", "v100"]}
    assert len(lo.generate("heterogeneous", "offline", **makers)) == 2
    trace = write("job_id,submit_time_s,duration_s,gpus\na,0,90,1\nb,10,90,2\n", "t.csv")
    fleet = lo.generate("reclaim", "snapshot", servers=2, reclaim=1, trace=trace)
    assert fleet.name.startswith("snapshot-v1-t-bf")


def test_a_share_of_the_servers_is_given_back_by_default():
    """Where a fleet has servers that it could be a share of."""
    assert lo.generate("reclaim", "span", servers=20).reclaim_servers == 6
    assert lo.generate("reclaim", "span", servers=1).reclaim_servers == 1


@pytest.mark.parametrize(("arguments", "message"), tables(__file__)["refused"])
def test_refused(arguments, message):
    """In the words of Python: options of the command line are its arguments."""
    with pytest.raises(lo.UserError, match=message):
        lo.generate("reclaim", "rnd-dist", **arguments)


def test_seeds_that_say_nothing_are_refused():
    """As `--count` is: five times the same instance is no sample."""
    with pytest.raises(lo.UserError, match="seeds has 5 entries: must have 1 for family decoy"):
        lo.generate("reclaim", "decoy", reclaim=2, seeds=range(5))
    assert len(lo.generate("reclaim", "decoy", reclaim=[2, 3])) == 2
