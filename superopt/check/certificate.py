"""Certificates: the proof that two models are equal, as a file, and its replay.

A certificate proves nothing by being there. The replay reads both models' terms, proves each equation again in the
kernel, compares the folded constants again (by a run where the certificate says so), and rebuilds the right model's
outputs over the left model's tensors.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from superopt.check.bodies import Bodies
from superopt.check.constants import Constants, rests_on
from superopt.check.derivation import DerivationText, carried_out, parse_sides, stepped, steps_text
from superopt.check.folding import Folding, folding_holds
from superopt.check.joining import by_digest
from superopt.check.left_out import is_computed_as_often
from superopt.check.runs import ConstantRuns
from superopt.check.sweep import Claim, Sweep, holds
from superopt.files import write_text
from superopt.ir.infer import OPERATORS, IllTyped, make
from superopt.ir.infer import replace as replace_terms
from superopt.ir.notation import NotationError, parse_signature, show_signature
from superopt.ir.term import Term, topological
from superopt.onnx_io import Model, ModelError
from superopt.optimizer.equations import show_sides
from verify.proof_book import ProofBook
from verify.replay import ReplayError, merged_casts

__all__ = ["BodyClaim", "Certificate", "certified"]

_SCHEMA = 7
EquationText: TypeAlias = tuple[str, str]
FoldingText: TypeAlias = tuple[Any, ...]
Expression: TypeAlias = tuple[Any, ...]
BodyClaim: TypeAlias = "tuple[str, str, tuple[Certificate, ...]]"

# What reading or carrying out a text raises that nobody wrote as a certificate, or that was one of other models.
_MALFORMED = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, AssertionError
)  # fmt: skip
_MISFIT = (ReplayError, NotationError, IllTyped, *_MALFORMED)


@dataclass(frozen=True)
class Certificate:
    """A proof that the outputs of two models are equal.

    `derivations` has the steps by which rules rewrote both models before all else (see `derivation.py`), `models` the
    digests of the outputs after them, as terms. `claims` has, for the digest of a right tensor over left tensors, the
    digest of the left tensor, the equation (both sides, see `show_sides`), the signature, and the reading of its
    literals. `congruent` has the digests of a right and a left tensor, which are equal as their operands are claimed to
    be. `folded` has the digest of a constant of the right model, the expression over left constants that is equal
    to it, the bound of their relative difference, and True if ONNX Runtime computes one as the other. `foldings` has
    the digests of the right and the left tensor, the steps (rule, signature, digests of roots), the pairs of constants,
    and the last equation with its signature, if there is one. `bodies` has the digests of a right and a left node with
    bodies, and a certificate for each pair of bodies.
    """

    models: tuple[str, str]
    derivations: tuple[DerivationText, DerivationText] = ((), ())
    claims: tuple[tuple[str, str, EquationText, str, int], ...] = ()
    congruent: tuple[tuple[str, str], ...] = ()
    folded: tuple[tuple[str, Expression, float, bool], ...] = ()
    foldings: tuple[FoldingText, ...] = ()
    bodies: tuple[BodyClaim, ...] = ()

    @property
    def error(self) -> float:
        """The largest bound of the relative difference of weights."""
        of_folded = [error for _, _, error, _ in self.folded]
        of_pairs = [error for _, _, _, pairs, _ in self.foldings for _, _, error in pairs]
        of_bodies = [one.error for _, _, proofs in self.bodies for one in proofs]
        return max([*of_folded, *of_pairs, *of_bodies], default=0.0)

    def write(self, path: str | Path) -> None:
        """Write the certificate as JSON, all or nothing. Raises OutputError."""
        content = {"schema_version": _SCHEMA, **self._content()}
        write_text(Path(path), json.dumps(content, indent=1) + "\n")

    def _content(self) -> dict[str, Any]:
        rules = list(dict.fromkeys(claim[2] for claim in self.claims))
        number = {rule: k for k, rule in enumerate(rules)}
        claims = [[right, left, number[rule], *rest] for right, left, rule, *rest in self.claims]
        return {
            "models": self.models,
            "derivations": self.derivations,
            "equations": rules,
            "claims": claims,
            "congruent": self.congruent,
            "folded_constants": self.folded,
            "foldings": self.foldings,
            "bodies": [(right, left, [one._content() for one in proofs]) for right, left, proofs in self.bodies],
        }

    @staticmethod
    def read(path: str | Path) -> Certificate:
        """Return the certificate in the file `path`. Raises ModelError."""
        try:
            content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["schema_version"] != _SCHEMA and "claims" in content:
                raise ModelError(f"{path}: a certificate of another version; check the models again")
            return Certificate._of(content)
        except OSError as error:
            raise ModelError(f"{path}: {error.strerror or error}") from None
        except ModelError:
            raise
        except _MALFORMED:
            raise ModelError(f"{path}: not a certificate of `superopt check`") from None

    @staticmethod
    def _of(content: dict[str, Any]) -> Certificate:
        """Return the certificate that `_content` gave. Raises what is in `_MALFORMED`."""
        one, other = map(str, content["models"])
        first, second = map(_tuples, content["derivations"])
        rules: list[EquationText] = [(str(lhs), str(rhs)) for lhs, rhs in content["equations"]]
        claims = tuple((str(a), str(b), rules[int(k)], str(s), int(r)) for a, b, k, s, r in content["claims"])
        congruent = tuple((str(a), str(b)) for a, b in content["congruent"])
        folded = tuple(
            (str(a), _tuples(b), _bound(error), ran is True) for a, b, error, ran in content["folded_constants"]
        )
        foldings = tuple(
            (str(right), str(left), _tuples(steps), _bounded(pairs), _tuples(last))
            for right, left, steps, pairs, last in content["foldings"]
        )
        bodies = tuple((str(a), str(b), tuple(map(Certificate._of, proofs))) for a, b, proofs in content["bodies"])
        return Certificate((one, other), (first, second), claims, congruent, folded, foldings, bodies)

    def replay(self, left: Model, right: Model) -> bool:
        """Return True if this certificate proves that the joined models `left` and `right` are equal."""
        if not is_computed_as_often(left, right):
            return False
        book = ProofBook()
        try:
            first, second = self.derivations
            left = carried_out(left, first, book, is_second=False)
            right = carried_out(right, second, book, is_second=True)
        except _MISFIT:  # it does not fit the models
            return False
        sweep, constants = Sweep(left, right), Constants.of_models(left, right)
        runs, rounded = ConstantRuns(left, right), set[Term]()
        ours = by_digest(left.outputs)
        claims, congruent = {claim[0]: claim[1:] for claim in self.claims}, dict(self.congruent)
        folded = {entry[0]: entry[1:] for entry in self.folded}
        foldings = {folding[0]: folding for folding in self.foldings}
        bodies, proofs = Bodies(left, right), {claim[0]: claim[1:] for claim in self.bodies}

        def is_claimed(ours: Term, theirs: Term, left: Term, right: Term) -> bool:
            """Return True if a claim that `ours` is `theirs` holds, as needed for tensors of the two models."""
            claims = (
                Claim(ours, theirs, parse_sides(equation), parse_signature(signature), reading)
                for name, other, equation, signature, reading in self.claims
                if (name, other) == (theirs.digest, ours.digest)
            )
            return any(holds(claim, book) and constants.bears(claim, left, right) for claim in claims)

        def decide(term: Term, image: Term) -> Term | None:
            if image.is_constant and image.digest in folded:
                expression, stated, ran = folded[image.digest]
                try:
                    theirs = _built(expression, ours)
                except _MISFIT:  # it does not fit the models
                    return None
                if ran:
                    return theirs if runs.agree(theirs, image) else None
                found = constants.difference(theirs, image, term)
                if found is None or found > stated or (found and rests_on(image, rounded)):
                    return None
                rounded.update((theirs,) if found else ())
                return theirs
            try:
                if image.digest in foldings:
                    folding = _folding(foldings[image.digest], ours, image)
                    if not folding_holds(folding, book, constants):
                        return None
                    return folding.left if constants.bears(folding.last, folding.left, term) else None
                if image.digest in proofs:
                    name, certificates = proofs[image.digest]
                    pairs = bodies.pairs(ours[name], image)
                    if pairs is None or len(pairs) != len(certificates):
                        return None
                    proven = (one.replay(*pair) for one, pair in zip(certificates, pairs, strict=True))
                    return ours[name] if all(proven) else None
                if image.digest in congruent:
                    node = ours[congruent[image.digest]]
                    operands = zip(node.inputs, image.inputs, strict=True)
                    same = (a is b or (a and b and is_claimed(a, b, node, term)) for a, b in operands)
                    return node if sweep.is_congruent(node, image, term) and all(same) else None
                if image.digest in claims:
                    name, equation, signature, reading = claims[image.digest]
                    claim = Claim(ours[name], image, parse_sides(equation), parse_signature(signature), reading)
                    is_proven = holds(claim, book) and constants.bears(claim, claim.left, term)
                    return claim.left if is_proven else None
            except _MISFIT:  # it does not fit the models
                return None
            return None

        def is_equal(end: Term, output: Term) -> bool:
            try:
                return is_claimed(end, sweep.image[output], end, output)
            except _MISFIT:  # it does not fit the models
                return False

        for _ in sweep.run(decide, is_equal):
            pass
        images = tuple(sweep.outputs)
        casts = merged_casts(left.outputs).keys() == merged_casts(right.outputs).keys()
        return casts and len(left.outputs) == len(images) and images == left.outputs


def certified(
    left: Model,
    right: Model,
    claims: Iterable[Claim],
    congruent: Iterable[tuple[Term, Term]],
    foldings: Iterable[Folding],
    folded: Iterable[tuple[Term, Term, float, bool]],
    bodies: Iterable[BodyClaim],
) -> Certificate:
    """Return the certificate of a finished proof."""
    present = set(topological(left.outputs))
    return Certificate(
        (_digest(left), _digest(right)),
        claims=tuple((c.right.digest, c.left.digest, *_shown(c)) for c in claims),
        congruent=tuple((image.digest, ours.digest) for image, ours in congruent),
        folded=tuple((one.digest, _expression(other, present), error, ran) for other, one, error, ran in folded),
        foldings=tuple(map(_folding_text, foldings)),
        bodies=tuple(bodies),
    )


def _expression(term: Term, present: Set[Term]) -> Expression:
    """Return a constant by its digest if it is `present`, else by operator, attributes and operands."""
    if term in present:
        return (term.digest,)
    operands = tuple(_expression(operand, present) for operand in term.inputs if operand is not None)
    return term.op, tuple(term.attrs), operands


def _built(expression: Expression, ours: Mapping[str, Term]) -> Term:
    """Return the constant of an expression. Raises LookupError and others."""
    if len(expression) == 1:
        return ours[expression[0]]
    op, attrs, operands = expression
    if op not in OPERATORS:
        raise LookupError(f"no operator {op}")
    return make(op, tuple(_built(operand, ours) for operand in operands), dict(attrs))


def _shown(claim: Claim) -> tuple[EquationText, str, int]:
    return show_sides(claim.rule), show_signature(claim.signature), claim.reading


def _folding_text(folding: Folding) -> FoldingText:
    pairs = tuple((ours.digest, theirs.digest, error) for ours, theirs, error in folding.constants)
    last = () if folding.last is None else _shown(folding.last)
    return folding.right.digest, folding.left.digest, steps_text(folding.steps), pairs, last


def _folding(text: FoldingText, ours: Mapping[str, Term], image: Term) -> Folding:
    """Return the folding of `image` by its text: the steps are carried out. Raises LookupError and others."""
    _, name, shown, shown_pairs, shown_last = text
    left = ours[name]
    steps, (state,) = stepped((left,), shown)
    here = by_digest((state, image))
    pairs = tuple((here[a], here[b], error) for a, b, error in shown_pairs)
    last = None
    if shown_last:
        (right,) = replace_terms((image,), {a: b for a, b, _ in pairs})
        equation, signature, reading = shown_last
        last = Claim(state, right, parse_sides(equation), parse_signature(signature), int(reading))
    return Folding(left, image, steps, state, pairs, last)


def _bounded(pairs: Any) -> tuple[tuple[str, str, float], ...]:
    return tuple((str(a), str(b), _bound(error)) for a, b, error in pairs)


def _bound(stated: Any) -> float:
    """Return the bound of a difference. Raises ValueError for one that bounds nothing."""
    if not 0 <= float(stated) < math.inf:
        raise ValueError(f"a bound of {stated}")
    return float(stated)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _digest(model: Model) -> str:
    text = " ".join(term.digest for term in model.outputs)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
