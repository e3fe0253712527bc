"""Options of `optimize`: defaults, refusals, and the two ways to give them."""

from __future__ import annotations

import inspect
import math
import os
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import superopt
from superopt import Options
from superopt.optimizer.model_search import FoundRewrites, SearchRequest
from superopt.search import DeviceError, device_of
from tests.support.models import lora


def test_keyword_arguments_replace_single_options() -> None:
    heard: list[Options] = []

    def finder(request: SearchRequest) -> FoundRewrites:
        heard.append(request.options)
        return FoundRewrites()

    given = Options(ep="cpu", cost="analytic", budget=3.0)
    superopt.optimize(lora(), options=given, finder=finder)
    superopt.optimize(lora(), ep="cpu", cost="analytic", budget=3.0, finder=finder)
    superopt.optimize(lora(), None, given, seed=7, finder=finder)
    assert heard == [given, given, Options(ep="cpu", cost="analytic", budget=3.0, seed=7)]


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="bugdet"):
        superopt.optimize(lora(), bugdet=3.0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ep", "tpu", "unknown execution provider 'tpu' (auto, cpu, cuda)"),
        ("numerics", "loose", "unknown class of numerics 'loose'"),
        ("cost", "guessed", "unknown source of costs 'guessed'"),
        ("threads", -1, "threads must be at least 0, not -1"),
        ("threads", 10**6, "threads must be at most"),
        ("threads", "4", "threads must be a number, not '4'"),
        ("budget", "long", "budget must be a number, not 'long'"),
        ("threads", None, "threads must be a number, not None"),
        ("threads", 1.5, "threads must be a whole number, not 1.5"),
        ("samples", math.inf, "samples must be a whole number, not inf"),
        ("target_opset", "17", "target_opset must be a number, not '17'"),
        ("alpha", None, "alpha must be a number, not None"),
        ("timeout", "1h", "timeout must be a positive number of seconds, not '1h'"),
        ("timeout", math.nan, "timeout must be a positive number of seconds, not nan"),
        ("seed", -1, "seed must be at least 0"),
        ("budget", -1.0, "budget must be at least 0"),
        ("budget", math.nan, "budget must be at least 0, not nan"),
        ("alpha", 0.5, "alpha must be at least 1"),
        ("effort", 0, "effort must be at least 1"),
        ("effort", 99, "effort must be at most"),
        ("samples", 0, "samples must be at least 1"),
        ("shapes", {"x": (1, -1)}, "the shape of input x has a negative size: 1x-1"),
        ("shapes", (1, 3), "shapes must be a dictionary of shapes by input, not (1, 3)"),
        ("shapes", {"x": 1}, "the shape of input x is 1, not a tuple of sizes"),
        ("shapes", {"x": (1, "N")}, "the shape of input x has the size 'N'; a size is a whole number"),
        ("shapes", {"x": (1.5, 8)}, "the shape of input x has the size 1.5"),
        ("shapes", {"x": ([1, 8], 8)}, "the shape of input x has the size [1, 8]"),
        ("inputs", [5], "inputs must be .npz files or arrays by name, not [5]"),
        ("add_rules", 5, "add_rules must be files or folders of rules, not 5"),
        ("skip_rules", None, "skip_rules must be ids of rules, not None"),
        ("target_absent", True, "target_absent needs analytic costs"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_in_one_line(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is checked below
        Options(**{name: value})
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_a_single_value_needs_no_list() -> None:
    sample = {"x": np.ones(2)}
    assert Options(inputs=sample).inputs == (sample,) and Options(inputs=[sample]).inputs == [sample]
    assert Options(inputs="sample.npz").inputs == ("sample.npz",)  # not ten files of one letter
    assert Options(add_rules="mine").add_rules == ("mine",)
    assert Options(skip_rules="merge").skip_rules == ("merge",)


def test_numbers_of_numpy_are_numbers() -> None:
    options = Options(threads=np.int64(1), seed=np.uint8(3), budget=np.float32(2.5), target_opset=np.int32(17))
    assert options == Options(threads=1, seed=3, budget=2.5, target_opset=17)
    assert type(options.threads) is int


def test_a_device_is_a_description_a_file_or_a_name(tmp_path: Path) -> None:
    assert Options().load_device() is None
    assert Options(device=device_of("cpu")).load_device() == device_of("cpu")
    shipped = Options(device="cuda_h200").load_device()
    assert shipped is not None and shipped.name == "NVIDIA H200"
    (tmp_path / "odd.toml").write_text("dense = 'much'")
    with pytest.raises(DeviceError, match="odd"):
        Options(device=tmp_path / "odd.toml").load_device()
    (tmp_path / "empty.toml").touch()
    with pytest.raises(DeviceError, match=r"empty\.toml: lacks .*dense.*superopt calibrate"):
        Options(device=tmp_path / "empty.toml").load_device()
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(DeviceError, match="no regular file"):  # it would be waited for without end
        Options(device=tmp_path / "pipe.toml").load_device()


@pytest.mark.parametrize("options", [Options, superopt.check.CheckOptions])
def test_every_option_has_a_default_and_a_description(options: type) -> None:
    described = re.findall(r"^    (\w+): \S", inspect.getdoc(options) or "", re.M)
    assert described == [field.name for field in fields(options)]
    options()


def test_the_budget_is_one_number() -> None:
    assert Options().budget_s == 40.0 and Options(effort=2).budget_s == 120.0
    assert Options(budget=7.0, effort=3).budget_s == 7.0
    assert Options(timeout=10.0).budget_s == Options(budget=60.0, timeout=10.0).budget_s < 10.0
    assert Options(timeout=1e6).budget_s == 40.0
