"""A connection to a Dask scheduler over which only data comes back, never code.

Anyone who can reach a scheduler can answer in the name of a worker. Dask's own client unpickles
results, exceptions and warnings, and unpickling can run any code. This client reads bytes instead:

- Its connections do not deserialise objects (`deserialize=False`).
- `content_of` decodes a result only if it was sent as msgpack, which has only plain values.
- `error_in_words` reads class and message of an exception from the pickle's opcodes, without
  unpickling it.
- An audit hook stops every pickle that names a class or a function in the client's thread, wherever
  Dask may read a pickle.
"""

import pickle
import sys
import threading
from collections.abc import Callable
from pickletools import genops
from typing import Any

from distributed import Client
from distributed.comm import Comm
from distributed.protocol import Serialized
from distributed.protocol.compression import decompress
from distributed.protocol.serialize import merge_and_deserialize

AS_DATA = ("msgpack", "error")
"""Dask's names of the serialisation formats that results may have."""

UNKNOWN_ERROR = "an error that cannot be read"
TBLIB = "tblib.pickling_support"

_of_thread = threading.local()


def _refuse_pickles(event: str, _: tuple[Any, ...]) -> None:
    if event == "pickle.find_class" and getattr(_of_thread, "takes_data_only", False):
        raise pickle.UnpicklingError("refused to load a pickle from another machine")


sys.addaudithook(_refuse_pickles)


class DataClient(Client):  # type: ignore[misc]
    """A Dask client that never unpickles.

    Parameters
    ----------
    scheduler
        Address of the scheduler.
    timeout_s
        Time limit for the scheduler's answer, in seconds.
    """

    def __init__(self, scheduler: str, timeout_s: float) -> None:
        try:
            super().__init__(
                scheduler,
                timeout=timeout_s,
                set_as_default=False,
                deserializers=AS_DATA,
                direct_to_workers=False,
            )
        except BaseException:
            # The client is closed now; garbage collection during another client's start would hang.
            self.close(timeout=1.0)
            raise

    async def _start(self, *arguments: Any, **options: Any) -> Any:
        _of_thread.takes_data_only = True  # in the thread of the event loop
        # Messages that Dask does not deserialise stay in this thread, which the hook protects.
        of_client = self.security.get_connection_args("client")
        self.connection_args = {**of_client, "deserialize": False}
        self.rpc.deserialize = False
        earlier = set(Comm._instances)  # noqa: SLF001 - the only list of connections
        try:
            return await super()._start(*arguments, **options)
        except BaseException:  # Dask does not close the connections of a failed start
            for connection in set(Comm._instances) - earlier:  # noqa: SLF001
                if not connection.deserialize:  # all others belong to other clients
                    connection.abort()
            raise

    def subscribe_topic(self, topic: str, handler: Callable[..., Any]) -> Any:
        """Subscribe to a topic, except topics whose events Dask would print or unpickle."""
        if topic not in ("print", "warn"):
            super().subscribe_topic(topic, handler)

    def _handle_task_erred(
        self, key: Any = None, exception: object = None, traceback: object = None
    ) -> None:
        del traceback
        super()._handle_task_erred(key=key, exception=error_in_words(exception), traceback=None)


def content_of(sent: object) -> bytes:
    """Return the bytes that a worker sent as the result of a task.

    Raises
    ------
    TypeError
        If the result was not sent as bytes, for example as a pickle.
    """
    if not isinstance(sent, Serialized):
        raise TypeError("the result does not have the format that workers send")
    header, frames = sent.header, sent.frames
    if "compression" in header:
        frames = decompress(header, frames)
    value = merge_and_deserialize(header, frames, deserializers=AS_DATA)
    if not isinstance(value, bytes):
        raise TypeError("the result of a task must be bytes")
    return value


def error_in_words(sent: object) -> str:
    """Return class and message of a pickled exception without unpickling it."""
    texts: list[str] = []
    try:
        if isinstance(sent, Serialized):
            frames = sent.frames
            if "compression" in sent.header:
                frames = decompress(sent.header, frames)
            sent = b"".join(frames)
        if isinstance(sent, bytes | bytearray | memoryview):
            texts = [given for _, given, _ in genops(bytes(sent)) if isinstance(given, str)]
    except Exception:  # the bytes are not trusted
        return UNKNOWN_ERROR
    if texts[:1] == [TBLIB]:  # tblib wraps pickled exceptions
        texts = [text for text in texts[2:] if text not in ("__dict__", "args")]
    return ": ".join(texts[1:3]) or UNKNOWN_ERROR
