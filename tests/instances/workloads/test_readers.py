"""The readers: every layout by a file made by hand, and what is refused of each."""

from __future__ import annotations

import csv
import gzip
import io
import json

import pandas as pd
import pytest

from lyra_opt.core.errors import InputError
from lyra_opt.instances.heterogeneous.throughput_files import gavel_throughputs
from lyra_opt.instances.traces import read_trace
from lyra_opt.instances.workloads.pollux import measured_runs
from lyra_opt.instances.workloads.readers import LAYOUTS as READERS
from lyra_opt.instances.workloads.readers import read_workload, workload_of_frame
from tests.conftest import assert_refused
from tests.instances.workloads.published import published


def rows_of(workload):
    """Return (id, submission, running time, GPUs), after what holds for every layout."""
    for job in workload.jobs:
        assert job.max_workers == job.min_workers
        assert job.gpus_per_worker == 1
    return [(job.id, job.submit_s, job.duration_s, job.min_gpus) for job in workload.jobs]


OURS = "job_id,submit_time_s,duration_s,gpus,vc\nb,130,20.5,8,x\na,100,10,1,y\nzero,110,0,2,x\n"

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
7,u,vc1,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:30,2020-06-09 18:45:36,246,3
6,u,vc2,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
8,u,vc1,0,1,1,COMPLETED,2020-06-09 18:42:00,2020-06-09 18:42:00,2020-06-09 18:43:00,60,0
9,u,vc1,8,1,1,CANCELLED,2020-06-09 18:43:00,,2020-06-09 18:43:10,,
"""

ACME = """\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,\
start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
dlc1,u,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,\
2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0
dlc2,u,1,8.0,96,100,100.0,Debug,COMPLETED,2023-05-17 19:00:58+08:00,2023-05-17 19:01:00+08:00,\
2023-05-17 19:02:00+08:00,,,62,2.0,496.0
cpu,u,1,0,96,100,100.0,Debug,COMPLETED,2023-05-17 19:00:58+08:00,2023-05-17 19:01:00+08:00,\
2023-05-17 19:02:00+08:00,,,62,2.0,0
"""

TIRESIAS = """\
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
0,1,10,606,vgg19,164,30
1,8,40,133,vgg11,147,23
"""

ITP = """\
job_id,submission_time,duration,num_gpu
6b2d9ccc,16566,3890,4
7c3e,16560,600,1
"""

PAI_SIMULATOR = """\
job_id,num_gpu,num_inst,submit_time,duration,gpu_type,user
a,2.0,4,100,10,T4,u
b,0.25,3,110,20,MISC,u
c,0.0,3,120,20,CPU,u
"""

ELASTICFLOW_SIMULATOR = """\
job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort
0,100,70000,resnet50,1600,256,8,1000,0
1,100,9000,vgg16,1600,64,8.0,1000,1
2,100,9000,vgg16,1600,64,0,1000,0
"""

ELASTICFLOW = """\
job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration
6b2d9ccc,16566,40285,bert,21347,64,4,3890
"""


def attempt(start, end, *gpus_of_servers):
    detail = [
        {"ip": f"m{n}", "gpus": [f"gpu{g}" for g in range(gpus)]}
        for n, gpus in enumerate(gpus_of_servers)
    ]
    return {"start_time": start, "end_time": end, "detail": detail}


def philly_job(jobid, *attempts, vc="ee9e8c", submitted="2017-10-07 01:11:39"):
    return {
        "status": "Pass",
        "vc": vc,
        "jobid": jobid,
        "attempts": list(attempts),
        "submitted_time": submitted,
        "user": "ce2f4c",
    }


PHILLY = [
    philly_job(
        "two-attempts",
        attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", 8),
        attempt("2017-10-07 01:13:30", "2017-10-09 06:53:12", 8, 4),
    ),
    philly_job("never", vc="other"),
    philly_job("running", attempt("2017-10-07 02:00:00", None, 1)),
    philly_job("lost", attempt("None", "2017-10-07 02:00:00", 1)),
    philly_job("no-gpus", attempt("2017-10-07 02:00:00", "2017-10-07 02:00:09")),
    philly_job(
        "first",
        attempt("2017-10-07 01:00:01", "2017-10-07 01:00:11", 1),
        vc="other",
        submitted="2017-10-07 01:00:00",
    ),
]

PAI_TASKS = """\
j1,ps,1.0,Terminated,110.0,200.0,600.0,29.3,,MISC
j1,worker,2.0,Terminated,120.0,210.0,600.0,29.3,50.0,MISC
j1,chief,3.0,Terminated,115.0,190.0,600.0,29.3,25.0,V100
j2,tensorflow,1.0,Running,300.0,,600.0,29.3,100.0,T4
j3,tensorflow,1.0,Terminated,300.0,310.0,600.0,29.3,0.0,
j4,worker,2.0,Failed,400.0,450.0,600.0,29.3,200.0,P100
j5,worker,,Waiting,,,600.0,29.3,100.0,P100
"""
PAI_JOBS = """\
j1,i1,u,Terminated,90.0,210.0
j2,i2,u,Running,290.0,
j3,i3,u,Terminated,290.0,310.0
j4,i4,u,Failed,,450.0
"""


GAVEL_7 = """\
ResNet-18 (batch size 128)\tpython3 main.py --b "128\t--num_steps\t1\t10000\t30.5\t2
CycleGAN\tpython3 gan.py\t--n\t0\t800\t12.0\t1
Recommendation (batch size 512)\tpython3 rec.py\t-n\t1\t900\t20\t4
ResNet-18 (batch size 7)\tpython3 main.py\t--num_steps\t1\t10000\t40\t1
A3C\tpython3 main.py\t--max-steps\t0\t77\t41\t0
"""
GAVEL_9 = """\
LM (batch size 20)\tpython main.py\t--steps\t1\t5000\t1\t2.5\t-1.000000\t7
LM (batch size 20)\tpython main.py\t--steps\t1\t5000\t1\t1\t1.2\t9
"""
GAVEL_10 = """\
LM (batch size 20)\tpython main.py\tlanguage_modeling\t--steps\t1\t5000\t1\t2.5\t-1.000000\t7
LM (batch size 20)\tpython main.py\tlanguage_modeling\t--steps\t1\t5000\t1\t1\t1.2\t9
"""

SWF = """\
; Version: 2.2
; Computer: a machine made up
  1 100  5  60  8 -1 -1  8 3600 -1 1 3 1 -1 1 -1 -1 -1
  2 110  0  30 -1 -1 -1 16 3600 -1 0 3 1 -1 1 -1 -1 -1
  3  90  9  20  4 -1 -1  4   60 -1 5 4 1 -1 1 -1 -1 -1

  4 120  9  -1 -1 -1 -1  4   60 -1 5 4 1 -1 1 -1 -1 -1
  5 130  9  11  2 -1 -1  4   60 -1 2 4 1 -1 1 -1 -1 -1
  6 140  9  11 -1 -1 -1 -1   60 -1 1 4 1 -1 1 -1 -1 -1
