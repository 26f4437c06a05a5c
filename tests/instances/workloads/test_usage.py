"""The reader of usage series."""

import gzip

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.instances.workloads.usage import read_usage
from tests.conftest import assert_refused
from tests.instances.workloads.published import published
from tests.tables import tables

HEADER = "time,vc,total_gpu_num,running_gpu_num,pending_gpu_num\n"


def series(minutes, running=lambda minute: 10):
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


TABLES = tables(__file__)
RATES = TABLES["rates"]


def test_request_rates_by_hand(write):
    """Needs are 60/60 + 8/8 = 2, 30/60 + 2/8 = 0.75 and 15/60 + 4/8 = 0.75 shares of a service."""
    demand = read_usage(write(RATES))
    assert demand.step_s == 600
    assert demand.busy_share == pytest.approx((1, 0.375, 0.375))
    model, left_out, repeated = demand.assumptions
    assert "serve 120 of large or 16 of small requests per second" in model
    assert left_out == "Services with a shorter series are left out: brief."
    assert "0.0208 days, and is repeated" in repeated
    scaled = RATES.replace(",8.0", ",80").replace("600,2", "600,20").replace("1200,4", "1200,40")
    assert read_usage(write(scaled)).busy_share == pytest.approx(demand.busy_share)


DEFECTS = [
    pytest.param(valid, *defect, id=name)
    for valid, table in ((series(5), "defects"), (RATES, "defects_of_rates"))
    for name, defect in TABLES[table].items()
]


@pytest.mark.parametrize(("valid", "old", "new", "reason"), DEFECTS)
def test_malformed(write, valid, old, new, reason):
    text = new if old == "all" else valid + new if old == "end" else valid.replace(old, new)
    assert text != valid
    assert_refused(read_usage, write(text), reason)


def test_what_cannot_be_read(write):
    path = write(b"\x1f\x8b no")
    assert_refused(read_usage, path, "is a damaged or truncated gzip file")
    assert_refused(read_usage, path.with_name("absent.csv"), "cannot be read")
    assert_refused(read_usage, write(series(1)), "has only one moment")


@pytest.mark.parametrize("step_s", [0, 90])
def test_bad_steps(write, step_s):
    with pytest.raises(FieldError, match=f"step_s is {step_s}: must be"):
        read_usage(write(series(5)), step_s=step_s)


def test_published_request_rates():
    """Three services for two weeks; the troughs are those of the day and night of inference."""
    demand = read_usage(published("servegen_request_rates_10min.csv.gz"))
    assert len(demand.busy_share) == 14 * 24 * 6
    assert (min(demand.busy_share), max(demand.busy_share)) == (pytest.approx(0.22, abs=0.01), 1)
    assert "left out: multimodal_mm-image, reason_deepseek-r1" in demand.assumptions[1]


def test_published_series():
    demand = read_usage(published("helios_earth_vc_usage_1min_2020-05.csv.gz"))
    assert len(demand.busy_share) == 31 * 24 * 12
    # 856 GPUs, 571 of them running in the mean.
    assert sum(demand.busy_share) / len(demand.busy_share) == pytest.approx(571 / 856, abs=0.001)
