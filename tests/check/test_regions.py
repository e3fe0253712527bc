"""Names of tensors in drawings of what was not proven."""

from __future__ import annotations

from superopt.check.regions import _words


def test_words_are_short_and_different() -> None:
    names = ["/a/LayerNormalization_output_0", "/b/LayerNormalization_output_0", "x", "/c/0", "/d/0"]
    words = _words(names)
    assert set(words) == set(names) and len(set(words.values())) == len(names)
    assert all(word.isidentifier() and len(word) < 30 for word in words.values())
