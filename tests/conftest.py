"""Fixtures that tests share."""

from __future__ import annotations

import functools
import gc
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, settings

from superopt import store
from superopt.blas import one_thread
from superopt.ir.rule import Rule
from superopt.optimizer import run
from superopt.optimizer.pace import Pace
from superopt.optimizer.speed_check import SpeedCheck
from superopt.rulebook import kept_rules
from superopt.runtime import RuntimeUnavailable, resolve_target
from tests.support.certified import certified
from tests.support.models import LORA_RULES, lora
from tests.support.sampling import Sampled

# How long examples take to make says something of the machine, which may be busy, and nothing of what is tested.
settings.register_profile("suite", suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# Proofs make very many small objects; to look for cycles among them as often as Python does by itself takes about an
# eighth of their time.
gc.set_threshold(50_000, 20, 50)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --long`."""
    parser.addoption("--long", action="store_true", help="run what takes many minutes as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip `long` tests unless they are asked for, and begin with the `slow` ones.

    A slow test at the end would leave the other processes idle. The longest belong to `tests/verify`, which comes late
    in the order of names, so the slow tests run in reverse.
    """
    slow = [item for item in items if "slow" in item.keywords]
    items[:] = [*reversed(slow), *(item for item in items if "slow" not in item.keywords)]
    if not config.getoption("--long"):
        for item in items:
            if "long" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="takes many minutes: pytest --long"))


@pytest.fixture(scope="session", autouse=True)
def _linear_algebra_on_one_thread() -> Iterator[None]:
    """The processes of the suite take all cores already."""
    with one_thread():
        yield


@pytest.fixture
def sampled(request: pytest.FixtureRequest) -> Sampled:
    """Return a function: of the given rules, those of one class of the given number of classes; all with `--long`.

    A rule's class depends on nothing but its text, so the same rules are asked for until they change.
    """
    everything = bool(request.config.getoption("--long"))

    def chosen(rules: Iterable[Rule], classes: int) -> list[Rule]:
        return [rule for rule in rules if everything or zlib.crc32(rule.id.encode()) % classes == 0]

    return chosen


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip `cuda` tests without a GPU."""
    if item.get_closest_marker("cuda") and (problem := _problem_of_cuda()):
        pytest.skip(problem)


@functools.cache
def _problem_of_cuda() -> str:
    """Return why ONNX Runtime cannot use CUDA here, or "" if it can."""
    try:
        resolve_target("cuda")
    except RuntimeUnavailable as error:
        return str(error)
    return ""


@pytest.fixture(scope="session", autouse=True)
def _own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither read nor fill the user's cache of measurements, verdicts and rules that were read."""
    path = tmp_path_factory.mktemp("cache") / "store.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "default_path", lambda: path)
        patch.setattr(kept_rules, "default_folder", lambda: path.parent)
        yield


@pytest.fixture(autouse=True)
def _no_earlier_runs() -> None:
    """A test's runs search and compare, whatever other tests have searched and compared."""
    if store.default_path().exists():
        with store.ResultStore() as earlier:
            earlier.execute("DELETE FROM search")
            earlier.execute("DELETE FROM comparison")


@pytest.fixture
def short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements take half a second: for tests of what is said of a result that is twice as fast."""
    shorter = lambda validator, timers, _: SpeedCheck(validator, timers, Pace(0.5))  # noqa: E731
    monkeypatch.setattr(run, "SpeedCheck", shorter)


@pytest.fixture
def lora_rules(tmp_path: Path) -> Path:
    """A certified file with the rules that merge the branches of `models.lora`."""
    return certified(tmp_path / "lora.rules", LORA_RULES)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The file of `models.lora`."""
    onnx.save(lora(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"
