"""`check`: are two models equal? Interfaces first, then a short search for a difference, a proof, a longer search."""

from __future__ import annotations

import io
import re
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from superopt.blas import one_thread
from superopt.check.answer import DIFFERENT, EQUIVALENT, Answer, Difference, PartingPair
from superopt.check.certificate import Certificate
from superopt.check.constants import ChangedWeight
from superopt.check.differences import Witness
from superopt.check.equality import but_for_jumps, joined, prove_equal
from superopt.check.interface import (
    equal_in_left_only,
    input_differences,
    output_differences,
    own_defaults,
    renamed_by_position,
    with_weights_for_inputs,
)
from superopt.check.options import CheckOptions
from superopt.check.parting import Parting, find_parting
from superopt.check.proven import Equality
from superopt.check.regions import correspondences, name_of, unproven_pairs
from superopt.check.side import Side
from superopt.check.witness import WitnessSearch
from superopt.files import OutputError, write_whole
from superopt.ir.term import node_of
from superopt.onnx_io import Model, ModelError
from superopt.onnx_io.load import load_proto
from superopt.optimizer.arguments import replaced
from superopt.optimizer.source import Source
from superopt.runtime import Feeds, RuntimeUnavailable, Unfeedable, close_unused
from superopt.wording import counted

__all__ = ["check", "replay"]

# Shares of the time: for a short search before the proof, and for the proof.
_FIRST_SHARE, _PROOF_SHARE = 0.15, 0.6
_REFERENCE_SHARE = 0.3  # for one evaluation in float64, at most
_FIRST_INPUTS = 4
_PARTING_SECONDS = 30.0  # at most, to find the pair where the models part
_SAME_NUMBERS = "the same real numbers, proven for all inputs and all sizes above 0"
_SAME_STRUCTURE = "one structure: as read and simplified, both models apply the same operators to the same weights"


CheckedModel = str | Path | onnx.ModelProto | Source


@one_thread()
def check(
    left: CheckedModel,
    right: CheckedModel,
    options: CheckOptions | None = None,
    *,
    progress: Callable[[str], None] | None = None,
    **settings: Any,
) -> Answer:
    """Return whether two models compute the same function, for all inputs and all dynamic sizes.

    `options` defaults to `CheckOptions()`. Keyword arguments with the names of its fields replace single options:
    `check("a.onnx", "b.onnx", seconds=300)`.

    The answer is Equivalent if the kernel proves it, Different if the interfaces differ, if ONNX Runtime confirms an
    input on which outputs differ by more than roundings, or if a few elements of weights alone differ and float64 shows
    it, else Unknown. An output file that cannot be written does not cost the answer, which says so. Raises TypeError,
    ValueError (an option that cannot be used), ModelError, InputError, OSError.
    """
    given = CheckOptions() if options is None else options
    options = replaced(given, settings, CheckOptions, "superopt.check.CheckOptions", "seconds=300")
    return _Check(left, right, options, progress or (lambda _: None)).run()


