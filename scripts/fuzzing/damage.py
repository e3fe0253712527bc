"""Damaged model files: bits flipped, parts lost or doubled, fields with other values. Some are still models."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

__all__ = ["damaged"]

_NUMBERS = (0, 1, -1, 2, 3, 7, 17, 255, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
_TEXTS = ("", "x", "a/../b", "\n", "y" * 300, "N", "-1", "ai.onnx", "com.microsoft", "If", "Loop", "Concat", "\u0000")


def damaged(models: Sequence[bytes], seed: int) -> bytes:
    """Return one of `models` with one to four defects: in its bytes, or in the fields of its messages."""
    rng = random.Random(seed)
    data = rng.choice(models)
    if rng.random() < 0.35:
        for _ in range(rng.choice([1, 1, 2, 4])):
            data = _bytes(rng, data, models)
        return data
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        _fields(rng, model)
    try:
        return bytes(model.SerializeToString())
    except (ValueError, UnicodeEncodeError):
        return data[: rng.randrange(len(data) + 1)]


def _bytes(rng: random.Random, data: bytes, models: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at, length = rng.randrange(len(data)), rng.choice([1, 2, 8, 64, 1024])
    match rng.choice(["flip", "flip", "cut", "lose", "repeat", "splice", "noise"]):
        case "flip":
            return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        case "cut":
            return data[:at]
        case "lose":
            return data[:at] + data[at + length :]
        case "repeat":
            return data[: at + length] + data[at:]
        case "splice":
            other = rng.choice(models)
            start = rng.randrange(len(other) + 1)
            return data[:at] + other[start : start + length] + data[at:]
    return data[:at] + rng.randbytes(length) + data[at + length :]


def _messages(model: Message) -> list[Message]:
    found, stack = [], [model]
    while stack:
        message = stack.pop()
        found.append(message)
        for field, value in message.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                stack.extend([value] if isinstance(value, Message) else value)
    return found


def _fields(rng: random.Random, model: onnx.ModelProto) -> None:
    """Change one field of one message. Kinds of messages are equally likely: there are more sizes than nodes."""
    by_kind: dict[str, list[Message]] = {}
    for message in _messages(model):
        by_kind.setdefault(message.DESCRIPTOR.name, []).append(message)
    message = rng.choice(by_kind[rng.choice(sorted(by_kind))])
    fields = list(message.DESCRIPTOR.fields) if rng.random() < 0.2 else [f for f, _ in message.ListFields()]
    if not fields:
        return
    field = rng.choice(fields)
    value = getattr(message, field.name)
    if not isinstance(value, (str, bytes, int, float, bool, Message)):
        _list(rng, field, value, model)
    elif isinstance(value, Message):
        _swap(rng, value, by_kind.get(value.DESCRIPTOR.name, []))
        if rng.random() < 0.3:
            message.ClearField(field.name)
    else:
        setattr(message, field.name, _other(rng, field, value, model))


def _list(rng: random.Random, field: Any, values: Any, model: onnx.ModelProto) -> None:
    kind = rng.choice(["drop", "double", "change", "reorder", "clear"])
    whole = field.type == FieldDescriptor.TYPE_MESSAGE
    items = list(values)
    if kind == "clear" and rng.random() < 0.3:
        del values[:]
    elif kind == "double" or not items:
        if whole:
            added = values.add()
            if items:
                added.CopyFrom(rng.choice(items))
        else:
            values.append(_other(rng, field, items[0] if items else 0, model))
    elif kind == "drop":
        del values[rng.randrange(len(items))]
    elif kind == "change" and not whole:
        k = rng.randrange(len(items))
        values[k] = _other(rng, field, items[k], model)
    elif len(items) > 1:
        a, b = rng.sample(range(len(items)), 2)
        if whole:
            _exchange(values[a], values[b])
        else:
            values[a], values[b] = items[b], items[a]


def _exchange(a: Message, b: Message) -> None:
    kept = type(a)()
    kept.CopyFrom(a)
    a.CopyFrom(b)
    b.CopyFrom(kept)


def _swap(rng: random.Random, message: Message, alike: list[Message]) -> None:
    other = type(message)()  # a copy first: one may contain the other
    other.CopyFrom(rng.choice(alike) if alike else message)
    message.CopyFrom(other)


def _other(rng: random.Random, field: Any, value: Any, model: onnx.ModelProto) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            names = [n for node in model.graph.node for n in (*node.output, node.op_type)] or ["x"]
            return rng.choice([*_TEXTS, *rng.sample(names, min(4, len(names)))])
        case FieldDescriptor.TYPE_BYTES:
            data = bytes(value) if isinstance(value, bytes) else b""
            return rng.choice([b"", data[:-1], data + b"\0", data[::-1], rng.randbytes(len(data))])
        case FieldDescriptor.TYPE_FLOAT | FieldDescriptor.TYPE_DOUBLE:
            return rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e30, 1e-40])
        case FieldDescriptor.TYPE_ENUM:
            return rng.choice([number.number for number in field.enum_type.values])
    near = [int(value) - 1, int(value) + 1] if isinstance(value, int) else []
    number = rng.choice([*_NUMBERS, *near])
    if field.type == FieldDescriptor.TYPE_INT32:
        return max(-(2**31), min(2**31 - 1, number))
    if field.type == FieldDescriptor.TYPE_UINT32:
        return abs(number) % 2**32
    if field.type == FieldDescriptor.TYPE_UINT64:
        return abs(number)
    return max(-(2**63), min(2**63 - 1, number))
