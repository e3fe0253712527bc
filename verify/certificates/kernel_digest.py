"""Hashes of the kernel: of its whole source, of its core, and of the parts that the proof of one rule depends on."""

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

__all__ = ["core_hash", "kernel_hash", "rule_analysis_hash", "rule_kernel_hash"]

_VERIFY, _IR, _OPS = (Path(str(package.__file__)).parent for package in (verify, superopt.ir, superopt.ops))
_IMPORTED_OPS = re.compile(r"^\s*(?:from|import) superopt\.ops\.(\w+)|^\s*from superopt\.ops import (.+)", re.MULTILINE)


@cache
def kernel_hash() -> str:
    """Return a hash of the whole kernel: prover, diagnosis, terms and all operators. It names a build in reports.

    Certificates use `rule_kernel_hash` instead.
    """
    return _source_hash(file for folder in (_VERIFY, _IR, _OPS) for file in folder.rglob("*.py"))


@cache
def core_hash() -> str:
    """Return a hash of the source that every proof depends on.

    It covers `verify` without `verify.diagnose`, `verify.stability` and `verify.replay`, which uses proofs and makes
    none, `superopt.ir`, and the modules of `superopt.ops` that they import. It does not cover the entries of operators
    (see `rule_kernel_hash`).
    """
    apart = {"diagnose", "stability", "replay.py"}
    files = [*_IR.rglob("*.py"), *(f for f in _VERIFY.rglob("*.py") if apart.isdisjoint(f.relative_to(_VERIFY).parts))]
    for file in files:  # the list grows during the loop
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
def rule_analysis_hash(rule: Rule) -> str:
    """Return a hash of the parts of the kernel that the stability classes of `rule` depend on.

    A class rests on the proof and on the prover, so it depends on all that a proof depends on.
    """
    parts = [_source_hash((_VERIFY / "stability").rglob("*.py")), rule_kernel_hash(rule)]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


@lru_cache(maxsize=1 << 14)
def rule_kernel_hash(rule: Rule) -> str:
    """Return a hash of the parts of the kernel that a proof of `rule` depends on: the core and the rule's operators."""
    operators = {term.op for term in topological((*rule.lhs, *rule.rhs))}
    if any(map(is_recurrent, operators)):
        operators.update(INTRODUCED)
    parts = [core_hash(), *(f"{name} {operator_digest(name)}" for name in sorted(operators))]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
