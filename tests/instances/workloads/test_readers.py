"""Readers of job traces: example files in every layout, and the defects that each reader refuses.

``readers.toml`` holds the files, the jobs that they describe, and their defects.
"""

import csv
import gzip
import io

import pandas as pd
import pytest

from lyra_opt.core.errors import InputError
from lyra_opt.instances.heterogeneous.throughput_files import gavel_throughputs
from lyra_opt.instances.traces import read_trace
from lyra_opt.instances.workloads.readers import LAYOUTS as READERS
from lyra_opt.instances.workloads.readers import read_workload, workload_of_frame
from tests.conftest import assert_refused
from tests.instances.workloads.published import published
from tests.tables import tables

TABLES = tables(__file__)
LAYOUTS = {layout: table["text"] for layout, table in TABLES.items()}
"""Example files by layout, with the number of columns where a layout has several."""

OURS, PAI_TASKS, SWF = (
    LAYOUTS[name] for name in ("own", "alibaba-pai-2020", "standard-workload-format")
)
ABSENT = {"deadline_s": 0, "tenant": "", "gpu_types": (), "gpu_thousandths": 0, "priority": 0}
ABSENT |= {"model": "", "steps": 0, "weight": 0}
"""Fields of jobs that files can lack, each with what ``readers.toml`` has for a lacking one."""

PAI_JOBS = TABLES["alibaba-pai-2020"]["defects"]["the job table alone"][0]


def having(key):
    """Run a test for every layout whose table has a key; give it the layout's name."""
    return pytest.mark.parametrize(
        "layout", [name for name, table in TABLES.items() if key in table]
    )


def rows_of(workload):
    """Return (id, submission, running time, GPUs), after what holds for every layout."""
    for job in workload.jobs:
        assert job.max_workers == job.min_workers
        assert job.gpus_per_worker == 1
    return [(job.id, job.submit_s, job.duration_s, job.min_gpus) for job in workload.jobs]


@having("jobs")
def test_jobs_of_a_layout(write, layout):
    """The workload has the jobs of the example file and the name of the file."""
    table = TABLES[layout]
    workload = read_workload(write(table["text"]))
    assert workload.name == "trace"
    assert rows_of(workload) == [tuple(row) for row in table["jobs"]]
    for field, absent in ABSENT.items():
        if field in table:
            found = [getattr(job, field) or absent for job in workload.jobs]
            assert found == [tuple(row) if absent == () else row for row in table[field]], field


@having("said")
def test_assumptions_of_a_layout(write, layout):
    """A workload says which jobs are left out and how its file is read."""
    assumptions = "\n".join(read_workload(write(LAYOUTS[layout])).assumptions)
    for said in TABLES[layout]["said"]:
        assert said in assumptions


@having("of")
def test_jobs_of_one_virtual_cluster(write, layout):
    for name, jobs in TABLES[layout]["of"].items():
        workload = read_workload(write(LAYOUTS[layout]), vc=name)
        assert rows_of(workload) == [tuple(row) for row in jobs]
        assert f"Only the jobs of virtual cluster {name}." in workload.assumptions


def test_frames_are_read_as_files_are(write):
    """Moments, counts beside missing values, and what is not known of a job, are as in a file."""
    text = (
        "job_id,submit_time,duration_s,gpus,model,batch_size,deadline_s,gpu_types,user\n"
        "a,2020-06-09 18:41:01,10,1,ResNet-18,128,60.5,V100|P100,u\n"
        "b,2020-06-09 18:41:02,10.25,2,,,,,u\n"
    )
    path = write(text)
    frame = pd.read_csv(path)
    assert frame.batch_size.dtype == float
    of_file = read_workload(path)
    for each in (frame, frame.assign(submit_time=pd.to_datetime(frame.submit_time))):
        assert workload_of_frame(each, name="trace") == of_file
    with pytest.raises(InputError, match=r"^data frame: row 1, column gpus is \"0\""):
        workload_of_frame(frame.assign(gpus=[1, 0]))
    with pytest.raises(InputError, match="^data frame: column gpus is missing, is it GPU"):
        workload_of_frame(frame.rename(columns={"gpus": "GPU"}))
    with pytest.raises(InputError, match="^data frame: column submit_time_s has dates"):
        workload_of_frame(frame.assign(submit_time_s=pd.to_datetime(frame.submit_time)))
    with pytest.raises(InputError, match=r"^data frame: row 1, column gpus is \"1.5\""):
        workload_of_frame(frame.assign(gpus=[8, 1.5]))
    with pytest.raises(InputError, match="^data frame: row 1, column gpus is empty"):
        workload_of_frame(frame.assign(gpus=[8, None]))


