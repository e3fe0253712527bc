"""Verdicts for the search alone: from certificates and earlier runs. What is written rests on proofs of this run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from superopt.ir.notation import show_signature
from superopt.ir.rule import Rule, Signature
from superopt.search import default_path
from verify.certificates import Certificate, CertifiedBook, proof_from_json, proof_to_json, rule_kernel_hash
from verify.diagnose.counterexample import find_counterexample
from verify.proof_book import Book, ProofBook, both_ways
from verify.verdict import Proved, Unknown, Verdict

__all__ = ["RememberedProofs"]

_WRITER_TIMEOUT_S = 10.0  # while another process writes
_NONE = ""  # no proof


class RememberedProofs(Book):
    """The book that the search asks. It keeps the prover's verdicts in the user's cache directory (`path`).

    Only verdicts of this very kernel count. A file that cannot be used is as good as none. The proofs of this run are
    in `own`, a book without certificates and without verdicts of earlier runs: the replay asks that one.
    """

    def __init__(
        self, certificates: Mapping[Rule, Certificate] | None = None, numerics: str = "real-only",
        path: Path | None = None,
    ) -> None:  # fmt: skip
        super().__init__(numerics)
        self._certified = CertifiedBook(certificates or {}, numerics, find_counterexample)
        self._verdicts: dict[tuple[Rule, Signature], Verdict] = {}
        self._keys: dict[tuple[Rule, Signature], str] = {}  # of verdicts that an earlier run has found
        self._connection: sqlite3.Connection | None = None
        path = path or default_path().with_name("verdicts.sqlite")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=_WRITER_TIMEOUT_S, isolation_level=None)
            self._connection.execute("PRAGMA synchronous=OFF")  # a verdict lost in a crash costs one proof
            self._connection.execute("CREATE TABLE IF NOT EXISTS verdict (key TEXT PRIMARY KEY, proof TEXT NOT NULL)")
        except (OSError, sqlite3.Error):
            self._connection = None

    @property
    def own(self) -> ProofBook:
        """The proofs made in this run."""
        return self._certified.own

    def verdict(self, rule: Rule, signature: Signature) -> Verdict:
        """Return the verdict at `signature`, as it was found by this run or an earlier one."""
        at = (rule, signature)
        if at not in self._verdicts:
            found: Verdict | None = self._certified.certified(rule, signature)
            found = found or both_ways(self._verdicts.get((rule.reversed(), signature)))
            self._verdicts[at] = found or self._remembered(at) or self._proven(at)
        return self._verdicts[at]

    def correct(self) -> None:
        """Forget the proofs of earlier runs that this one could not repeat.

        Z3 may find a proof in one process and give up in another.
        """
        for at, key in self._keys.items():
            verdict = self.own.known(*at)
            if verdict is not None and not isinstance(verdict, Proved):
                self._store(key, verdict)

    def _proven(self, at: tuple[Rule, Signature]) -> Verdict:
        verdict = self.own.verdict(*at)
        self._store(_key(*at), verdict)
        return verdict

    def _remembered(self, at: tuple[Rule, Signature]) -> Verdict | None:
        """The verdict of an earlier run."""
        if self._connection is None:
            return None
        key = _key(*at)
        try:
            row = self._connection.execute("SELECT proof FROM verdict WHERE key = ?", (key,)).fetchone()
            if not row:
                return None
            found = Unknown("not proven by an earlier run") if row[0] == _NONE else proof_from_json(json.loads(row[0]))
        except (sqlite3.Error, ValueError, KeyError, TypeError):
            return None
        self._keys[at] = key
        return found

    def _store(self, key: str, verdict: Verdict) -> None:
        proof = json.dumps(proof_to_json(verdict)) if isinstance(verdict, Proved) else _NONE
        try:
            if self._connection is not None:
                self._connection.execute("INSERT OR REPLACE INTO verdict VALUES (?, ?)", (key, proof))
        except sqlite3.Error:
            self._connection = None


def _key(rule: Rule, signature: Signature) -> str:
    """The kernel, both sides by their 128-bit digests, and the signature."""
    sides = " = ".join(" ".join(term.digest for term in side) for side in (rule.lhs, rule.rhs))
    return f"{rule_kernel_hash(rule)}|{sides}|{show_signature(signature)}"
