"""Operators that are registered for one test."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager

import superopt.ops
from superopt.ir.operator import OPERATORS, REAL_ATTRS

__all__ = ["unregistered_afterwards"]


@contextmanager
def unregistered_afterwards() -> Iterator[None]:
    """Take the operators out again that are registered inside, and forget what was read off their definitions."""
    operators, real = dict(OPERATORS), set(REAL_ATTRS)
    _forget()
    try:
        yield
    finally:
        for name in OPERATORS.keys() - operators.keys():
            del OPERATORS[name]
        REAL_ATTRS.intersection_update(real)
        _forget()


def _forget() -> None:
    for module in pkgutil.iter_modules(superopt.ops.__path__):
        for value in vars(importlib.import_module(f"{superopt.ops.__name__}.{module.name}")).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