@pytest.mark.parametrize("column", ["num_inst", "Worker_Num", "scale_factor"])
@pytest.mark.parametrize(
    "layout", ["own", "helios", "acme", "tiresias", "elasticflow", "adaptdl", "alibaba-openb-2023"]
)
def test_columns_that_multiply_the_demand_are_refused(write, layout, column):
    """By every table that does not apply them, whether it was named or recognised."""
    header, *rows = LAYOUTS[layout].splitlines()
    text = "\n".join([f"{header},{column}", *(f"{row},4" for row in rows)])
    for named in (None, layout):
        with pytest.raises(InputError, match=f"row 1: column {column} multiplies the GPUs"):
            read_workload(write(text), layout=named)


def test_generic_columns_are_no_layout_until_one_is_named(write):
    path = write("job_id,num_gpu,submit_time,duration,user\na,1.0,0,10,u\nb,0,0,10,u\n")
    with pytest.raises(InputError, match=r"jobs\.layout \(acme, .*tiresias\)"):
        read_workload(path)
    workload = read_workload(path, layout="tiresias")
    assert rows_of(workload) == [("a", 0, 10, 1)]
    assert "Columns ignored: user." in workload.assumptions
    with pytest.raises(
        InputError, match="row 1: lacks the columns start_time, end_time, gpu_num, vc of"
    ):
        read_workload(path, layout="helios")


@having("ignored")
def test_ignored_columns_are_listed(write, layout):
    ignored = TABLES[layout]["ignored"]
    said = [each for each in read_workload(write(LAYOUTS[layout])).assumptions if "ignored" in each]
    assert said == ([f"Columns ignored: {ignored}."] if ignored else [])


@having("bad_rows")
def test_bad_rows_are_refused_or_dropped_and_counted(write, layout):
    """A job with several rows, one of them bad, is dropped as a whole: its demand is not known."""
    table = TABLES[layout]
    text = table["text"].removesuffix("\n]\n") + table["bad_rows"]
    with pytest.raises(InputError, match=r"row [0-9]+|\[[0-9]\]"):
        read_workload(write(text))
    workload = read_workload(write(text), drops_bad_rows=True)
    good = [row for row in rows_of(read_workload(write(table["text"]))) if row[0] != "j4"]
    assert rows_of(workload) == good
    assert (
        f"{table['bad']} with a value that breaks its rule (the first: " in workload.assumptions[-1]
    )


@pytest.mark.parametrize("value", ["-2", "-1.5", "-x"])
@pytest.mark.parametrize("place", range(18))
def test_negative_numbers_of_swf_are_refused(write, place, value):
    """In every column, and in rows that are left out too; -1 alone says that it is not known."""
    values = ["9", "100", "5", "60", *["-1"] * 6, "2", *["-1"] * 7]
    values[place] = value
    with pytest.raises(InputError, match=rf'row 1, column .* is "{value}": must be at least 0, or'):
        read_workload(write(" ".join(values) + "\n" + SWF), layout="standard-workload-format")


@pytest.mark.parametrize(("sign", "shown"), [(";", "';'"), ("\t", "tabs")])
def test_other_separators_are_named(write, sign, shown):
    """Where a table is read, and where no layout recognises it."""
    path = write(OURS.replace(",", sign))
    for read in (read_workload, read_trace):
        with pytest.raises(InputError, match=f"columns are separated by {shown}: use ','"):
            read(path)


@pytest.mark.parametrize("asked", ["pai_task_table.csv", "pai_job_table.csv"])
def test_pai_tables_from_either(write, asked):
    write(PAI_TASKS, "pai_task_table.csv")
    write(PAI_JOBS, "pai_job_table.csv")
    workload = read_workload(write("", "other").with_name(asked))
    # j1: 2 x 50 % + 3 x 25 % of a GPU are 2 whole ones; j4 has no submission in the job table.
    assert rows_of(workload) == [("j1", 0, 95, 2), ("j4", 310, 50, 4), ("j6", 410, 50, 1)]
    assert [job.tenant for job in workload.jobs] == ["u", "w", None]
    assert "Columns ignored: plan_cpu, plan_mem, gpu_type, inst_id." in workload.assumptions
    left_out = "2 that never ran or had not ended; 1 without GPUs"
    assert workload.assumptions[-1] == f"Jobs of the trace left out: {left_out}."


def test_models_are_named_as_tables_of_throughput_know_them(write):
    """So that a trace's jobs are found there."""
    known = {job_type.name for job_type in gavel_throughputs().job_types}
    for layout in ("gavel 10", "gavel 7"):
        assert {job.model for job in read_workload(write(LAYOUTS[layout])).jobs} <= known