"""

ADAPTDL = """\
name,time,application,num_replicas,batch_size
cifar10-0,107,cifar10,6,2048
ncf-1,100,ncf,1,32768
mine-2,110,mine,1,32
"""

ADAPTDL_PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,20.5,8,164.0,6214e9
"""

OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,\
scheduled_time
p0,12000,16384,8,1000,,LS,Running,100,1000,110
p1,6000,12288,1,460,V100M16|V100M32|V100M32,LS,Failed,90,130,95
p2,6000,12288,1,1000,T4,BE,Pending,120,130,
p3,6000,12288,0,0,,BE,Running,125,140,126
"""


def test_own_columns(write):
    workload = read_workload(write(OURS))
    assert workload.name == "trace"
    assert rows_of(workload) == [("a", 0, 10, 1), ("b", 30, 20.5, 8)]
    assert workload.assumptions[-1] == "Jobs of the trace left out: 1 that ran for no time."


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
    with pytest.raises(InputError, match="^data frame: row 1: column gpus is missing"):
        workload_of_frame(frame.drop(columns="gpus"))


def test_own_columns_of_one_cluster(write):
    workload = read_workload(write(OURS), vc="x")
    assert rows_of(workload) == [("b", 0, 20.5, 8)]
    assert "Only the jobs of virtual cluster x." in workload.assumptions


def test_helios(write):
    workload = read_workload(write(HELIOS))
    assert rows_of(workload) == [("6", 0, 36848, 1), ("7", 26, 246, 4)]
    left_out = "1 that never ran or had not ended; 1 without GPUs"
    assert workload.assumptions[-1] == f"Jobs of the trace left out: {left_out}."
    assert rows_of(read_workload(write(HELIOS), vc="vc1")) == [("7", 0, 246, 4)]


def test_acme_times_zones_and_its_duration_that_counts_the_queue(write):
    workload = read_workload(write(ACME, "trace_kalos.csv"))
    assert workload.name == "trace_kalos"
    assert rows_of(workload) == [("dlc1", 0, 8, 64), ("dlc2", 0, 60, 8)]


def test_tiresias(write):
    assert rows_of(read_workload(write(TIRESIAS))) == [("0", 0, 164, 1), ("1", 30, 147, 8)]


def test_itp(write):
    expected = [("7c3e", 0, 600, 1), ("6b2d9ccc", 6, 3890, 4)]
    assert rows_of(read_workload(write(ITP))) == expected


def test_deadlines_of_elasticflow(write):
    """They are moments on the clock of submissions; a job of best effort has none."""
    workload = read_workload(write(ELASTICFLOW))
    assert rows_of(workload) == [("6b2d9ccc", 0, 3890, 4)]
    assert workload.jobs[0].deadline_s == 21347 - 16566
    workload = read_workload(write(ELASTICFLOW_SIMULATOR))
    assert rows_of(workload) == [("0", 0, 1000, 8), ("1", 0, 1000, 8)]
    assert [job.deadline_s for job in workload.jobs] == [1500, None]
    assert workload.assumptions[-1] == "Jobs of the trace left out: 1 without GPUs."


def test_instances_multiply_the_gpus_of_alibabas_simulator(write):
    workload = read_workload(write(PAI_SIMULATOR))
    assert rows_of(workload) == [("a", 0, 10, 8), ("b", 10, 20, 1)]
    assert workload.assumptions[-1] == "Jobs of the trace left out: 1 without GPUs."


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
    with pytest.raises(InputError, match="row 1: lacks the columns vc, gpu_num, start_time, end"):
        read_workload(path, layout="helios")


@pytest.mark.parametrize(
    ("layout", "ignored"),
    [
        ("own", ""),
        ("helios", "user, cpu_num, node_num, state, duration, queue"),
        ("tiresias", "iterations, model_name, interval"),
        ("elasticflow", "num_iteration, model_name, batch_size"),
        ("alibaba-openb-2023", "cpu_milli, memory_mib, qos, pod_phase"),
        ("microsoft-philly", "status, user"),
        ("alibaba-pai-2020", "plan_cpu, plan_mem, gpu_type"),
        ("gavel 7", "command, num_steps_arg, needs_data_dir"),
        (
            "standard-workload-format",
            "wait_time, average_cpu_time, used_memory, requested_time, requested_memory, user, "
            "group, executable, queue, partition, preceding_job, think_time",
        ),
    ],
)
def test_ignored_columns_are_listed(write, layout, ignored):
    said = [each for each in read_workload(write(LAYOUTS[layout])).assumptions if "ignored" in each]
    assert said == ([f"Columns ignored: {ignored}."] if ignored else [])


def test_a_job_whose_last_attempt_has_no_end_still_ran(write):
    """Whatever attempts it had before; one that has an end later counts with those that have."""
    ended = attempt("2017-10-07 01:00:00", "2017-10-07 01:00:30", 1)
    open_ = attempt("2017-10-07 02:00:00", None, 1)
    jobs = [philly_job("ran", ended, open_), philly_job("ended", open_, ended)]
    workload = read_workload(write(json.dumps(jobs)))
    assert rows_of(workload) == [("ended", 0, 30, 1)]
    assert workload.assumptions[-1].endswith("left out: 1 that never ran or had not ended.")


BAD_ROWS = {
    "own": (OURS + "c,Unknown,1,1,x\nd,1\n", 2),
    "helios": (HELIOS + "10,u,vc2,1,1,1,FAILED,2020-06-09 18:41:00,Unknown,Unknown,0,0\n", 1),
    "microsoft-philly": (json.dumps([*PHILLY, {"vc": 7}]), 1),
    "alibaba-pai-2020": (
        PAI_TASKS + "j4,ps,1,Failed,500,400,6,2,100,P100\nj9,w,1,Failed,Unknown,1,6,2,9,T4\n",
        2,
    ),
    "gavel 7": (GAVEL_7 + "A3C\tpython3\t--n\t0\tmany\t1\t1\n", 1),
    "standard-workload-format": (
        SWF + "7 100 5 -60 8 -1 -1 8 3600 -1 1 3 1 -1 1 -1 -1 -1\n8 100\n",
        2,
    ),
}


@pytest.mark.parametrize("layout", BAD_ROWS)
def test_bad_rows_are_refused_or_dropped_and_counted(write, layout):
    """A job with several rows, one of them bad, is dropped as a whole: its demand is not known."""
    text, bad = BAD_ROWS[layout]
    with pytest.raises(InputError, match=r"row [0-9]+|\[[0-9]\]"):
        read_workload(write(text))
    workload = read_workload(write(text), drops_bad_rows=True)
    good = [row for row in rows_of(read_workload(write(LAYOUTS[layout]))) if row[0] != "j4"]
    assert rows_of(workload) == good
    assert f"{bad} with a value that breaks its rule (the first: " in workload.assumptions[-1]


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


def test_philly(write):
    workload = read_workload(write(json.dumps(PHILLY), "cluster_job_log"))
    assert workload.name == "cluster_job_log"
    seconds = 74 + (2 * 86400 + 5 * 3600 + 39 * 60 + 42)
    assert rows_of(workload) == [("first", 0, 10, 1), ("two-attempts", 699, seconds, 12)]
    left_out = "3 that never ran or had not ended; 1 without GPUs"
    assert workload.assumptions[-1] == f"Jobs of the trace left out: {left_out}."


def test_philly_of_one_cluster(write):
    workload = read_workload(write(json.dumps(PHILLY)), vc="other")
    assert rows_of(workload) == [("first", 0, 10, 1)]


def test_philly_over_the_hour_when_the_clock_is_put_back(write):
    job = philly_job(
        "j",
        attempt("2017-11-05 01:50:00", "2017-11-05 01:10:00", 1),
        attempt("2017-11-05 03:00:00", "2017-11-05 03:00:30", 1),
        submitted="2017-11-05 01:00:00",
    )
    assert rows_of(read_workload(write(json.dumps([job])))) == [("j", 0, 30, 1)]


@pytest.mark.parametrize("asked", ["pai_task_table.csv", "pai_job_table.csv"])
def test_pai_tables_from_either(write, asked):
    write(PAI_TASKS, "pai_task_table.csv")
    write(PAI_JOBS, "pai_job_table.csv")
    workload = read_workload(write("", "other").with_name(asked))
    # j1: 2 x 50 % + 3 x 25 % of a GPU are 2 whole ones; j4 has no submission in the job table.
    assert rows_of(workload) == [("j1", 0, 95, 2), ("j4", 310, 50, 4)]
    left_out = "2 that never ran or had not ended; 1 without GPUs"
    assert workload.assumptions[-1] == f"Jobs of the trace left out: {left_out}."


def test_pai_tasks_alone(write):
    workload = read_workload(write(PAI_TASKS))
    assert rows_of(workload) == [("j1", 0, 95, 2), ("j4", 285, 50, 4)]
    assert any("for lack of a job table" in sentence for sentence in workload.assumptions)


def test_pai_with_its_header_put_in_front(write):
    header = (
        "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,"
        "gpu_type\n"
    )
    assert rows_of(read_workload(write(header + PAI_TASKS))) == rows_of(
        read_workload(write(PAI_TASKS))
    )


def test_own_optional_columns(write):
    """What users ask for, where they say so; the batch size stands with the model."""
    text = (
        "job_id,submit_time,duration_s,gpus,model,batch_size,weight,deadline_s,gpu_types,node,user\n"
        "a,2020-06-09 18:41:01,10,1,ResNet-18,128,2.5,60.5,V100|P100,n1,u\n"
        "b,2020-06-09T20:41:02+02:00,10,1,CycleGAN,,,,,n1,u\n"
        "c,2020-06-09 18:41:03,10,1,,,,,,n1,u\n"
    )
    workload = read_workload(write(text))
    a, b, c = workload.jobs
    assert [job.submit_s for job in workload.jobs] == [0, 1, 2]
    assert (a.model, a.weight, a.deadline_s, a.gpu_types) == (
        "ResNet-18-128",
        2.5,
        60.5,
        ("V100", "P100"),
    )
    assert (b.model, b.weight, b.deadline_s, b.gpu_types) == ("CycleGAN", 1, None, ())
    assert c.model is None
    assert workload.assumptions[-1] == "Columns ignored: node, user."


def test_models_are_named_as_tables_of_throughput_know_them(write):
    """So that a trace's jobs are found there."""
    known = {job_type.name for job_type in gavel_throughputs().job_types}
    for text in (GAVEL_10, GAVEL_7):
        assert {job.model for job in read_workload(write(text)).jobs} <= known


