"""Windows of models as text: printing and reading are inverse, and lines that are no windows are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from superopt.corpus import CorpusError, Window, WindowVariable, model_label, read_corpus, write_corpus
from superopt.files import OutputError
from superopt.ir.notation import parse_terms
from superopt.ir.types import tensor

CONV = "Conv[dilations=[1, 1], group=1, pads=[1, 1, 1, 1], strides=[1, 1]]"
LINES = (
    f"Relu({CONV}(x0, x1)) @ x0[1,4,6,6] x1[8,4,3,3] ! weights x1; count 12; share 0.034; models a,b-1.2",
    "(Add(x0, x1), Mul(x0, x1)) @ x0[2] x1[] ! count 1; share 0",
    "Gather[axis=0, indices=1](x0) @ x0:int64[3] ! count 2; share 1e-07; models m",
    "Split[axis=0, split=[1, 2]](x0).1 @ x0[3,2] ! count 1; share 0.5",
    "Mul(ConstantOfShape[shape=[], value=0.5], x0) @ x0[3,2] ! count 1; share 0.25",
    "Add(x0, Add(x1, x2)) @ x0[3] x1[3] x2[3] ! weights x0,x2; count 1; share 1",
)


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_read_and_printed_again(tmp_path: Path, line: str) -> None:
    (tmp_path / "corpus.txt").write_text(f"# comment\n\n{line}\n")
    (window,) = read_corpus(tmp_path / "corpus.txt")
    assert str(window) == line
    assert len(window.terms) == len(window.outputs)
    assert all(term.type is not None and term.type.concrete() is not None for term in window.terms)


def test_a_window_knows_its_variables() -> None:
    window = Window(
        parse_terms("(Split[axis=0, split=[1, 2]](MatMul(x, w)).0, Split[axis=0, split=[1, 2]](MatMul(x, w)).1)"),
        (WindowVariable("x", tensor(3, 2)), WindowVariable("w", tensor(2, 5), weight=True)),
    )
    assert window.weights == ("w",)
    assert [term.op for term in window.operators] == ["MatMul", "Split"]
    assert [term.type for term in window.terms] == [tensor(1, 5), tensor(2, 5)]


def test_a_corpus_is_written_by_share_the_same_for_every_order(tmp_path: Path) -> None:
    (tmp_path / "given.txt").write_text("\n".join(LINES))
    windows = read_corpus(tmp_path / "given.txt")
    write_corpus(tmp_path / "one.txt", windows, "made\n\nby hand")
    write_corpus(tmp_path / "two.txt", windows[::-1], "made\n\nby hand")
    text = (tmp_path / "one.txt").read_text()
    assert text == (tmp_path / "two.txt").read_text()
    assert text.startswith("# made\n#\n# by hand\nAdd(x0, Add(x1, x2))")
    again = read_corpus(tmp_path / "one.txt")
    assert set(again) == set(windows)
    shares = [window.share for window in again]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Relu(x) @ x[2]", 'expected " ! count N; share S"'),
        ("Relu(x) @ x[2] ! ", "expected weights, count, share or models with a value"),
        ("Relu(x) ! count 1", "expected @"),
        ("Relu(x @ x[2] ! count 1", "column 8: expected ,"),
        ("Relu(x)) @ x[2] ! count 1", "column 8: expected @"),
        ("Nothing(x) @ x[2] ! count 1", "Nothing: unknown operator"),
        ("Concat(x) @ x[2] ! count 1", "unknown operator or missing attribute 'axis'"),
        ("Relu(x, x) @ x[2] ! count 1", "Relu does not take 2 inputs"),
        ("Relu(x).7 @ x[2] ! count 1", "Out: no shape"),
        ("Add(x, y) @ x[2] ! count 1", "variable y has no shape"),
        ("Add(x, y) @ x[2] y[3] ! count 1", "ill-typed"),
        ("MatMul(x, y) @ x[2,3] y[2,3] ! count 1", "ill-typed"),
        ("Reshape[shape=[7]](x) @ x[2,3] ! count 1", "ill-typed"),
        ("Relu(x) @ x[2] y[2] ! count 1", "the window has no variable y"),
        ("Relu(x) @ x[2] ! weights y; count 1", "the window has no variable y"),
        ("Relu(x) @ x[2] x[3] ! count 1", "a variable has two shapes"),
        ("Relu(x) @ x[_] ! count 1", "each size of x must be a positive number"),
        ("Relu(x) @ x[0] ! count 1", "each size of x must be a positive number"),
        ("Slice[axes=[0], ends=[1], starts=[1], steps=[1]](x) @ x[2] ! count 1", "Slice: no shape of positive sizes"),
        ("Softmax[axis=a](x) @ x[2] ! count 1", "a is a variable for an attribute"),
        ("Softmax[axis=a](x) @ x[2] a=0 ! count 1", "a is a variable for an attribute"),
        ("Add(x, y) @ x:float16[2] y[2] ! count 1", "several element types"),
        ("Relu(x) @ x:complex7[2] ! count 1", "no element type complex7"),
        ("x @ x[2] ! count 1", "an output is a variable"),
        ("Relu(x) @ x[2] ! count 0", "count: expected a number from 1"),
        ("Relu(x) @ x[2] ! count 1; count 2", "found 'count 2'"),
        ("Relu(x) @ x[2] ! count 1; share 1.5", "share: expected a number from 0 to 1"),
        ("Relu(x) @ x[2] ! count 1; share nan", "share: expected a number from 0 to 1"),
        ("Relu(x) @ x[2] ! count 1; models a,,b", "models: expected names with commas"),
        ("Relu(x) @ x[2] ! count 1; models a,a", "models: expected names with commas"),
        ("Relu(x) @ x[2] ! size 1", "found 'size 1'"),
        ("Relu(" * 2000 + "x" + ")" * 2000 + " @ x[2] ! count 1", "nested too deeply"),
    ],
)
def test_what_is_no_window_is_refused_by_line_and_reason(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text(f"# comment\n{line}\n")
    with pytest.raises(CorpusError) as error:
        read_corpus(path)
    assert str(error.value).startswith(f"{path}:2: ")
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\xff\xfe\x00")
    for path, reason in ((tmp_path / "model.onnx", "not text|not a corpus"), (tmp_path / "none", "no such file")):
        with pytest.raises(CorpusError, match=reason):
            read_corpus(path)
    with pytest.raises(CorpusError, match="directory"):
        read_corpus(tmp_path)


def test_a_corpus_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        write_corpus(tmp_path / "none" / "corpus.txt", ())


def test_a_models_name_keeps_its_letters() -> None:
    assert model_label("bert-base_s128.v1") == "bert-base_s128.v1"
    assert model_label("my model; 2,3\n!é") == "my_model__2_3___"
    assert model_label("") == "_"
