"""Certified rules are read once, and what is kept is used for the same files only."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from superopt.rulebook import kept_rules
from superopt.rulebook.kept_rules import kept_or_read
from superopt.rulebook.loading import Listed, certified_rules, read_all_rules


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, in a process that keeps nothing."""
    monkeypatch.setattr(kept_rules, "default_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(kept_rules, "_in_this_process", {})
    monkeypatch.setattr(kept_rules, "_MOST_HERE", 0)
    return tmp_path / "cache"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "own.rules"
    file.write_text("Relu(Relu(x)) = Relu(x) @ x[_,_]\n")
    return file


class Reader:
    """Reads a file of rules, and counts how often."""

    def __init__(self, file: Path) -> None:
        self.file, self.count = file, 0

    def __call__(self) -> list[Listed]:
        self.count += 1
        return read_all_rules([self.file])


class Harm:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("harm",)


# The same by way of a module whose classes are allowed, and by the function that names methods.
_THROUGH_A_MODULE = b"\x80\x04\x8c\x07pathlib\x8c\x08os.mkdir\x93\x8c\x04harm\x85R."
_IMPORTED = b"\x80\x04\x8c\x07pathlib\x8c\x02os\x93."
_THROUGH_GETATTR = b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93\x8c\x04harm\x8c\x07__doc__\x86R."
_MISSING = b"\x80\x04\x8c\x13superopt.ir.nothing\x8c\x04Rule\x93."
HARMFUL = {
    "harmful": pickle.dumps(Harm()),
    "module": _THROUGH_A_MODULE,
    "imported": _IMPORTED,
    "getattr": _THROUGH_GETATTR,
    "missing": _MISSING,
}


def test_the_shipped_rules_are_the_same_when_they_are_kept(cache: Path) -> None:
    first, certificates = certified_rules()
    again, kept = certified_rules()
    assert len(list(cache.iterdir())) == 1 and again == first and kept is not certificates
    assert [kept[one.rule] for one in again[::100]] == [certificates[one.rule] for one in first[::100]]


def test_a_changed_file_is_read_again(cache: Path, rules: Path) -> None:
    read = Reader(rules)
    assert kept_or_read([rules], read) == kept_or_read([rules], read) and read.count == 1
    rules.write_text("Abs(Abs(x)) = Abs(x) @ x[_,_]\n")
    assert kept_or_read([rules], read)[0].rule.lhs[0].op == "Abs" and read.count == 2


@pytest.mark.parametrize("damage", [b"", b"x" * 100, "cut", "flipped", *HARMFUL])
def test_a_damaged_file_is_as_good_as_none(
    cache: Path, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes | str
) -> None:
    monkeypatch.chdir(tmp_path)
    read = Reader(rules)
    whole = kept_or_read([rules], read)
    (file,) = cache.iterdir()
    content = file.read_bytes()
    if damage == "cut":
        file.write_bytes(content[:-10])
    elif damage == "flipped":
        file.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    elif damage in HARMFUL:  # with a checksum that is right
        harm = HARMFUL[str(damage)]
        file.write_bytes(kept_rules._checksum(harm) + harm)
    else:
        assert isinstance(damage, bytes)
        file.write_bytes(damage)
    assert kept_or_read([rules], read) == whole and read.count == 2
    assert not (tmp_path / "harm").exists()
    assert kept_or_read([rules], read) == whole and read.count == 2  # it was written anew


def test_old_files_are_removed(cache: Path, rules: Path) -> None:
    for n in range(8):
        rules.write_text(f"Relu(Relu(x)) = Relu(x) @ x[_,{n + 1}]\n")
        kept_or_read([rules], Reader(rules))
    assert len(list(cache.iterdir())) == kept_rules._MOST_FILES


def test_without_a_folder_rules_are_read_each_time(cache: Path, rules: Path) -> None:
    cache.write_text("a file")
    read = Reader(rules)
    assert kept_or_read([rules], read) == kept_or_read([rules], read) and read.count == 2


def test_a_process_reads_the_same_rules_once(cache: Path, rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rules, "_MOST_HERE", 2)
    read = Reader(rules)
    first = kept_or_read([rules], read)
    for kept in cache.iterdir():
        kept.unlink()
    assert kept_or_read([rules], read) is first and read.count == 1
    for k in range(2):  # so many other rules that the first are forgotten
        other = rules.with_name(f"other{k}.rules")
        other.write_text("Abs(Abs(x)) = Abs(x) @ x[_,_]\n")
        assert kept_or_read([other], Reader(other)) != first
    assert kept_or_read([rules], Reader(rules)) is not first
