"""Windows of models: the rules that are found for them, and which windows are taken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from superopt.cli.generate_command import MOST_WINDOWS, generate_command
from superopt.corpus import Window, read_corpus
from superopt.generate.conjectures.target_pairs import target_conjectures
from superopt.generate.enumeration.enumerator import enumerate_family
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.grammar import Family
from superopt.generate.prove.prove_conjectures import ConjectureProver
from superopt.generate.targets import window_families
from superopt.ir.notation import parse_rules, show_rule
from tests.support.paths import ROOT

_PLAIN = "dilations=[1, 1]"
_POOL = "MaxPool[{}, kernel_shape=[{k}, {k}], pads=[{p}, {p}, {p}, {p}], strides=[1, 1]](x)"
WINDOWS = {
    "rows and columns": _POOL.format(_PLAIN, k=7, p=3) + " @ x[1,2,6,6] !",
    "one pooling from another": f"({_POOL.format(_PLAIN, k=3, p=1)}, {_POOL.format(_PLAIN, k=7, p=3)}) @ x[1,2,6,6] !",
    "sequences as images": "Conv[dilations=[1], group=2, pads=[1, 1], strides=[2]](x, w) @ x[1,4,6] w[4,2,3] !"
    " weights w;",
    "blocks": "Conv[dilations=[1, 1], group=1, pads=[1, 1, 1, 1], strides=[1, 1]](SpaceToDepth[blocksize=2](x), w)"
    " @ x[1,2,6,6] w[3,8,3,3] ! weights w;",
    "long kernels": "Conv[dilations=[1], group=2, pads=[15, 15], strides=[1]](x, w) @ x[1,2,17] w[2,1,31] ! weights w;",
    "blocks and a bias": "Conv[dilations=[1, 1], group=1, pads=[1, 1, 1, 1], strides=[1, 1]]("
    "SpaceToDepth[blocksize=2](x), w) @ x[1,2,6,6] w[3,8,3,3] ! weights w;",
    "parts of a Concat": "Conv[dilations=[1, 1], group=1, pads=[0, 0, 0, 0], strides=[1, 1]](Concat[axis=-3](x, y), w)"
    " @ x[1,4,3,3] y[1,2,3,3] w[5,6,1,1] ! weights w;",
    "Einsum as a product": 'Einsum[equation="abcd,aecd->acbe"](x, y) @ x[2,3,4,5] y[2,6,4,5] !',
    "a selection before a function": "Slice[axes=[1], ends=[1], starts=[0], steps=[1]](Softmax[axis=-1](x))"
    " @ x[2,3,4] !",
    "one token of rows": "Gather[axis=1, indices=0](Reshape[allowzero=0, shape=[0, 0, 20]](x)) @ x[2,3,4,5] !",
}
LAWS = {
    "rows and columns": "MaxPool[dilations=[1, 1], kernel_shape=[k[0], 1], pads=[p[0], 0, p[2], 0], strides=[st[0], 1]]"
    "(MaxPool[dilations=[1, 1], kernel_shape=[1, k[1]], pads=[0, p[1], 0, p[3]], strides=[1, st[1]]](x))",
    "one pooling from another": "kernel_shape=[k2[0] - k[0] + 1, k2[1] - k[1] + 1], pads=[p2[0] - p[0], p2[1] - p[1],"
    " p2[2] - p[2], p2[3] - p[3]]",
    "sequences as images": "Squeeze[axes=[-2]](Conv[dilations=[1, dl[0]], group=g, pads=[0, p[0], 0, p[1]],"
    " strides=[1, st[0]]](Unsqueeze[axes=[-2]](x), Unsqueeze[axes=[-2]](w)))",
    "blocks": "pads=[b*p[0], b*p[1], b*p[2], b*p[3]], strides=[b*st[0], b*st[1]]]"
    '(x, DepthToSpace[blocksize=b, mode="DCR"](w))',
    "long kernels": "Squeeze[axes=[-2]](Conv[dilations=[1, dl[0]], group=g, pads=[0, p[0], 0, p[1]],",
    "blocks and a bias": 'strides=[b*st[0], b*st[1]]](x, DepthToSpace[blocksize=b, mode="DCR"](w), x0)',
    "parts of a Concat": "(y, Slice[axes=[1], ends=[w.shape[1]], starts=[x.shape[1]], steps=[1]](w))",
    "Einsum as a product": "MatMul(Transpose[perm=[0, 2, 1, 3]](x), Transpose[perm=[0, 2, 3, 1]](y))",
    "a selection before a function": "Softmax[axis=-1](Slice[axes=[1], ends=to, starts=from, steps=by](x))",
    "one token of rows": "Slice[axes=[-3], ends=[j + 1], starts=[j], steps=[1]](x)",
}


def _windows(folder: Path, *lines: str) -> tuple[Window, ...]:
    path = folder / "corpus.txt"
    path.write_text("".join(f"{line} count 1; share 0.1\n" for line in lines))
    return read_corpus(path)


def _families(folder: Path, *lines: str) -> tuple[Family, ...]:
    return window_families(_windows(folder, *lines))


@pytest.mark.parametrize("name", WINDOWS)
def test_the_law_behind_a_window_is_found_for_all_sizes(tmp_path: Path, name: str) -> None:
    evaluator, found = Evaluator(0), []
    for family in _families(tmp_path, WINDOWS[name]):
        equations = target_conjectures(enumerate_family(family, evaluator), evaluator)
        prover = ConjectureProver(evaluator, 0)
        prover.prove_all(sorted(equations, key=lambda e: e.size))
        assert prover.counts.refuted == 0
        found += [show_rule(proven.rule) for proven in prover.kept]
    assert any(LAWS[name] in rule for rule in found), found


def test_a_convolution_of_repeated_elements_is_assembled_from_its_phases(tmp_path: Path) -> None:
    resize = 'Resize[coordinate_transformation_mode="asymmetric", nearest_mode="floor", scales=[2, 2]](x)'
    conv = f"Conv[dilations=[1, 1], group=1, pads=[1, 1, 1, 1], strides=[1, 1]]({resize}, w)"
    families = _families(tmp_path, f"{conv} @ x[1,2,3,3] w[3,2,3,3] ! weights w;")
    phased = [family for family in families if family.phases]
    shapes = [{v.name: v.shape for v in family.variables} for family in phased]
    assert [(known["w"][2:], "x0" in known) for known in shapes] == [
        ((3, 3), False),
        ((5, 5), False),
        ((3, 3), True),  # with a bias
        ((5, 5), True),
    ]
    evaluator = Evaluator(0)
    (equation,) = target_conjectures(enumerate_family(phased[0], evaluator), evaluator)
    assert equation.rhs[0].op == "DepthToSpace"
    prover = ConjectureProver(evaluator, 0)
    prover.prove_all([equation])
    (proven,) = prover.kept
    assert "pads=[2*p0 + 1, 2*p1 + 1, 2*p2 + 1, 2*p3 + 1]" in show_rule(proven.rule)
    assert dict(proven.schema.base.shapes)["w"] == (None,) * 4


def test_only_faster_graphs_are_conjectures(tmp_path: Path) -> None:
    (family,) = _families(tmp_path, "Transpose[perm=[1, 0]](Relu(x)) @ x[2,3] !")
    evaluator = Evaluator(0)
    equations = target_conjectures(enumerate_family(family, evaluator), evaluator)
    assert [e.rhs[0].op for e in equations] == ["Relu"]  # and not Relu of Relu, or three Transposes


def test_windows_of_other_types_and_large_values_are_left_out(tmp_path: Path) -> None:
    lines = ("Gather[axis=0, indices=1](x) @ x:int64[3] !", "Relu(x) @ x[100,100,10] !", "Relu(x) @ x[2] !")
    assert [family.targets for family in _families(tmp_path, *lines)] == [("Relu(x)",)]
    assert window_families(_windows(tmp_path, *lines), 0) == ()


def test_the_shipped_corpus_gives_families() -> None:
    assert len(window_families(read_corpus(ROOT / "superopt/generate/corpus.txt"), MOST_WINDOWS)) >= MOST_WINDOWS


def test_larger_windows_come_in_later_waves(tmp_path: Path) -> None:
    lines = ("Relu(x) @ x[2] !", "Relu(Neg(x)) @ x[2] !", "Relu(Neg(Relu(x))) @ x[2] !")
    waves = [family.wave for family in _families(tmp_path, *lines)]
    assert waves == sorted(set(waves))


def test_too_large_a_level_is_not_enumerated(tmp_path: Path) -> None:
    (family,) = _families(tmp_path, WINDOWS["a selection before a function"])
    levels = enumerate_family(family, Evaluator(0)).levels
    bounded = enumerate_family(replace(family, most=levels[-2].graphs), Evaluator(0)).levels
    assert len(bounded) < len(levels)
    assert max(level.graphs for level in bounded) <= levels[-2].graphs


def test_the_command_writes_the_rules_of_a_corpus_the_same_again(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    _windows(tmp_path, WINDOWS["one pooling from another"], WINDOWS["sequences as images"])
    for out in ("one", "two"):
        arguments = ["--out", str(tmp_path / out), "--corpus", str(path), "--family", "corpus"]
        assert CliRunner().invoke(generate_command, arguments, catch_exceptions=False).exit_code == 0
    for name in ("corpus.rules", "certificates.jsonl", "summary.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    rules = parse_rules((tmp_path / "one" / "corpus.rules").read_text())
    assert any(len(rule.lhs) == 2 for rule in rules)
    origins = json.loads((tmp_path / "one" / "summary.json").read_text())["origins"]
    assert origins["corpus"]["rules"] == len(rules)


def test_the_family_of_a_corpus_needs_one(tmp_path: Path) -> None:
    found = CliRunner().invoke(generate_command, ["--out", str(tmp_path / "o"), "--family", "corpus"])
    assert found.exit_code == 2
    assert "--family corpus needs --corpus FILE" in found.output
    assert not (tmp_path / "o").exists()


def test_a_corpus_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("Relu(x\n")
    for name in ("bad.txt", "none.txt"):
        found = CliRunner().invoke(generate_command, ["--out", str(tmp_path / "o"), "--corpus", str(tmp_path / name)])
        assert found.exit_code == 2
        assert name in found.output
        assert not (tmp_path / "o").exists()


def test_a_window_is_also_taken_with_two_parts_of_a_concat(tmp_path: Path) -> None:
    conv = "Conv[dilations=[1, 1], group=1, pads=[0, 0, 0, 0], strides=[1, 1]]"
    families = _families(
        tmp_path,
        f"{conv}(Concat[axis=-3](x, y, Relu(z)), w) @ x[1,2,3,3] y[1,1,3,3] z[1,3,3,3] w[4,6,1,1] ! weights w;",
    )
    assert [[v.shape for v in family.variables] for family in families] == [
        [(1, 2, 3, 3), (1, 1, 3, 3), (1, 3, 3, 3), (4, 6, 1, 1)],
        [(1, 2, 3, 3), (1, 3, 3, 3), (4, 5, 1, 1)],
    ]


def test_a_window_that_is_one_of_its_values_has_nothing_to_find(tmp_path: Path) -> None:
    (family,) = _families(tmp_path, "Transpose[perm=[0, 1]](x) @ x[2,3] !")
    evaluator = Evaluator(0)
    assert target_conjectures(enumerate_family(family, evaluator), evaluator) == []
