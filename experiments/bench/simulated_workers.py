"""Run many Dask workers in one process, for benchmarks with tasks that only sleep."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING

import dask
from distributed import Worker

from lyra_opt.core.temporary import TemporaryFolder
from lyra_opt.experiments.machines import worker
from lyra_opt.experiments.machines.answers import answer_of
from lyra_opt.experiments.machines.parcels import Unpickler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.experiments.machines.parcels import Errand, Parcel


def carry_out(
    errand: Errand,  # noqa: ARG001 - same signature as the real function
    parcel: Parcel,
    contents: Mapping[str, bytes],  # noqa: ARG001
) -> bytes:
    """Run a task in the worker's thread; a child process per worker would need too much memory."""
    task = Unpickler(io.BytesIO(parcel.task), str).load()
    return answer_of(task.run(), {})


async def serve(scheduler: str, count: int) -> None:
    """Run the given number of one-thread workers until this process ends."""
    with TemporaryFolder() as folder:
        each = partial(Worker, scheduler, nthreads=1, memory_limit=0, dashboard=False)
        workers = [each(local_directory=folder) for _ in range(count)]
        await asyncio.gather(*workers)
        await asyncio.gather(*(each.finished() for each in workers))


if __name__ == "__main__":
    logging.getLogger("distributed").setLevel(logging.ERROR)
    dask.config.set({"distributed.worker.profile.enabled": False})  # saves a thread per worker
    worker.carry_out = carry_out  # tasks call it by this name
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
