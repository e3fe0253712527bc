"""Checks if a rewriting step is valid: by equal fingerprints, or by a certificate that covers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from superopt.generate.derive.neighbours import outputs
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.ir.dim import Dim, symbols_of
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term, repr_attrs, topological
from verify.certificates import Certificate, CertifiedBook
from verify.diagnose.counterexample import find_counterexample

__all__ = ["CertificateCheck", "FingerprintCheck"]


class FingerprintCheck:
    """A step is valid if both sides have the same value on the sample of an `Evaluator`.

    The rules hold in general, but the sizes of a step may violate their guards. A variable for a size that a
    Reshape writes stands for neither 0 nor -1, which mean something else. A step to what the evaluator has no values
    for, such as a Cast of real numbers to integers among residues, is not valid. `one_way` has ids of rules that are
    never applied from left to right: if a proof assumes that the left side is defined, the reversed rule is not
    proven.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.one_way: set[str] = set()
        self._keys: dict[Term, tuple[tuple[int, ...], int]] = {}

    def __call__(self, rule: Rule, bindings: Bindings, old: Term, new: Term) -> bool:
        if rule.id in self.one_way or any(bindings.attrs.get(name) in (0, -1) for name in _written_sizes(rule)):
            return False
        try:
            return all(self._key(a) == self._key(b) for a, b in zip(outputs(old), outputs(new), strict=True))
        except KeyError:
            return False

    def forget(self) -> None:
        """Free memory."""
        self._keys.clear()

    def _key(self, term: Term) -> tuple[tuple[int, ...], int]:
        if term not in self._keys:
            self._keys[term] = self.evaluator.key(term)
        return self._keys[term]


@lru_cache(maxsize=1 << 12)
def _written_sizes(rule: Rule) -> tuple[str, ...]:
    """Return the names of the attribute variables that stand for sizes in the shapes of a rule's Reshapes."""
    shapes = (term.attr("shape") for term in topological(rule.lhs + rule.rhs) if term.op == "Reshape")
    entries = (entry for shape in shapes if isinstance(shape, tuple) for entry in shape)
    return tuple(sorted({name for entry in entries if isinstance(entry, Dim) for name in symbols_of(entry)}))


class CertificateCheck:
    """A step is valid if a certificate of the rule covers it.

    The certificate must be for this direction and a signature that covers the match, and the conditions of its proof
    must hold at the sizes. With `anew`, a step is also valid if the rule can be proven now, as `optimize` does; this
    takes prover time.
    """

    def __init__(self, rules: Iterable[Rule], certificates: Mapping[Rule, Certificate], anew: bool = False) -> None:
        self._book, self._anew = CertifiedBook(certificates, refute=find_counterexample), anew
        self._signatures: dict[Rule, list[Signature]] = {}
        for rule in rules:
            proofs = certificates[rule].proofs
            self._signatures[rule] = [signature for signature, _ in proofs]
            # A proof that assumes that the left side is defined does not prove the reversed rule.
            both_ways = [signature for signature, proved in proofs if not proved.defined_left]
            self._signatures.setdefault(rule.reversed(), both_ways)
        self._certified: dict[object, bool] = {}
        self._proven: dict[object, bool] = {}

    def __call__(self, rule: Rule, bindings: Bindings, old: Term, new: Term) -> bool:
        key = self._key(rule, bindings)
        if self._is_certified(key, rule, bindings):
            return True
        if key not in self._proven:
            self._proven[key] = self._anew and self._book.check(rule, bindings) is not None
        return self._proven[key]

    def is_possible(self, rule: Rule, bindings: Bindings) -> bool:
        """Return False if the step is known to be invalid, without a proof: True if it is certified or unproven."""
        key = self._key(rule, bindings)
        return self._is_certified(key, rule, bindings) or self._proven.get(key, self._anew)

    def _key(self, rule: Rule, bindings: Bindings) -> object:
        types = tuple((name, term.type) for name, term in sorted(bindings.terms.items()))
        return rule, types, repr_attrs(sorted(bindings.attrs.items(), key=lambda item: item[0]))

    def _is_certified(self, key: object, rule: Rule, bindings: Bindings) -> bool:
        if key not in self._certified:
            certified = self._signatures.get(rule, ())
            self._certified[key] = any(self._book.allows(rule, signature, bindings) for signature in certified)
        return self._certified[key]