def test_gavel_of_seven_columns(write):
    """Running times by hand, from the published steps a second of a V100."""
    workload = read_workload(write(LAYOUTS["gavel 7"]))
    table = gavel_throughputs()
    rate = {job_type.name: job_type for job_type in table.job_types if job_type.gang == 1}
    pair = table.find_type("ResNet-18", 128, 2).throughput["v100"]
    expected = [
        ("row-2", 0, 800 / rate["CycleGAN"].throughput["v100"], 1),
        ("row-3", 8, 900 / (4 * rate["Recommendation-512"].throughput["v100"]), 4),
        ("row-1", 18.5, 10_000 / pair, 2),
    ]
    for found, (name, submit_s, run_s, gpus) in zip(rows_of(workload), expected, strict=True):
        assert found == (name, submit_s, pytest.approx(run_s, abs=1e-3), gpus)
    assert [job.steps for job in workload.jobs] == [800, 900, 10_000]
    assert all(job.deadline_s is None for job in workload.jobs)


@pytest.mark.parametrize("layout", ["gavel 9", "gavel 10"])
def test_gavel_of_nine_and_ten_columns(write, layout):
    """Priority is the weight, and an SLO is relative to the running time."""
    workload = read_workload(write(LAYOUTS[layout]))
    first, second = workload.jobs
    assert (first.weight, first.deadline_s) == (2.5, None)
    assert second.weight == 1
    assert second.deadline_s == pytest.approx(1.2 * second.duration_s, abs=2e-3)
    assert (first.submit_s, second.submit_s) == (0, 2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_layout_is_surest(layout):
    """That of the file, and no other one is as sure."""
    text = LAYOUTS[layout]
    header = [name.strip() for name in next(csv.reader(io.StringIO(text)))]
    found = sorted(
        ((of.likeness(text, header), name) for name, of in READERS.all().items()), reverse=True
    )
    assert found[0][1] == layout.partition(" ")[0]
    assert found[0][0] > found[1][0]


def variants(key, results):
    """Return (text, *results) for every changed example file in the tables `key`."""
    for layout, table in TABLES.items():
        for name, row in table.get(key, {}).items():
            change = row[:-results]
            text = change[0]
            if len(change) == 2:
                old, new = change
                assert old in table["text"], "the change changes nothing"
                text = table["text"].replace(old, new, 1) if old else table["text"] + new
            yield pytest.param(text, *row[-results:], id=f"{layout}: {name}")


@pytest.mark.parametrize(("text", "jobs", "said"), [*variants("others", 2)])
def test_other_files(write, text, jobs, said):
    """Repeated ids, optional headers and remarks, and attempts that look as if they never end."""
    workload = read_workload(write(text, "cluster_job_log"))
    assert workload.name == "cluster_job_log"
    assert rows_of(workload) == [tuple(row) for row in jobs]
    assert said in workload.assumptions[-1]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read"),
        ("", "the file is empty"),
        (b"\x1f\x8bnot gzip", "is a damaged or truncated gzip file"),
        # A fixed time in the header keeps the name of this test the same in all workers.
        (gzip.compress(OURS.encode(), mtime=0)[:-9], "is a damaged or truncated gzip file"),
        (b"job_id\xff", "is not UTF-8 text"),
        *variants("defects", 1),
    ],
)
def test_malformed(write, tmp_path, content, reason):
    path = tmp_path / "absent.csv" if content is None else write(content)
    assert_refused(read_workload, path, reason)


@pytest.mark.parametrize(
    "content", ["hello", "a,b\n1,2\n", '{"jobs": []}', "1,2,3,4,5,6\n", "<html></html>"]
)
def test_an_unknown_layout_lists_the_known_ones(write, content):
    with pytest.raises(InputError, match="is not a job trace in a known layout") as caught:
        read_workload(write(content))
    assert "jobs.layout" in str(caught.value)
    for layout in LAYOUTS:
        assert layout.partition(" ")[0] in str(caught.value)


@having("nowhere")
def test_no_such_cluster(write, layout):
    with pytest.raises(InputError) as caught:
        read_workload(write(LAYOUTS[layout]), vc="nowhere")
    assert TABLES[layout]["nowhere"] in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "jobs", "gpu_hours", "days"),
    [
        ("philly_jobs.csv.gz", 82_247, 978_078, 109),
        ("microsoft_itp2021_jobs.csv.gz", 69_351, 1_632_720, 60),
    ],
)
def test_published_traces(file, jobs, gpu_hours, days):
    workload = read_workload(published(file))
    left_out = jobs - len(workload.jobs)
    assert left_out < jobs / 1000  # those that ran for no time
    assert any(f"{left_out:,} that ran for no time" in s for s in workload.assumptions) == (
        left_out > 0
    )
    assert workload.gpu_work_s / 3600 == pytest.approx(gpu_hours, rel=1e-6)
    assert workload.submission_span_s / 86_400 == pytest.approx(days, abs=1)


def test_a_cluster_of_a_published_trace():
    path = published("microsoft_itp2021_jobs.csv.gz")
    workload = read_workload(path, vc="cluster07")
    assert 0 < len(workload.jobs) < 69_351
