"""Verdicts of earlier runs."""

from __future__ import annotations

import cProfile
import math
import pstats
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from superopt.ir.notation import parse_rule
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Signature
from superopt.ir.term import var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError
from superopt.optimizer import optimize, proof_cache, proof_effort
from superopt.optimizer.model_search import FoundRewrites, SearchRequest
from superopt.optimizer.options import Options
from superopt.optimizer.proof_cache import ProofCache
from superopt.optimizer.proof_effort import GivenUp, calls_within, within_effort
from superopt.rulebook.loading import load_rules
from superopt.store import ResultStore
from tests.support.models import lora
from verify import proof_book
from verify.certificates import Certificate
from verify.proof_book import prove_at
from verify.stability.classes import UNSTABLE
from verify.verdict import Proved, Unknown, Verdict

TRUE = parse_rule("Add(x, y) = Add(y, x) @ x[_,_] y[_,_]")
FALSE = parse_rule("Sub(x, y) = Sub(y, x) @ x[_,_] y[_,_]")


@pytest.fixture
def unable(monkeypatch: pytest.MonkeyPatch) -> None:
    def prove_at(*_: object, **__: object) -> None:
        raise AssertionError("proven again")

    monkeypatch.setattr(proof_book, "prove_at", prove_at)


@pytest.fixture
def known(tmp_path: Path) -> Path:
    path = tmp_path / "store.sqlite"
    book = ProofCache(ResultStore(path))
    assert isinstance(book.verdict(TRUE, TRUE.signatures[0]), Proved)
    assert not isinstance(book.verdict(FALSE, FALSE.signatures[0]), Proved)
    return path


def test_nothing_is_proven_twice(known: Path, unable: None) -> None:
    book = ProofCache(ResultStore(known))
    assert isinstance(book.verdict(TRUE, TRUE.signatures[0]), Proved)
    assert isinstance(book.verdict(FALSE, FALSE.signatures[0]), Unknown)


def test_a_remembered_proof_answers_for_the_reversed_equation(known: Path, unable: None) -> None:
    """As it did in the run that found it, and therefore did not note the reversed one."""
    book = ProofCache(ResultStore(known))
    proved = book.verdict(TRUE, TRUE.signatures[0])
    assert TRUE.reversed().id != TRUE.id
    assert book.verdict(TRUE.reversed(), TRUE.signatures[0]) == proved


def test_proofs_at_any_signature_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of an attribute, z[1], are in none that is written in a file of rules."""
    rule = parse_rule("Expand[shape=z](Expand[shape=[z[1], b.shape[-1]]](b)) = Expand[shape=z](b)")
    signature = Signature((("b", (None, None)),), (("z", (2, 3, 4)), ("z[1]", 3)))
    proved = ProofCache(ResultStore(tmp_path / "store.sqlite")).verdict(rule, signature)
    assert isinstance(proved, Proved)
    monkeypatch.setattr(proof_book, "prove_at", lambda *_, **__: pytest.fail("proven again"))
    assert ProofCache(ResultStore(tmp_path / "store.sqlite")).verdict(rule, signature) == proved


def test_what_a_certificate_proves_is_not_proven_again(known: Path, tmp_path: Path, unable: None) -> None:
    with pytest.raises(AssertionError, match="proven again"):
        ProofCache(ResultStore(tmp_path / "other.sqlite")).verdict(TRUE, TRUE.signatures[0])
    proved = ProofCache(ResultStore(known)).verdict(TRUE, TRUE.signatures[0])
    assert isinstance(proved, Proved)
    certificates = {TRUE: Certificate.of(TRUE, [(TRUE.signatures[0], proved)])}
    book = ProofCache(ResultStore(tmp_path / "other.sqlite"), certificates)
    assert book.verdict(TRUE, TRUE.signatures[0]) == book.verdict(TRUE.reversed(), TRUE.signatures[0]) == proved


def test_a_certificate_that_does_not_answer_for_the_reverse_is_not_asked_again(
    known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that assumes its own left side defined says nothing of the reversed equation."""
    proved = ProofCache(ResultStore(known)).verdict(TRUE, TRUE.signatures[0])
    assert isinstance(proved, Proved)
    one_way = replace(proved, defined_left=True)
    certificates = {TRUE: Certificate.of(TRUE, [(TRUE.signatures[0], one_way)])}
    path = tmp_path / "other.sqlite"
    first = ProofCache(ResultStore(path), certificates).verdict(TRUE.reversed(), TRUE.signatures[0])
    monkeypatch.setattr(proof_book, "prove_at", lambda *_, **__: pytest.fail("proven again"))
    assert ProofCache(ResultStore(path), certificates).verdict(TRUE.reversed(), TRUE.signatures[0]) == first


