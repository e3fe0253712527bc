"""Options of `check`, checked in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

from superopt.optimizer.option_values import SAMPLES, as_list, check_shapes, whole

if TYPE_CHECKING:
    from superopt.optimizer.input_data import InputData
    from superopt.runtime import GivenShape

__all__ = ["CheckOptions"]


@dataclass(frozen=True)
class CheckOptions:
    """Options of `check`; the signature shows the defaults. Raises ValueError for a value that cannot be used.

    Attributes:
        seconds: Seconds for proof and search together.
        seed: Seed of the inputs.
        shapes: Shapes of dynamic inputs, by name, at which a difference is searched for; the proof is about all sizes.
        inputs: Values of inputs for the search: .npz files, or arrays by name.
        by_position: True if inputs and outputs of the models correspond by position, whatever their names.
        witness: File to which an input on which the models differ is written; None: it is not.
        certificate: File to which the proof is written if the models are equal; None: it is not.
    """

    seconds: float = 60.0
    seed: int = 0
    shapes: Mapping[str, GivenShape] = field(default_factory=dict)
    inputs: Sequence[InputData] = ()
    by_position: bool = False
    witness: Path | None = None
    certificate: Path | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.seconds, Real) and self.seconds > 0):
            raise ValueError(f"seconds must be positive, not {self.seconds!r}")
        object.__setattr__(self, "seed", whole("seed", self.seed))
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, not {self.seed}")
        check_shapes(self.shapes)
        object.__setattr__(self, "inputs", as_list("inputs", self.inputs, *SAMPLES))
        for field_name in ("witness", "certificate"):
            path = getattr(self, field_name)
            if isinstance(path, str):
                object.__setattr__(self, field_name, Path(path))
            elif not isinstance(path, (Path, type(None))):
                raise ValueError(f"{field_name} must be a path, not {path!r}")
