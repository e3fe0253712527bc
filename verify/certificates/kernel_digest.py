"""Hashes of the kernel: of all its source, of its core, and of all that the proof of one rule depends on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path

import superopt.ir
import superopt.ops
import verify
from superopt.ir.rule import Rule
from superopt.ir.term import topological
from verify.certificates.operator_digest import operator_digest
from verify.prove.recurrence import INTRODUCED, is_recurrent

__all__ = ["core_hash", "kernel_hash", "rule_kernel_hash"]

_VERIFY, _IR, _OPS = (Path(str(package.__file__)).parent for package in (verify, superopt.ir, superopt.ops))
_IMPORTED_OPS = re.compile(r"^\s*(?:from|import) superopt\.ops\.(\w+)|^\s*from superopt\.ops import (.+)", re.MULTILINE)


@cache
def kernel_hash() -> str:
    """Hash of all source that a verdict may depend on, of all operators and of the search for counterexamples: names a
    build of the kernel in reports. Certificates use `rule_kernel_hash`."""
    return _source_hash(file for folder in (_VERIFY, _IR, _OPS) for file in folder.rglob("*.py"))


@cache
def core_hash() -> str:
    """Hash of the source that every proof depends on: `verify` without `verify.diagnose`, `superopt.ir`, and those
    modules of `superopt.ops` that these import. Entries of operators are not among it (see `rule_kernel_hash`)."""
    files = [*_IR.rglob("*.py"), *(f for f in _VERIFY.rglob("*.py") if "diagnose" not in f.relative_to(_VERIFY).parts)]
    for file in files:  # grows on the way
        files += [module for module in _ops_modules(file) if module not in files]
    return _source_hash(files)


def _ops_modules(file: Path) -> Iterator[Path]:
    for one, several in _IMPORTED_OPS.findall(file.read_text(encoding="utf-8")):
        for name in [one, *re.findall(r"\w+", several)]:
            if name and (_OPS / f"{name}.py").is_file():
                yield _OPS / f"{name}.py"


def _source_hash(files: Iterable[Path]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for name, file in sorted((_place(file), file) for file in files):
        state.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return state.hexdigest()


def _place(file: Path) -> str:
    folder = next(folder for folder in (_VERIFY, _IR, _OPS) if file.is_relative_to(folder))
    return f"{folder.name}/{file.relative_to(folder).as_posix()}"


@lru_cache(maxsize=1 << 14)
def rule_kernel_hash(rule: Rule) -> str:
    """Hash of the kernel as far as a proof of `rule` depends on it: its core, and the operators of the rule."""
    operators = {term.op for term in topological((*rule.lhs, *rule.rhs))}
    if any(map(is_recurrent, operators)):
        operators.update(INTRODUCED)
    parts = [core_hash(), *(f"{name} {operator_digest(name)}" for name in sorted(operators))]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