def test_another_kernel_proves_again(known: Path, unable: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("superopt.optimizer.proof_cache.rule_kernel_hash", lambda rule: "another")
    with pytest.raises(AssertionError, match="proven again"):
        ProofCache(ResultStore(known)).verdict(TRUE, TRUE.signatures[0])


def test_a_file_that_cannot_be_used_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"no database" * 100)
    book = ProofCache(ResultStore(path))
    assert isinstance(book.verdict(TRUE, TRUE.signatures[0]), Proved)


def test_what_is_proven_now_is_known_apart_from_what_an_earlier_run_says(known: Path, unable: None) -> None:
    book = ProofCache(ResultStore(known))
    assert isinstance(book.verdict(TRUE, TRUE.signatures[0]), Proved)
    with pytest.raises(AssertionError, match="proven again"):
        book.own.verdict(TRUE, TRUE.signatures[0])


def test_proofs_that_cannot_be_repeated_are_forgotten(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_book, "prove_at", lambda *_, **__: Unknown("too hard today"))
    book = ProofCache(ResultStore(known))
    assert isinstance(book.verdict(TRUE, TRUE.signatures[0]), Proved)
    book.own.verdict(TRUE, TRUE.signatures[0])
    book.correct()
    assert isinstance(ProofCache(ResultStore(known)).verdict(TRUE, TRUE.signatures[0]), Unknown)


def test_a_proof_that_takes_too_long_is_given_up_in_this_run_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = tmp_path / "store.sqlite", []

    def little_effort(function: Callable[..., Verdict], *arguments: object, max_calls: int) -> Verdict:
        assert max_calls == calls_within(Options().budget_s)
        asked.append(arguments)
        return within_effort(function, *arguments, max_calls=10)

    with monkeypatch.context() as here:
        here.setattr(proof_cache, "within_effort", little_effort)
        book = ProofCache(ResultStore(path))
        for _ in range(2):
            assert isinstance(book.verdict(TRUE, TRUE.signatures[0]), Unknown)
        assert len(asked) == 1
    assert book.own.known(TRUE, TRUE.signatures[0]) is None
    assert isinstance(ProofCache(ResultStore(path)).verdict(TRUE, TRUE.signatures[0]), Proved)


def test_the_search_relies_on_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # without any earlier run
    asked = []

    def finder(request: SearchRequest) -> FoundRewrites:
        with monkeypatch.context() as here:
            here.setattr(proof_book, "prove_at", lambda *_, **__: pytest.fail("proven again"))
            for rule in load_rules(None)[:50]:
                asked.extend(request.proofs.verdict(rule, signature) for signature in rule.signatures)
        return FoundRewrites()

    optimize(lora(), ep="cpu", finder=finder)
    assert len(asked) >= 50 and all(isinstance(verdict, Proved) for verdict in asked)


def test_a_model_that_cannot_be_read_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError):
        optimize(tmp_path / "bad.onnx", ep="cpu")
    assert not (tmp_path / "cache").exists()


def test_a_proof_is_given_up_while_a_generator_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    monkeypatch.setattr(proof_effort, "_KERNEL", __file__)

    def long() -> None:
        for _ in range(2000):
            next(number for number in (1, 2))  # three calls: to make it, to take a number, to close it

    for limit in range(1000, 1003):
        with pytest.raises(proof_effort.GivenUp):
            proof_effort.within_effort(long, max_calls=limit)
    assert printed == [] and sys.unraisablehook == printed.append


def _calls(number: int) -> int:
    def call() -> int:
        return 1

    return sum(call() for _ in range(number))


