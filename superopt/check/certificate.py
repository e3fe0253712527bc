"""Certificates: the proof that two models are equal, as a file, and its replay.

A certificate proves nothing by being there. The replay reads both models' terms, proves each equation again in the
kernel, compares the folded constants again, and rebuilds the right model's outputs over the left model's tensors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from superopt.check.constants import Constants
from superopt.check.sweep import Claim, Sweep, holds, merged_casts
from superopt.ir.notation import NotationError, parse_rule, parse_signature, show_rule, show_signature
from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.onnx_io import Model, ModelError
from verify.proof_book import ProofBook

__all__ = ["Certificate", "certified"]

_SCHEMA = 1


@dataclass(frozen=True)
class Certificate:
    """A proof that the outputs of two models are equal.

    `models` has the digests of both models' outputs as terms. `claims` has, for the digest of a right tensor over left
    tensors, the digest of the left tensor, the equation, the signature, and if literals stand for roots. `folded` has
    pairs of digests of constants, the right one first, with the bound of their relative difference.
    """

    models: tuple[str, str]
    claims: tuple[tuple[str, str, str, str, bool], ...] = ()
    folded: tuple[tuple[str, str, float], ...] = ()

    def write(self, path: str | Path) -> None:
        """Write the certificate as JSON. Raises OSError."""
        rules = list(dict.fromkeys(claim[2] for claim in self.claims))
        number = {rule: k for k, rule in enumerate(rules)}
        claims = [[right, left, number[rule], *rest] for right, left, rule, *rest in self.claims]
        content = {
            "schema_version": _SCHEMA,
            "models": self.models,
            "equations": rules,
            "claims": claims,
            "folded_constants": self.folded,
        }
        Path(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def read(path: str | Path) -> Certificate:
        """Return the certificate in the file `path`. Raises ModelError."""
        try:
            content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["schema_version"] != _SCHEMA:
                raise ModelError(f"{path}: a certificate of another version; check the models again")
            one, other = map(str, content["models"])
            rules = list(map(str, content["equations"]))
            claims = tuple((str(a), str(b), rules[int(k)], str(s), bool(r)) for a, b, k, s, r in content["claims"])
            folded = tuple((str(a), str(b), float(error)) for a, b, error in content["folded_constants"])
            return Certificate((one, other), claims, folded)
        except OSError as error:
            raise ModelError(f"{path}: {error.strerror or error}") from None
        except ModelError:
            raise
        except (ValueError, LookupError, TypeError):
            raise ModelError(f"{path}: not a certificate of `superopt check`") from None

    def replay(self, left: Model, right: Model) -> bool:
        """Return True if this certificate proves that the joined models `left` and `right` are equal."""
        sweep, book, constants = Sweep(left, right), ProofBook(), Constants(left.weights)
        ours = {term.digest: term for term in sweep.left}
        claims = {claim[0]: claim[1:] for claim in self.claims}
        folded = {right_one: (left_one, error) for right_one, left_one, error in self.folded}

        def decide(_: Term, image: Term) -> Term | None:
            if image.is_constant and image.digest in folded:
                name, stated = folded[image.digest]
                found = constants.difference(ours[name], image) if name in ours else None
                return ours[name] if found is not None and found <= stated else None
            if image.digest not in claims:
                return None
            name, equation, signature, roots = claims[image.digest]
            if name not in ours:
                return None
            try:
                claim = Claim(ours[name], image, _rule(equation), parse_signature(signature), roots)
            except NotationError:
                return None
            return ours[name] if holds(claim, book) else None

        for _ in sweep.run(decide):
            pass
        images = tuple(sweep.image[output] for output in right.outputs)
        casts = merged_casts(left.outputs) == merged_casts(right.outputs)
        return casts and len(left.outputs) == len(images) and images == left.outputs


def certified(
    left: Model, right: Model, claims: Iterable[Claim], folded: Iterable[tuple[Term, Term, float]]
) -> Certificate:
    """Return the certificate of a finished proof."""
    return Certificate(
        (_digest(left), _digest(right)),
        tuple((c.right.digest, c.left.digest, show_rule(c.rule), show_signature(c.signature), c.roots) for c in claims),
        tuple((one.digest, other.digest, error) for other, one, error in folded),
    )


def _rule(text: str) -> Rule:
    return replace(parse_rule(text), signatures=())


def _digest(model: Model) -> str:
    text = " ".join(term.digest for term in model.outputs)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