def test_gavel_of_seven_columns(write):
    """Running times by hand, from the published steps a second of a V100."""
    workload = read_workload(write(GAVEL_7, "made.trace"))
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
    said = "\n".join(workload.assumptions)
    assert "are taken to grow with the GPUs (1 job)." in said
    assert "left out: 1 of a type that was never measured; 1 without GPUs." in said


@pytest.mark.parametrize("text", [GAVEL_9, GAVEL_10])
def test_gavel_of_nine_and_ten_columns(write, text):
    """Priority is the weight, and an SLO is relative to the running time."""
    workload = read_workload(write(text))
    first, second = workload.jobs
    assert (first.weight, first.deadline_s) == (2.5, None)
    assert second.weight == 1
    assert second.deadline_s == pytest.approx(1.2 * second.duration_s, abs=2e-3)
    assert (first.submit_s, second.submit_s) == (0, 2)
    assert any("SLO times that running time (1 job)" in said for said in workload.assumptions)


def test_swf(write):
    """Processors are GPUs; what failed is kept, what never ran and parts of jobs are not."""
    workload = read_workload(write(SWF, "made.swf"))
    assert rows_of(workload) == [("3", 0, 20, 4), ("1", 10, 60, 8), ("2", 20, 30, 16)]
    said = "\n".join(workload.assumptions)
    assert "Processors of the trace are taken for GPUs" in said
    assert "Jobs that failed or were cancelled are kept" in said
    assert "(2 jobs)." in said
    for reason in (
        "1 that are parts of one that has a row of its own",
        "1 that never ran or had not ended",
        "1 without processors",
    ):
        assert reason in workload.assumptions[-1]
    without_remarks = "\n".join(SWF.splitlines()[2:])
    assert read_workload(write(without_remarks)).jobs == workload.jobs