def test_a_counted_proof_leaves_a_profiler_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_effort, "_SHORTEST_S", math.inf)  # counted at once
    profile = cProfile.Profile()
    profile.enable()
    assert within_effort(_calls, 10, max_calls=1000) == 10
    assert _calls(123) == 123
    profile.disable()
    stats = pstats.Stats(profile).get_stats_profile().func_profiles
    assert "call" in stats and int(stats["call"].ncalls) == 123
    assert sys.getprofile() is None


def test_a_short_proof_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_effort, "_call_limit", lambda _: pytest.fail("counted"))
    before = signal.getsignal(signal.SIGVTALRM)
    assert within_effort(_calls, 100, max_calls=calls_within(40.0)) == 100
    assert signal.getsignal(signal.SIGVTALRM) is before and signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


@pytest.mark.parametrize(("limit", "given_up"), [(40_000, True), (60_000, False)])
def test_a_long_proof_is_counted(monkeypatch: pytest.MonkeyPatch, limit: int, given_up: bool) -> None:
    """The timer stops the first attempt; in the second one the number of calls decides."""
    monkeypatch.setattr(proof_effort, "_KERNEL", __file__)
    monkeypatch.setattr(proof_effort, "_CALLS_PER_SECOND", limit * 40)
    attempts = []

    def long() -> int:
        attempts.append(1)
        while len(attempts) == 1:
            _calls(100)
        return _calls(25_000)  # two calls each

    if given_up:
        with pytest.raises(proof_effort.GivenUp):
            within_effort(long, max_calls=limit)
    else:
        assert within_effort(long, max_calls=limit) == 25_000
    assert len(attempts) == 2
    assert sys.getprofile() is None and signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_a_thread_without_signals_counts_calls() -> None:
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(within_effort, _calls, 100, max_calls=10_000).result() == 100


def test_what_fails_at_an_example_is_not_proven(tmp_path: Path, unable: None) -> None:
    rule = parse_rule("Sub(x, y) = Sub(y, x)")
    match = Bindings({name: var(name, tensor(64, 32)) for name in "xy"})
    assert ProofCache(ResultStore(tmp_path / "store.sqlite")).check(rule, match) is None


def test_what_holds_at_an_example_is_proven(tmp_path: Path) -> None:
    rule = parse_rule("Add(x, y) = Add(y, x)")
    match = Bindings({name: var(name, tensor(64, 32)) for name in "xy"})
    book = ProofCache(ResultStore(tmp_path / "store.sqlite"))
    signature = book.check(rule, match)
    assert signature is not None and list(book.made) == [(rule, signature)]


@pytest.mark.parametrize(("level", "asked"), [("real-only", True), ("normwise", False)])
def test_a_rule_that_is_too_loose_where_it_is_certified_is_not_proven_elsewhere(
    tmp_path: Path, level: str, asked: bool
) -> None:
    """Distributing over a sum that may cancel has no bound, at any rank."""
    rule = parse_rule("Mul(Sub(x, y), z) = Sub(Mul(x, z), Mul(y, z)) @ x[_,_] y[_,_] z[_,_]")
    proof = prove_at(rule, rule.signatures[0])
    assert isinstance(proof, Proved)
    certificate = Certificate.of(rule, [(rule.signatures[0], proof)], stability=[(UNSTABLE, UNSTABLE)])
    match = Bindings({name: var(name, tensor(3, 4, 5)) for name in "xyz"})
    book = ProofCache(ResultStore(tmp_path / "store.sqlite"), {rule: certificate}, level)
    assert (book.check(rule, match) is not None) is asked
    assert bool(book.made) is asked


def test_a_proof_that_waits_for_the_solver_is_given_up_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes few calls, and the clock says that they take long."""
    clock = iter(range(0, 10**9, 5))
    monkeypatch.setattr("superopt.optimizer.proof_effort.time.process_time", lambda: next(clock))
    monkeypatch.setattr(proof_effort, "_KERNEL", str(Path(__file__).parent))
    with pytest.raises(GivenUp), proof_effort._call_limit(4_000_000):
        _calls(50_000)
    assert sys.getprofile() is None
