"""Python objects over pipes: pickled, and the contents of arrays apart, so that pickling does not copy them."""

from __future__ import annotations

import pickle
import struct
from typing import IO, Any

__all__ = ["receive", "receive_frames", "send", "unpickle"]

_SIZE = struct.Struct("<Q")


def send(stream: IO[bytes], value: object) -> None:
    """Write `value` to `stream`. Raises OSError if nobody reads it."""
    buffers: list[pickle.PickleBuffer] = []
    frames: list[bytes | memoryview] = [pickle.dumps(value, protocol=5, buffer_callback=buffers.append)]
    frames += [buffer.raw() for buffer in buffers]
    stream.write(_SIZE.pack(len(frames)) + b"".join(_SIZE.pack(len(frame)) for frame in frames))
    for frame in frames:
        stream.write(frame)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one value from `stream`. Raises EOFError at the end of the stream."""
    return unpickle(receive_frames(stream))


def receive_frames(stream: IO[bytes]) -> list[bytearray]:
    """Read the frames of one value. Raises EOFError."""
    count = _SIZE.unpack(_exactly(stream, _SIZE.size))[0]
    sizes = struct.unpack(f"<{count}Q", _exactly(stream, count * _SIZE.size))
    return [_exactly(stream, size) for size in sizes]


def unpickle(frames: list[bytearray]) -> Any:
    """Return the value of `frames`; its arrays use their memory."""
    return pickle.loads(frames[0], buffers=frames[1:])


def _exactly(stream: IO[bytes], size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = stream.readinto(view)  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        view = view[count:]
    return data
