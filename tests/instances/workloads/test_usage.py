"""The reader of usage series."""

import gzip

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.instances.workloads.usage import read_usage
from tests.conftest import assert_refused
from tests.instances.workloads.published import published

HEADER = "time,vc,total_gpu_num,running_gpu_num,pending_gpu_num\n"


def series(minutes: int, running=lambda minute: 10) -> str:
    """Return a series of two virtual clusters, the second of them all idle."""
    rows = [f"2020-05-01 00:{m:02d}:00,a,30,{running(m)},0\n" for m in range(minutes)]
    rows += [f"2020-05-01 00:{m:02d}:00,b,10,0,0\n" for m in range(minutes)]
    return HEADER + "".join(rows)


def test_busy_share_of_all_clusters_in_steps_of_five_minutes(write):
    demand = read_usage(write(series(12, running=lambda minute: 10 if minute < 5 else minute)))
    assert demand.name == "trace"
    assert demand.step_s == 300
    assert demand.busy_share == pytest.approx((10 / 40, 7 / 40))  # minutes 10 and 11 are no step
    assert "its jobs are not inference" in demand.assumptions[0]
    assert "is repeated" in demand.assumptions[1]


def test_other_steps_and_gzip(write):
    path = write(gzip.compress(series(4, running=lambda minute: minute).encode()), "u.csv.gz")
    assert read_usage(path, step_s=60).busy_share == pytest.approx((0, 1 / 40, 2 / 40, 3 / 40))
    assert read_usage(path, step_s=120).busy_share == pytest.approx((0.5 / 40, 2.5 / 40))
    assert read_usage(path, step_s=3600).busy_share == pytest.approx((1.5 / 40,))


def test_rows_in_any_order(write):
    lines = series(10).splitlines()
    shuffled = "\n".join([lines[0], *reversed(lines[1:])])
    assert read_usage(write(shuffled)) == read_usage(write(series(10)))


ROW = "2020-05-01 00:00:00,a,30,10,0\n"
MALFORMED = {
    "missing file": (None, "cannot be read"),
    "empty": ("", "the file is empty"),
    "not gzip": (b"\x1f\x8b no", "is a damaged or truncated gzip file"),
    "header alone": (HEADER, "has a header, but no rows"),
    "missing column": (series(5).replace("running", "busy"), "column running_gpu_num is missing"),
    "column twice": (HEADER.replace("vc", "time") + ROW, "column time occurs more than once"),
    "negative": (series(5).replace(",30,10", ",30,-10", 1), 'running_gpu_num is "-10": must be'),
    "NaN": (series(5).replace(",30,10", ",nan,10", 1), 'row 2, column total_gpu_num is "nan"'),
    "huge": (series(5).replace(",30,10", f",{'9' * 5000},1", 1), "row 2, column total_gpu_num is"),
    "more than there are": (series(5).replace(",30,10", ",9,10", 1), "must be at most total_gpu_"),
    "no GPUs": (
        HEADER + ROW.replace("30,10", "0,0"),
        "must be above 0 for at least one virtual cluster",
    ),
    "time": (series(5).replace("2020-05-01 00:00:00", "noon"), 'row 2, column time is "noon"'),
    "zone": (series(5).replace("00:00:00", "00:00:00+08:00"), "must have no time zone"),
    "spelt twice": (series(5) + ROW.replace(" ", "T"), "must have no time zone"),
    "short row": (HEADER + "2020-05-01 00:00:00,a\n", "row 2 has 2 fields, but the header has 5"),
    "gap": (
        series(5).replace("00:03:00", "00:09:00"),
        "not equally far apart: no moment is 0:01:00",
    ),
    "one moment": (series(1), "has only one moment"),
    "quotes": (HEADER + '"', "is not valid CSV"),
}


@pytest.mark.parametrize("defect", MALFORMED)
def test_malformed(write, tmp_path, defect):
    content, reason = MALFORMED[defect]
    path = tmp_path / "absent.csv" if content is None else write(content)
    assert_refused(read_usage, path, reason)


@pytest.mark.parametrize("step_s", [0, 90])
def test_bad_steps(write, step_s):
    with pytest.raises(FieldError, match=f"step_s is {step_s}: must be"):
        read_usage(write(series(5)), step_s=step_s)


def test_published_series():
    demand = read_usage(published("helios_earth_vc_usage_1min_2020-05.csv.gz"))
    assert len(demand.busy_share) == 31 * 24 * 12
    # 856 GPUs, 571 of them running in the mean.
    assert sum(demand.busy_share) / len(demand.busy_share) == pytest.approx(571 / 856, abs=0.001)
