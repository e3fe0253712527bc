"""Verdicts of earlier runs, for the search alone: what it relies on is proven anew before anything is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from superopt.ir.notation import show_signature
from superopt.ir.rule import Rule, Signature
from superopt.search import default_path
from verify.proofs import Certificate, ProofBook, kernel_hash
from verify.verdict import Proved, Unknown, Verdict

__all__ = ["RememberedProofs"]

_PATIENCE_S = 10.0  # while another process writes
_NONE = ""  # no proof
_IN_KEY = Signature(())  # a signature need not be read back: not all that rules are used at have a notation


class RememberedProofs(ProofBook):
    """A `ProofBook` that remembers what it has proven, or tried to, in the user's cache directory (`path`).

    Only verdicts of this very kernel count. A file that cannot be used is as good as none. `own` has none of an earlier
    run and no certificate: what it does not know it proves.
    """

    def __init__(
        self, certificates: Mapping[str, Certificate] | None = None, numerics: str = "real-only",
        path: Path | None = None,
    ) -> None:  # fmt: skip
        super().__init__(numerics=numerics)
        self.own = ProofBook(numerics=numerics)
        self._read: dict[tuple[str, Signature], tuple[str, Rule]] = {}  # proofs of earlier runs, and their keys
        self._certificates = certificates or {}
        self._looked_up: set[str] = set()  # rules whose certificates have been read
        self._known: dict[tuple[str, Signature], Verdict] = {}
        self._connection: sqlite3.Connection | None = None
        path = path or default_path().with_name("verdicts.sqlite")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None)
            self._connection.execute("PRAGMA synchronous=OFF")  # a verdict lost in a crash costs one proof
            self._connection.execute("CREATE TABLE IF NOT EXISTS verdict (key TEXT PRIMARY KEY, proof TEXT NOT NULL)")
        except (OSError, sqlite3.Error):
            self._connection = None

    def verdict(self, rule: Rule, signature: Signature) -> Verdict:
        """The verdict at `signature`, as it was found by this run or an earlier one."""
        at = (rule.id, signature)
        if at not in self._known:
            listed = self._certified(rule, signature)
            sides = " = ".join(" ".join(term.digest for term in side) for side in (rule.lhs, rule.rhs))
            key = f"{kernel_hash()}|{sides}|{show_signature(signature)}"
            found = None if listed else self._remembered(key)
            if found is not None:
                self._verdicts[at] = found  # answers for the reversed equation, too, as it did when it was found
                self._read[at] = key, rule
            elif listed:
                found = super().verdict(rule, signature)
            else:
                found = self._verdicts[at] = self.own.verdict(rule, signature)
                self._remember(key, rule, found)
            self._known[at] = found
        return self._known[at]

    def correct(self) -> None:
        """Forgets the proofs of earlier runs that this one could not repeat.

        Z3 may find a proof in one process and give up in another.
        """
        for at, (key, rule) in self._read.items():
            verdict = self.own._verdicts.get(at)
            if verdict is not None and not isinstance(verdict, Proved):
                self._remember(key, rule, verdict)

    def _certified(self, rule: Rule, signature: Signature) -> bool:
        """Whether a certificate answers, that of the reversed equation too; those of the two rules are read here."""
        reverse = rule.reversed().id
        for name in (rule.id, reverse):
            if name not in self._looked_up:
                self._looked_up.add(name)
                certificate = self._certificates.get(name)
                if certificate is not None:
                    self._verdicts.update(ProofBook({name: certificate})._verdicts)
        there = self._verdicts.get((reverse, signature))
        return (rule.id, signature) in self._verdicts or (isinstance(there, Proved) and not there.defined_left)

    def _remembered(self, key: str) -> Verdict | None:
        try:
            row = (
                self._connection
                and self._connection.execute("SELECT proof FROM verdict WHERE key = ?", (key,)).fetchone()
            )
            if not row:
                return None
            if row[0] == _NONE:
                return Unknown("not proven by an earlier run")
            ((_, proved),) = Certificate.from_json(row[0]).proofs
            return proved
        except (sqlite3.Error, ValueError, KeyError, TypeError):
            return None

    def _remember(self, key: str, rule: Rule, verdict: Verdict) -> None:
        proof = Certificate.of(rule, [(_IN_KEY, verdict)], key).to_json() if isinstance(verdict, Proved) else _NONE
        try:
            if self._connection is not None:
                self._connection.execute("INSERT OR REPLACE INTO verdict VALUES (?, ?)", (key, proof))
        except sqlite3.Error:
            self._connection = None