@one_thread()
def replay(
    certificate: Path,
    left: CheckedModel,
    right: CheckedModel,
    *,
    by_position: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Answer:
    """Return the answer that a certificate proves: Equivalent if the kernel confirms its steps for these two models.

    Raises ModelError, OSError.
    """
    run = _Check(left, right, CheckOptions(by_position=by_position), progress or (lambda _: None))
    return run.replayed(certificate)


def _only_names(differences: list[str]) -> bool:
    """Return True if the interfaces may differ in names only: as many inputs and outputs are missing on either side."""
    missing: dict[str, Counter[str]] = {"A": Counter(), "B": Counter()}
    for line in differences:
        found = re.match(r"(A|B) has no (input|output) '", line)
        if found is None:
            return False
        missing[found[1]][found[2]] += 1
    return missing["A"] == missing["B"]


class _Check:
    """One run of `check`."""

    def __init__(
        self,
        left: CheckedModel,
        right: CheckedModel,
        options: CheckOptions,
        progress: Callable[[str], None],
    ) -> None:
        self._options, self._progress = options, progress
        self._answer = Answer(_label(left), _label(right), seed=options.seed)
        with self._phase("read"):
            one, other = (model if isinstance(model, Source) else Source(model) for model in (left, right))
            if options.by_position:
                other = Source(renamed_by_position(_whole(other), one.proto))
            if added := own_defaults(other.proto, one.proto):
                other = Source(with_weights_for_inputs(_whole(other), added))
                self._note(f"inputs that B alone has are at their default values: {', '.join(map(repr, added[:3]))}")
        self._left, self._right, self._end = Side(one), Side(other), 0.0
        self._search: WitnessSearch | None = None
        self._models: tuple[Model, Model] | None = None
        self._changed: tuple[ChangedWeight, ...] = ()  # see `Equality`
        self._jumps: frozenset[str] = frozenset()

    def run(self) -> Answer:
        """Return the answer."""
        try:
            if self._interfaces_agree():
                self._prepare_search()
                self._end = time.monotonic() + self._options.seconds
                self._decide()
        finally:
            close_unused()
        return self._answer

    def replayed(self, certificate: Path) -> Answer:
        """Return the answer that the file `certificate` proves."""
        proof = Certificate.read(certificate)
        answer = self._answer
        if not self._interfaces_agree():
            return answer
        answer.reason = f"{certificate} does not prove that these two models are equal"
        with self._phase("replay"):
            self._progress("replaying the certificate: the kernel proves each of its equations again")
            if self._models is not None and proof.replay(*self._models):
                answer.verdict, answer.reason = EQUIVALENT, "the certificate was replayed by the kernel"
                answer.reason += _bound(proof.error)
                answer.certificate = str(certificate)
                answer.outputs = dict.fromkeys(self._left.terms.output_names, True)
        return answer

    def _interfaces_agree(self) -> bool:
        """Compare interfaces, and read both models as terms over the same leaves."""
        answer = self._answer
        with self._phase("read"):
            self._progress("reading both models")
            found = input_differences(self._left.source.proto, self._right.source.proto)
            models = (self._left.terms, self._right.terms)  # unreadable models are no answer
            for name in equal_in_left_only(self._left.source.proto, self._right.source.proto):
                self._note(f"all sizes {name!r} of inputs are equal in A only; the answer is about such inputs")
            if not found:
                try:
                    self._models = joined(*models)
                    found = output_differences(*self._models)
                except ModelError as error:
                    self._note(f"nothing can be proven: {error}")
        if found:
            answer.interface, answer.verdict = found, DIFFERENT
            answer.reason = "the interfaces differ: " + "; ".join(found[:3])
            if not self._options.by_position and _only_names(found):
                answer.notices.append(
                    "--by-position compares inputs and outputs by their positions, not by their names"
                )
        return not found

    def _prepare_search(self) -> None:
        """Check the given shapes and values, whether a search will need them or not. Raises InputError."""
        options = self._options
        try:
            self._search = WitnessSearch(
                self._left,
                self._right,
                shapes=options.shapes,
                inputs=options.inputs,
                seed=options.seed,
                reference_s=_REFERENCE_SHARE * options.seconds,
                progress=self._progress,
            )
        except Unfeedable as error:
            self._note(f"no input can be tried: {error}")

    def _note(self, line: str) -> None:
        if line not in self._answer.notices:
            self._answer.notices.append(line)

    def _decide(self) -> None:
        models = self._models
        same = models is not None and models[0].outputs == models[1].outputs
        # One run, in any case: it tells if the second model is one at all, and has the sizes that were read from it.
        if self._differs(_FIRST_SHARE * self._options.seconds, most=1 if same else _FIRST_INPUTS):
            return
        if self._models is not None and self._proves(*self._models):
            return
        if self._changed and self._differs_in_weights((self._end - time.monotonic()) / 2):
            return
        # A proof may overrun its share; the search gets its own all the same.
        least = (1 - _FIRST_SHARE - _PROOF_SHARE) * self._options.seconds
        if self._differs(max(self._end - time.monotonic(), least)):
            return
        unproven = [name for name, proven in self._answer.outputs.items() if not proven]
        shown = ", ".join(unproven[:3]) + (", ..." if len(unproven) > 3 else "")
        tried = f"{self._answer.tried} inputs show no difference" if self._answer.tried else "no input was tried"
        what = f"not proven: {shown}" if shown else "nothing was proven"
        but_for = [f"equal but for {self._changed_weight()}"] if self._changed else []
        but_for += [but_for_jumps(self._jumps)] if self._jumps else []
        self._answer.reason = "; ".join((what, *but_for, tried))

    def _proves(self, left: Model, right: Model) -> bool:
        """Prove the outputs equal; note what was proven and what was not."""
        answer = self._answer
        seconds = _PROOF_SHARE * self._options.seconds
        with self._phase("prove"):
            self._progress(f"proving: up to {seconds:.0f} s")
            equality = prove_equal(left, right, seconds=seconds, seed=self._options.seed, progress=self._progress)
        answer.outputs = dict(zip(left.output_names, equality.outputs, strict=True))
        answer.correspondences = correspondences(equality, (left, right))
        if all(equality.outputs) and equality.certificate is not None:
            self._proven(equality)
            return True
        answer.unproven = unproven_pairs(equality)
        self._changed, self._jumps = equality.changed, equality.jumps
        return False

    def _differs_in_weights(self, seconds: float) -> bool:
        """Search for an input on which models differ that are equal but for a few elements of weights."""
        if self._search is None:
            return False
        with self._phase("search"):
            witness = self._search.in_float64(max(seconds, 1.0))
        if witness is None:
            return False
        problem = f"equal but for {self._changed_weight()}; {witness.problem}; runs need not show it"
        self._different(replace_fields(witness, problem=problem))
        return True

    def _changed_weight(self) -> str:
        """Return the name of a weight of which a few elements differ, with one of these, and the number of others."""
        assert self._models is not None
        one = self._changed[0]
        more = f" and {counted(len(self._changed) - 1, 'other weight')}" if len(self._changed) > 1 else ""
        name = name_of(self._models[1], one.weight)
        return f"{name!r}{list(one.place)} ({one.left:.9g} in A, {one.right:.9g} in B){more}"

    def _proven(self, equality: Equality) -> None:
        answer = self._answer
        answer.verdict = EQUIVALENT
        same = self._models is not None and self._models[0].outputs == self._models[1].outputs
        answer.reason = _SAME_STRUCTURE if same else _SAME_NUMBERS
        answer.reason += _bound(answer.error)
        if any(one.by == "runtime" for one in answer.correspondences):
            answer.reason += ", with constants that ONNX Runtime computed"
        if self._options.certificate is not None and equality.certificate is not None:
            answer.certificate = self._written(self._options.certificate, equality.certificate.write)

    def _written(self, path: Path, write: Callable[[Path], None]) -> str | None:
        """Return the name of a file that `write` has written. A full disk costs the file, not the answer."""
        try:
            write(path)
        except OutputError as error:
            self._answer.not_written.append(str(error))
            return None
        return str(path)

    def _differs(self, seconds: float, most: int | None = None) -> bool:
        """Search for an input on which the models differ, if `most` is given among so many, and briefly."""
        answer = self._answer
        with self._phase("search"):
            if self._search is None:
                return False
            try:
                if most is not None:
                    witness = self._search.glance(max(seconds, 1.0), most)
                    self._search.pause()
                else:
                    witness = self._search.run(max(seconds, 1.0))
            except (Unfeedable, RuntimeUnavailable) as error:
                self._note(f"no input was tried: {error}")
                return False
            answer.tried = self._search.tried
            for line in self._search.notices:
                self._note(line)
            if witness is not None:
                self._different(witness)
        return witness is not None

    def _different(self, witness: Witness) -> None:
        answer, gap, path = self._answer, witness.gap, self._options.witness
        file = None if path is None else self._written(path, lambda to: _save(to, witness.feeds))
        answer.verdict, answer.reason = DIFFERENT, witness.problem
        answer.difference = Difference(
            witness.problem,
            witness.kind,
            {name: tuple(array.shape) for name, array in witness.feeds.items()},
            witness.output,
            gap.index if gap is not None else (),
            witness.left,
            witness.right,
            gap.relative if gap is not None else None,
            gap.rounding if gap is not None else None,
            file,
            witness.is_faint,
        )
        names = [value.name for value in self._left.source.proto.graph.output]
        if witness.exact and witness.output in names:
            self._progress("finding where the models part")
            number, relative = names.index(witness.output), gap.relative if gap is not None else 1.0
            parting = find_parting(self._left, self._right, witness.feeds, number, relative, _PARTING_SECONDS)
            answer.parting = None if parting is None else self._named(parting)

    def _named(self, parting: Parting) -> PartingPair:
        left, right = self._left.terms, self._right.terms
        return PartingPair(
            name_of(left, parting.left),
            name_of(right, parting.right),
            node_of(parting.left).op,
            node_of(parting.right).op,
            [name_of(left, term) for term in parting.agreeing],
        )

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            seconds = self._answer.seconds
            seconds[name] = round(seconds.get(name, 0.0) + time.monotonic() - begun, 3)


def _bound(error: float) -> str:
    return f", with folded weights within a relative error of {error:.1e}" if error else ""


def _whole(source: Source) -> onnx.ModelProto:
    return source.proto if source.path is None else load_proto(source.path)


def _label(model: CheckedModel) -> str:
    if isinstance(model, Source):
        return model.name or "model in memory"
    return "model in memory" if isinstance(model, onnx.ModelProto) else str(model)


def _save(path: Path, feeds: Feeds) -> None:
    """Write inputs as an .npz file, all or nothing, whatever their names. Raises OutputError."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in feeds.items():
            with archive.open(f"{name}.npy", "w") as file:
                text = array.astype(str) if array.dtype == object else array
                np.lib.format.write_array(file, text, allow_pickle=False)
    write_whole(path, buffer.getvalue())
