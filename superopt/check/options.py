"""Options of `check`, checked in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

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
        if not self.seconds > 0:
            raise ValueError(f"seconds must be positive, not {self.seconds}")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, not {self.seed}")
