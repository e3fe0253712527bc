"""The option `--check` of `optimize`: the result is proven equal to the original again, without its derivation."""

from __future__ import annotations

import json
from collections.abc import Callable

from superopt.check import DIFFERENT, Answer, CheckOptions, check
from superopt.cli.terminal import NEGATIVE, errors
from superopt.onnx_io import ModelError
from superopt.optimizer import Options, Result
from superopt.optimizer.source import Source

__all__ = ["SecondProof"]


class SecondProof:
    """Checks a result before it is written. `answer` is None until then, and if the result cannot be checked."""

    def __init__(self, options: Options, progress: Callable[[str], None]) -> None:
        self._options = CheckOptions(seed=options.seed, shapes=options.shapes, inputs=options.inputs)
        self._progress = progress
        self._problem = "the run was stopped before"
        self.answer: Answer | None = None

    def __call__(self, source: Source, result: Result) -> None:
        """Check `result`. Exits with code 1, before anything is written, if it differs from the original."""
        assert result.proto is not None
        try:
            self.answer = check(source, result.proto, self._options, progress=self._progress)
        except ModelError as error:  # weights in other files
            self._problem = str(error)
            return
        if self.answer.verdict == DIFFERENT:
            errors().print(f"error: the result differs from the original, nothing was written: {self.answer.reason}")
            raise SystemExit(NEGATIVE)

    def line(self) -> str:
        """Return one line for the user."""
        if self.answer is None:
            return f"not checked without the derivation: {self._problem}"
        return f"checked without the derivation: {self.answer.verdict}, {self.answer.reason}"

    def added_to(self, result: Result) -> str:
        """Return the JSON of `result` with the answer under `check`."""
        answer = None if self.answer is None else json.loads(self.answer.to_json())
        return json.dumps({**json.loads(result.to_json()), "check": answer}, indent=2)
