"""The trace reader: what it reads exactly, and what it refuses."""

import csv
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import InputError
from lyra_opt.instances.traces import TraceJob, read_trace
from tests.conftest import assert_refused
from tests.tables import tables

TABLES = tables(__file__)


HEADER = "job_id,submit_time_s,duration_s,gpus\n"


def test_columns_in_any_order_with_others_between(write):
    trace = read_trace(write("gpus,vc,duration_s,job_id,submit_time_s\n8,x,2,a,1\n1,,3.5,b,0\n"))
    assert trace.name == "trace"
    assert trace.jobs == (TraceJob("b", 0, 3500, 1), TraceJob("a", 1000, 2000, 8, tenant="x"))


def test_gzip_is_told_by_content(write):
    text = f"{HEADER}a,0,1,1\n"
    plain = read_trace(write(text)).jobs
    assert read_trace(write(gzip.compress(text.encode()), "misnamed.csv")).jobs == plain
    compressed = read_trace(write(gzip.compress(text.encode()), "t.csv.gz"))
    assert (compressed.name, compressed.jobs) == ("t", plain)


@pytest.mark.parametrize(("text", "milliseconds"), TABLES["milliseconds"])
def test_times_are_exact_milliseconds(write, text, milliseconds):
    job = read_trace(write(f"{HEADER}a,{text},{text},1\n")).jobs[0]
    assert (job.submit_time_ms, job.duration_ms) == (milliseconds, milliseconds)


def test_equal_rows_are_kept_under_unique_ids(write):
    trace = read_trace(write(f"{HEADER}a,0,1,1\na,0,1,1\nb,0,1,1\na#3,0,1,1\n"))
    assert [job.job_id for job in trace.jobs] == ["a#2", "a#3#", "b", "a#3"]


def test_equal_times_keep_the_order_of_rows(write):
    trace = read_trace(write(f"{HEADER}c,5,1,1\na,5,1,1\nb,4,1,1\n"))
    assert [job.job_id for job in trace.jobs] == ["b", "c", "a"]


def test_byte_order_mark_blanks_and_empty_lines_are_passed_over(write):
    trace = read_trace(write(f"\ufeff{HEADER}\n a , 1 ,2, 3 \r\n\n"))
    assert trace.jobs == (TraceJob("a", 1000, 2000, 3),)


def test_quoted_fields(write):
    assert read_trace(write(f'{HEADER}"a,\nb",1,2,3\n')).jobs[0].job_id == "a,\nb"


def test_changed_file_is_read_again(write):
    path = write(f"{HEADER}a,0,1,1\n")
    before = read_trace(path)
    assert read_trace(path) is before
    write(f"{HEADER}a,0,1,1\nb,0,1,1\n")
    assert len(read_trace(path).jobs) == 2


MALFORMED = {
    **{
        defect: (text.replace("HEADER\n", HEADER), reason)
        for defect, (text, reason) in TABLES["malformed"].items()
    },
    "missing_file": (None, "cannot be read: No such file"),
    "huge_gpus": (f"{HEADER}a,0,1,{'9' * 5000}\n", "row 2, column gpus"),
    "not_utf8": (HEADER.encode() + b"\xff,0,1,1\n", "is not UTF-8"),
    "truncated_gzip": (gzip.compress(HEADER.encode() * 100)[:-12], "truncated gzip"),
    "huge_field": (f"{HEADER}{'a' * 200_000},0,1,1\n", "is not valid CSV: field larger"),
}


@pytest.mark.parametrize("defect", MALFORMED)
def test_malformed_trace(write, tmp_path, defect):
    content, reason = MALFORMED[defect]
    path = tmp_path / "missing.csv" if content is None else write(content)
    assert_refused(read_trace, path, reason)


def test_models_are_read_where_there_is_a_column(tmp_path):
    """A row that leaves it empty has none, and a job whose id is made unique keeps its own."""
    path = tmp_path / "models.csv"
    path.write_text(
        "job_id,model,submit_time_s,duration_s,gpus\na,mine,0,1,1\na, ,1,1,1\nb,bert,2,1,1\n"
    )
    found = [(job.job_id, job.model) for job in read_trace(path).jobs]
    assert found == [("a#2", "mine"), ("a#3", None), ("b", "bert")]
    path.write_text("job_id,model,model,submit_time_s,duration_s,gpus\na,x,y,0,1,1\n")
    with pytest.raises(InputError, match="column model occurs more than once"):
        read_trace(path)


NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="|"),
    min_size=1,
    max_size=5,
)
JOBS = st.builds(
    TraceJob,
    job_id=NAMES,
    submit_time_ms=st.integers(0, 10**14),
    duration_ms=st.integers(0, 10**14),
    gpus=st.integers(1, 10**9),
    model=st.none() | NAMES,
    weight=st.floats(1e-300, 1e300),
    deadline_ms=st.none() | st.integers(1, 10**14),
    gpu_types=st.lists(NAMES, max_size=3, unique=True).map(tuple),
    priority=st.just(0) | st.integers(-(2**31), 2**31 - 1),
)


@given(jobs=st.lists(JOBS, min_size=1, max_size=5, unique_by=lambda job: job.job_id))
def test_what_is_written_is_read(tmp_path_factory, jobs):
    """Every column, whatever the names, and to the millisecond."""
    path = tmp_path_factory.mktemp("written") / "trace.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        optional = ["model", "weight", "priority", "deadline_s", "gpu_types"]
        rows.writerow([*HEADER.strip().split(","), *optional])
        for job in jobs:
            deadline = "" if job.deadline_ms is None else job.deadline_ms / 1000
            times_s = job.submit_time_ms / 1000, job.duration_ms / 1000
            types = "|".join(job.gpu_types)
            wishes = job.weight, job.priority or "", deadline, types
            rows.writerow([job.job_id, *times_s, job.gpus, job.model, *wishes])
    trace = read_trace(path)
    assert trace.jobs == tuple(sorted(jobs, key=lambda job: job.submit_time_ms))
    assert trace.passed_over == ()
