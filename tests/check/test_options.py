"""Options of `check` from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from superopt.check import DIFFERENT, CheckOptions, check
from tests.support.checked import network, scaled


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seconds", 0, "seconds must be positive, not 0"),
        ("seconds", "60", "seconds must be positive, not '60'"),
        ("seed", -1, "seed must not be negative, not -1"),
        ("seed", 1.5, "seed must be a whole number, not 1.5"),
        ("shapes", {"x": 5}, "the shape of input x is 5, not a tuple of sizes"),
        ("inputs", [5], "inputs must be .npz files or arrays by name, not [5]"),
        ("certificate", 5, "certificate must be a path, not 5"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_in_one_line(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is checked below
        CheckOptions(**{name: value})
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_a_single_sample_needs_no_list() -> None:
    assert CheckOptions(inputs="sample.npz").inputs == ("sample.npz",)
    sample = {"x": np.ones(2)}
    assert CheckOptions(inputs=sample).inputs == (sample,)  # type: ignore[arg-type]


def test_files_may_be_named_by_text(tmp_path: Path) -> None:
    changed = network()
    scaled("w")(changed)
    witness = tmp_path / "witness.npz"
    answer = check(network(), changed, CheckOptions(witness=str(witness)))  # type: ignore[arg-type]
    assert answer.verdict == DIFFERENT and witness.is_file()