def test_adaptdl(write):
    """Steps and seconds a step are those of Pollux's measurements."""
    workload = read_workload(write(ADAPTDL))
    ncf, cifar = workload.jobs
    assert (ncf.id, ncf.submit_s, ncf.min_gpus, ncf.model, ncf.steps) == (
        "ncf-1",
        0,
        1,
        "ncf-32768",
        1548,
    )
    assert ncf.duration_s == pytest.approx(1548 * 0.02132, abs=1e-3)
    assert (cifar.submit_s, cifar.min_gpus, cifar.model, cifar.steps) == (
        7,
        6,
        "cifar10-2048",
        3178,
    )
    assert "1 of an application, replicas and batch size" in workload.assumptions[-1]


def test_what_pollux_measured_is_plausible():
    """More of a batch is fewer steps, whatever the replicas; no step takes no time."""
    runs = measured_runs()
    assert {application for application, _, _ in runs} == {
        *("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
    }
    assert all(run.step_s > 0 for run in runs.values())
    steps: dict[tuple[str, int], int] = {}
    for (application, _, batch_size), run in runs.items():
        assert steps.setdefault((application, batch_size), run.steps) == run.steps
    for (application, batch_size), count in steps.items():
        smaller = [
            of_smaller
            for (other, size), of_smaller in steps.items()
            if other == application and size < batch_size
        ]
        assert all(of_smaller > count for of_smaller in smaller)


def test_adaptdl_philly(write):
    expected = [("row-3", 0, 20.5, 8), ("row-2", 2932, 66, 1)]
    assert rows_of(read_workload(write(ADAPTDL_PHILLY))) == expected


def test_openb(write):
    """A share of a GPU is a whole one, and that is said; types asked for are kept, each once."""
    workload = read_workload(write(OPENB))
    assert rows_of(workload) == [("p1", 0, 35, 1), ("p0", 10, 890, 8)]
    assert [job.gpu_types for job in workload.jobs] == [("V100M16", "V100M32"), ()]
    said = "\n".join(workload.assumptions)
    assert "Pods that ask for a share of a GPU are given a whole one (1 job)." in said
    assert "left out: 1 that never ran or had not ended; 1 without GPUs." in said


LAYOUTS = {
    "adaptdl": ADAPTDL,
    "adaptdl-philly": ADAPTDL_PHILLY,
    "gavel 7": GAVEL_7,
    "gavel 9": GAVEL_9,
    "gavel 10": GAVEL_10,
    "alibaba-openb-2023": OPENB,
    "standard-workload-format": SWF,
    "own": OURS,
    "helios": HELIOS,
    "acme": ACME,
    "tiresias": TIRESIAS,
    "microsoft-itp": ITP,
    "elasticflow": ELASTICFLOW,
    "elasticflow-simulator": ELASTICFLOW_SIMULATOR,
    "alibaba-pai-2020-simulator": PAI_SIMULATOR,
    "microsoft-philly": json.dumps(PHILLY),
    "alibaba-pai-2020": PAI_TASKS,
}
"""By registered name, with the number of columns behind it where there are several."""


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


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gzip_reads_as_plain(write, layout):
    plain = read_workload(write(LAYOUTS[layout]))
    compressed = read_workload(write(gzip.compress(LAYOUTS[layout].encode()), "trace.csv.gz"))
    assert (compressed.name, compressed.jobs) == (plain.name, plain.jobs)


def test_ids_that_occur_twice_get_their_row(write):
    twice = "job_id,submission_time,duration,num_gpu\na,0,1,1\na,0,1,1\n"
    assert [job.id for job in read_workload(write(twice)).jobs] == ["a#2", "a#3"]
    said = "2 jobs share an id with others; # and their row are added to it."
    ours = "job_id,submit_time_s,duration_s,gpus\na,0,1,1\na,0,1,1\n"
    assert all(read_workload(write(text)).assumptions[-1] == said for text in (twice, ours))
    philly = json.dumps([PHILLY[-1], PHILLY[-1]])
    assert [job.id for job in read_workload(write(philly)).jobs] == ["first#0", "first#1"]


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def philly_with(**fields) -> str:
    return json.dumps([{**PHILLY[0], **fields}])


PHILLY_NO_VC = {key: value for key, value in PHILLY[0].items() if key != "vc"}
MALFORMED = {
    "missing file": (None, "cannot be read"),
    "empty": ("", "the file is empty"),
    "not gzip": (b"\x1f\x8bnot gzip", "is a damaged or truncated gzip file"),
    "truncated gzip": (gzip.compress(OURS.encode())[:-9], "is a damaged or truncated gzip file"),
    "not UTF-8": (b"job_id\xff", "is not UTF-8 text"),
    "header alone": (ITP.splitlines()[0], "holds no jobs"),
    "only rows left out": (
        "\n".join([*HELIOS.splitlines()[:1], *HELIOS.splitlines()[3:]]),
        "holds no jobs; left out: 1 that never ran or had not ended; 1 without GPUs",
    ),
    "quotes": (ITP + '"', "is not valid CSV: unexpected end of data"),
    # ours
    "ours negative": (changed(OURS, ",130,", ",-130,"), 'column submit_time_s is "-130"'),
    "ours zero GPUs": (changed(OURS, ",8,x", ",0,x"), 'row 2, column gpus is "0": must be'),
    "ours missing column": (changed(OURS, ",gpus", ",gpu"), "(own would need gpus in row 1)"),
    "ours batch without model": (changed(OURS, ",vc", ",batch_size"), "row 1: column batch_size n"),
    "ours weight": (
        "job_id,submit_time_s,duration_s,gpus,weight\na,0,1,1,0\n",
        'row 2, column weight is "0": must be above 0',
    ),
    "ours deadline": (
        "job_id,submit_time_s,duration_s,gpus,deadline_s\na,0,1,1,soon\n",
        'row 2, column deadline_s is "soon": must be a number of seconds',
    ),
    "ours no time to the deadline": (
        "job_id,submit_time_s,duration_s,gpus,deadline_s\na,0,1,1,0.0001\n",
        'row 2, column deadline_s is "0.0001": must be at least a millisecond',
    ),
    "ours types": (
        "job_id,submit_time_s,duration_s,gpus,gpu_types\na,0,1,1,V100||T4\n",
        'row 2, column gpu_types is "V100||T4": must be names separated by |',
    ),
    "ours batch size": (
        "job_id,submit_time_s,duration_s,gpus,model,batch_size\na,0,1,1,m,0\n",
        'row 2, column batch_size is "0": must be an integer from 1',
    ),
    "ours moment": (
        "job_id,submit_time,duration_s,gpus\na,noon,1,1\n",
        'row 2, column submit_time is "noon": must be a date and time',
    ),
    "ours more than can be told apart": (
        changed(OURS, ",20.5,8,", ",1e11,100000,"),
        'job "b": work_worker_s is 1e+16: must be at most 1e+12',
    ),
    # Gavel
    "gavel width": (GAVEL_7 + "A3C\tpython\n", "row 6 has 2 fields, but the first one has 7"),
    "gavel type": (changed(GAVEL_7, "CycleGAN", "Cycle GAN"), 'column job_type is "Cycle GAN"'),
    "gavel steps": (changed(GAVEL_7, "\t800\t", "\t-800\t"), 'total_steps is "-800": must be'),
    "gavel arrival": (changed(GAVEL_7, "\t12.0\t", "\tnoon\t"), "row 2, column arrival_time is"),
    "gavel weight": (changed(GAVEL_9, "\t2.5\t", "\t0\t"), 'priority_weight is "0": must be above'),
    "gavel SLO": (changed(GAVEL_10, "\t1.2\t", "\tnan\t"), 'row 2, column SLO is "nan": must be a'),
    # SWF
    "swf width": (changed(SWF, "  1 100", "  1 100 7"), "row 3 has 19 fields, but the format has"),
    "swf run": (changed(SWF, "5  60", "5  -60"), 'row 3, column run_time is "-60": must be at l'),
    "swf processors": (changed(SWF, "60  8", "60  8.5"), 'allocated_processors is "8.5": must be'),
    "swf remarks alone": ("; Version: 2.2\n", "holds no jobs"),
    # Pollux
    "adaptdl replicas": (changed(ADAPTDL, ",6,", ",0,"), 'row 2, column num_replicas is "0": must'),
    "adaptdl time": (changed(ADAPTDL, ",107,", ",soon,"), 'row 2, column time is "soon": must be'),
    "adaptdl id": (changed(ADAPTDL, "cifar10-0", ""), 'row 2, column name is ""'),
    # Alibaba 2023
    "openb share": (changed(OPENB, ",460,", ",4600,"), 'row 3, column gpu_milli is "4600": must b'),
    "openb ends first": (
        changed(OPENB, ",100,1000,110", ",100,105,110"),
        'row 2, column deletion_time is "105": must not be before scheduled_time',
    ),
    "openb types": (changed(OPENB, "V100M32|", "|"), "row 3, column gpu_spec is"),
    # Helios and Acme
    "helios text": (changed(HELIOS, "7,u,vc1,4", "7,u,vc1,four"), 'row 2, column gpu_num is "four'),
    "helios negative": (changed(HELIOS, "7,u,vc1,4", "7,u,vc1,-4"), 'column gpu_num is "-4"'),
    "helios NaN": (changed(HELIOS, "7,u,vc1,4", "7,u,vc1,nan"), 'column gpu_num is "nan"'),
    "helios part of a GPU": (changed(HELIOS, "7,u,vc1,4", "7,u,vc1,4.5"), 'gpu_num is "4.5"'),
    "helios date": (
        changed(HELIOS, "2020-06-09 18:41:27", "yesterday"),
        'row 2, column submit_time is "yesterday": must be a date and time',
    ),
    "helios month": (
        changed(HELIOS, "2020-06-09 18:41:30", "2020-13-09 18:41:30"),
        "row 2, column start_time is",
    ),
    "helios ends first": (
        changed(HELIOS, "2020-06-09 18:45:36", "2020-06-09 18:41:29"),
        "row 2, column end_time is",
    ),
    "helios no id": (changed(HELIOS, "\n7,u", "\n,u"), 'row 2, column job_id is ""'),
    "helios short row": (HELIOS + "10,u,vc1\n", "row 6 has 3 fields, but the header has 12"),
    "helios two columns alike": (changed(HELIOS, "queue", "vc"), "row 1: column vc occurs more th"),
    "acme before 1970": (
        changed(ACME, "2023-05-17 11:00:58", "1923-05-17 11:00:58"),
        "row 2, column submit_time is",
    ),
    # Tiresias and ITP
    "tiresias part of a GPU": (changed(TIRESIAS, "1,8,", "1,.5,"), 'row 3, column num_gpu is ".5"'),
    "itp infinite": (changed(ITP, "3890", "inf"), 'row 2, column duration is "inf": must be'),
    "itp NaN": (changed(ITP, "3890", "NaN"), 'row 2, column duration is "NaN": must be'),
    "itp missing column": (
        changed(ITP, ",num_gpu", ",cards"),
        "(microsoft-itp would need num_gpu in row 1)",
    ),
    # Philly
    "philly not JSON": ("[{", "is not valid JSON"),
    "philly no object": ("[7]", "[0] is 7: must be an object"),
    "philly missing": (json.dumps([PHILLY_NO_VC]), "[0].vc is missing"),
    "philly id": (philly_with(jobid=7), "[0].jobid is 7: must be text"),
    "philly half a character": (philly_with(jobid="\ud800"), "[0].jobid is"),
    "philly submission": (philly_with(submitted_time=None), "[0].submitted_time is null: must be"),
    "philly attempts": (philly_with(attempts={}), "[0].attempts is {}: must be a list"),
    "philly time": (
        philly_with(attempts=[attempt("2017-10-07 01:12:09", 9, 1)]),
        "[0].attempts[0].end_time is 9: must be a date and time",
    ),
    "philly ends first": (
        philly_with(attempts=[attempt("2017-10-07 03:12:09", "2017-10-07 01:12:09", 1)]),
        "[0].attempts[0].end_time is",
    ),
    "philly gpus": (
        philly_with(attempts=[{**attempt(None, None), "detail": [{"ip": "m", "gpus": 8}]}]),
        "[0].attempts[0].detail[0].gpus is 8: must be a list",
    ),
    "philly empty": ("[]", "holds no jobs"),
    # Alibaba
    "pai jobs alone": (PAI_JOBS, "pai_task_table.csv must be beside it"),
    "pai text": (changed(PAI_TASKS, "50.0", "half"), 'row 2, column plan_gpu is "half"'),
    "pai instances": (changed(PAI_TASKS, "r,2.0", "r,-2"), 'row 2, column inst_num is "-2"'),
    "pai ends first": (changed(PAI_TASKS, "120.0,210", "220.0,210"), "row 2, column end_time is"),
    "pai width": (PAI_TASKS + "j6,worker\n", "row 8 has 2 fields, but the table has 10"),
    "pai GPUs": (changed(PAI_TASKS, ",50.0", ",1e11"), "GPUs at most"),
}


@pytest.mark.parametrize("defect", MALFORMED)
def test_malformed(write, tmp_path, defect):
    content, reason = MALFORMED[defect]
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


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ("own", 'has no jobs of vc "nowhere"; it has x, y'),
        ("helios", 'has no jobs of vc "nowhere"; it has vc1, vc2'),
        ("microsoft-philly", 'has no jobs of vc "nowhere"; it has ee9e8c, other'),
        ("acme", "has no column vc"),
        ("microsoft-itp", "has no column vc"),
        ("alibaba-pai-2020", "has no column vc"),
        ("gavel 7", "has no column vc"),
        ("standard-workload-format", "has no column vc"),
        ("alibaba-openb-2023", "has no column vc"),
    ],
)
def test_no_such_cluster(write, layout, reason):
    with pytest.raises(InputError) as caught:
        read_workload(write(LAYOUTS[layout]), vc="nowhere")
    assert reason in str(caught.value)


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
