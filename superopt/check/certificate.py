"""Certificates: the proof that two models are equal, as a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from superopt.onnx_io import Model, ModelError

__all__ = ["Certificate"]

_SCHEMA = 1


@dataclass(frozen=True)
class Certificate:
    """A proof that the outputs of two models are equal. `models` has the digests of both models' outputs as terms."""

    models: tuple[str, str]

    def write(self, path: str | Path) -> None:
        """Write the certificate as JSON. Raises OSError."""
        content = {"schema_version": _SCHEMA, "models": list(self.models)}
        Path(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def read(path: str | Path) -> Certificate:
        """Return the certificate in the file `path`. Raises ModelError."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["schema_version"] != _SCHEMA:
                raise ModelError(f"{path}: a certificate of another version; check the models again")
            one, other = content["models"]
            return Certificate((str(one), str(other)))
        except OSError as error:
            raise ModelError(f"{path}: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"{path}: not a certificate of `superopt check`") from None

    def replay(self, left: Model, right: Model) -> bool:
        """Return True if this certificate proves that the joined models `left` and `right` are equal."""
        return left.outputs == right.outputs
