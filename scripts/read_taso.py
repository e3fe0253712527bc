#!/usr/bin/env python3
"""Translate a list of TASO's substitutions, as TENSAT prints them, into rules in our notation.

    (conv2d 1 1 0 2 ?input_7 ?input_13)=>(relu (conv2d 1 1 0 0 ?input_7 ?input_13))

Jia, Padon, Thomas, Warszawski, Zaharia, Aiken: "TASO: Optimizing Deep Learning Computation with Automatic
Generation of Graph Substitutions", SOSP 2019. Yang, Phothilimthana, Wang, Willsey, Roy, Pienaar: "Equality Saturation
for Tensor Graph Superoptimization", MLSys 2021 (TENSAT).

The table at `TasoReader` shows the translation of each operator. Outputs whose two sides are the same graph in our
notation are left out. Rules are left out if no output remains, if they repeat an earlier rule (up to names of
variables, the order of outputs, and the order of sides), or if they cannot be expressed; stderr has the counts and the
reasons.

    read_taso.py converted.txt > taso.rules
    read_taso.py converted_multi.txt --outputs 2 > taso_multi.rules
    read_taso.py converted.txt --depthwise --exclude-padding > taso_other.rules
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias, Union

from superopt.ir.dim import Size, symbol
from superopt.ir.infer import IllTyped, make
from superopt.ir.notation import show_rule, show_terms
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Attr, Term, topological, var
from superopt.ir.types import tensor

Expression: TypeAlias = Union[str, tuple["Expression", ...]]
Shape: TypeAlias = tuple[Size, ...]

# TASO's generator numbers its inputs. For each kind of input: its first number, our names, and sizes that rules fix.
INPUTS: tuple[tuple[int, str, tuple[int | None, ...]], ...] = (
    (1, "abcdef", (None, None)),
    (7, "xyz", (None, None, None, None)),
    (10, "uvw", (None, None, 3, 3)),
    (13, "pqr", (None, None, 1, 3)),
    (16, "jkl", (None, None, 3, 1)),
    (19, "g", (None, None, 3, 3)),
    (20, "s", ()),
)
DEPTHWISE = "g"
ACTIVATIONS = ("", "Sigmoid", "Relu", "Tanh")
SAME = 0


class Inexpressible(ValueError):
    """The substitution cannot be expressed in our notation; the message gives the reason."""


class Nothing(Exception):
    """Both sides are the same graph in our notation."""


def read(text: str) -> Expression:
    """Parse one s-expression. Raises Inexpressible for malformed text."""
    tokens: list[str] = re.findall(r"[()]|[^\s()]+", text)

    def expression() -> Expression:
        if not tokens:
            raise Inexpressible("the line ends too early")
        token = tokens.pop(0)
        if token != "(":
            return token
        items: list[Expression] = []
        while tokens and tokens[0] != ")":
            items.append(expression())
        if not tokens:
            raise Inexpressible("a parenthesis is not closed")
        tokens.pop(0)
        return items[0] if len(items) == 1 else tuple(items)

    found = expression()
    if tokens:
        raise Inexpressible(f"unexpected {tokens[0]}")
    return found


class TasoReader:
    """Translates expressions to terms with symbolic sizes; `shapes` collects the shapes of the inputs.

    ewadd, ewmul, matmul, relu, transpose, concat        Add, Mul, MatMul, Relu, Transpose[1, 0], Concat
    smul x s                                             Mul(x, s), s a scalar
    conv2d strides padding activation x w                Conv, under Relu, Sigmoid or Tanh; SAME as explicit pads
    poolavg, poolmax kernel strides padding x            AveragePool, which counts padding (the generator adds up
                                                         zeros), MaxPool
    split_i (split axis x)                               Split into the parts that the last Concat joined
    enlarge size w                                       Pad(w), zeros around the kernel
    Imatmul, Iewmul, Iconv size                          Eye, Ones, Dirac
    Cpool size                                           the identity over the kernel's area; depthwise: ones over it
    """

    def __init__(self, depthwise: bool = False, count_padding: bool = True) -> None:
        self.depthwise = depthwise
        self.count_padding = count_padding
        self.shapes: dict[str, tuple[int | None, ...]] = {}

    def term(self, e: Expression, like: Shape | None = None) -> Term:
        """Return the term for an expression. Constants get the shape `like`. Raises Inexpressible, IllTyped."""
        if isinstance(e, str):
            return self.input(e) if e.startswith("?input_") else self.constant(e, (), like)
        operator, *operands = e
        if not isinstance(operator, str):
            raise Inexpressible(f"{operator} is no operator")
        if operator in ("Iconv", "Cpool"):
            return self.constant(operator, tuple(map(_number, operands)), like)
        build: Callable[..., Term] | None = getattr(self, f"_{operator}", None)
        if build is None:
            raise Inexpressible(f"{operator} is unknown")
        return build(like, *operands)

    def input(self, text: str) -> Term:
        """Return the variable for an input; the number of the input determines its type."""
        number = _number(text.removeprefix("?input_"))
        first, names, shape = [kind for kind in INPUTS if kind[0] <= number][-1]
        if number - first >= len(names):
            raise Inexpressible(f"{text} is unknown")
        name = names[number - first]
        if self.depthwise and name == DEPTHWISE:
            shape = (None, 1, *shape[2:])
        self.shapes[name] = shape
        sizes = (symbol(f"{name}.shape[{k}]") if size is None else size for k, size in enumerate(shape))
        return var(name, tensor(*sizes))

    def constant(self, kind: str, kernel: tuple[int, ...], like: Shape | None) -> Term:
        """Return a constant with a shape that fits beside or in place of a value of shape `like`."""
        if like is None:
            raise Inexpressible(f"nothing says how large {kind} is")
        if kind == "Imatmul":
            return make("Eye", (), {"n": like[-1]})
        if kind == "Iewmul":
            return make("Ones", (), {"shape": like})
        if kind == "Iconv":
            return make("Dirac", (), {"group": 1, "shape": (*like[:2], *kernel)})
        if kind != "Cpool":
            raise Inexpressible(f"{kind} is unknown")
        area = make("ConstantOfShape", (), {"shape": (), "value": float(kernel[0] * kernel[1])})
        if self.depthwise:
            return make("Div", (make("Ones", (), {"shape": (like[0], 1, *kernel)}), area))
        ones = make("Ones", (), {"shape": (like[1], like[1], *kernel)})
        eye = make("Unsqueeze", (make("Eye", (), {"n": like[1]}),), {"axes": (-2, -1)})
        return make("Div", (make("Mul", (ones, eye)), area))

    def pair(self, op: str, a: Expression, b: Expression, like: Shape | None, attrs: dict[str, Attr]) -> Term:
        """Return an operator on two operands of similar shapes; a constant operand gets its shape from the other."""
        first, second = ((self.term(e, like) if like or not _is_constant(e) else None) for e in (a, b))
        one = first or self.term(a, _square(second, op))
        two = second or self.term(b, _square(first, op))
        return make(op, (one, two), attrs)

    def _ewadd(self, like: Shape | None, a: Expression, b: Expression) -> Term:
        return self.pair("Add", a, b, like, {})

    def _ewmul(self, like: Shape | None, a: Expression, b: Expression) -> Term:
        return self.pair("Mul", a, b, like, {})

    def _smul(self, like: Shape | None, a: Expression, s: Expression) -> Term:
        return make("Mul", (self.term(a, like), self.term(s)))

    def _relu(self, like: Shape | None, a: Expression) -> Term:
        return make("Relu", (self.term(a, like),))

    def _transpose(self, like: Shape | None, a: Expression) -> Term:
        return make("Transpose", (self.term(a, like and like[::-1]),), {"perm": (1, 0)})

    def _concat(self, like: Shape | None, axis: Expression, *operands: Expression) -> Term:
        a, b = operands[-2:]  # the number of dimensions may come before the operands
        rank = len(_shape(self.term(b if _is_constant(a) else a)))
        return self.pair("Concat", a, b, None, {"axis": _number(axis) - rank})

    def _matmul(self, like: Shape | None, *operands: Expression) -> Term:
        a, b = operands[-2:]
        if len(operands) == 3 and _number(operands[0]) != 0:
            raise Inexpressible("matmul with an activation")
        if _is_constant(a):
            right = self.term(b)
            return make("MatMul", (self.term(a, (_shape(right)[0],) * 2), right))
        left = self.term(a)
        return make("MatMul", (left, self.term(b, (_shape(left)[1],) * 2)))

    def _conv2d(self, like: Shape | None, *operands: Expression) -> Term:
        *numbers, a, b = operands
        *strides, padding, activation = map(_number, numbers)
        x = self.term(a)
        channels = _shape(x)[1]
        w = self.term(b, (channels, channels))
        attrs: dict[str, Attr] = {
            "dilations": (1, 1),
            "group": channels if _shape(w)[1] == 1 else 1,
            "pads": _pads(_shape(w)[2:], strides, padding),
            "strides": tuple(strides),
        }
        conv = make("Conv", (x, w), attrs)
        return make(ACTIVATIONS[activation], (conv,)) if activation else conv

    def _pool(self, op: str, operands: Sequence[Expression], like: Shape | None, attrs: dict[str, Attr]) -> Term:
        *numbers, a = operands
        kernel, strides, padding = (*map(_number, numbers[:2]),), (*map(_number, numbers[2:4]),), _number(numbers[4])
        pads = _pads(kernel, strides, padding)
        attrs |= {"dilations": (1, 1), "kernel_shape": kernel, "pads": pads, "strides": strides}
        return make(op, (self.term(a, like),), attrs)

    def _poolavg(self, like: Shape | None, *operands: Expression) -> Term:
        return self._pool("AveragePool", operands, like, {"count_include_pad": int(self.count_padding)})

    def _poolmax(self, like: Shape | None, *operands: Expression) -> Term:
        return self._pool("MaxPool", operands, like, {})

    def _enlarge(self, like: Shape | None, height: Expression, width: Expression, a: Expression) -> Term:
        w = self.term(a)
        missing = [_number(size) - _literal(is_) for size, is_ in zip((height, width), _shape(w)[2:], strict=True)]
        before = [size // 2 for size in missing]
        after = [size - b for size, b in zip(missing, before, strict=True)]
        return make("Pad", (w,), {"pads": (0, 0, *before, 0, 0, *after), "value": 0.0})

    def _split_0(self, like: Shape | None, split: Expression) -> Term:
        return self._part(split, 0)

    def _split_1(self, like: Shape | None, split: Expression) -> Term:
        return self._part(split, 1)

    def _part(self, split: Expression, index: int) -> Term:
        if not isinstance(split, tuple) or len(split) != 3 or split[0] != "split":
            raise Inexpressible("split_0 or split_1 of an operator other than split")
        whole = self.term(split[2])
        axis = _number(split[1])
        attrs: dict[str, Attr] = {"axis": axis - len(_shape(whole)), "split": _joined(whole, axis)}
        return make("Split", (whole,), attrs).out(index)


def _joined(term: Term, axis: int) -> tuple[Size, Size]:
    """Return the sizes of the two operands of the last Concat along this axis."""
    inputs = [i for i in term.inputs if i is not None]
    if term.op == "Concat" and term.attr("axis") == axis - len(_shape(term)):
        one, two = (_shape(i)[axis] for i in inputs)
        return one, two
    if term.op == "Transpose":
        return _joined(inputs[0], 1 - axis)
    if (term.op, axis) == ("MatMul", 1):
        return _joined(inputs[1], 1)
    if (term.op, axis) == ("Conv", 1):
        return _joined(inputs[1], 0)
    if not inputs:
        raise Inexpressible("a split of a value that no Concat made")
    return _joined(inputs[0], axis)


def _is_constant(e: Expression) -> bool:
    """Return True if the expression has no sizes of its own: it consists of constants and at most the scalar input."""
    if isinstance(e, str):
        return not e.startswith("?input_") or e == "?input_20"
    return all(map(_is_constant, e))


def _square(sibling: Term | None, op: str) -> Shape:
    """Return the shape of a constant beside `sibling`; a constant joined to a kernel has as many channels out as in."""
    if sibling is None:
        raise Inexpressible("an operator on constants alone")
    shape = _shape(sibling)
    return (shape[1], *shape[1:]) if op == "Concat" else shape


def _shape(term: Term) -> Shape:
    if term.type is None or term.type.shape is None:
        raise Inexpressible(f"{term} has no shape")
    return term.type.shape


def _number(e: Expression) -> int:
    if not isinstance(e, str) or not e.isdecimal():
        raise Inexpressible(f"{e} is no number")
    return int(e)


def _literal(size: Size) -> int:
    if not isinstance(size, int):
        raise Inexpressible("a kernel whose size is not known")
    return size


def _pads(kernel: Sequence[Size], strides: Sequence[int], padding: int) -> tuple[int, ...]:
    if padding != SAME:
        return (0,) * (2 * len(kernel))
    if any(stride != 1 for stride in strides):
        raise Inexpressible("SAME with a stride: its pads depend on the input's size")
    total = [_literal(size) - 1 for size in kernel]
    begin = [size // 2 for size in total]
    return (*begin, *(size - b for size, b in zip(total, begin, strict=True)))


def rule_of(lines: Iterable[str], depthwise: bool = False, count_padding: bool = True) -> Rule:
    """Return the rule of these lines, one output per line. Raises Inexpressible, IllTyped, Nothing."""
    reader = TasoReader(depthwise, count_padding)
    outputs = []
    for line in lines:
        sides = line.split("=>")
        if len(sides) != 2:
            raise Inexpressible("not of the form left=>right")
        left, right = (reader.term(read(side)) for side in sides)
        if left is not right:
            outputs.append((left, right))
    if not outputs:
        raise Nothing
    lhs, rhs = zip(*outputs, strict=True)
    used = {term.attr("name") for term in topological((*lhs, *rhs)) if term.op == "Var"}
    shapes = tuple(sorted((name, shape) for name, shape in reader.shapes.items() if name in used))
    return Rule(lhs, rhs, (Signature(shapes),))


def key(rule: Rule) -> str:
    """Return one key for rules that differ only in names of variables, order of outputs, or order of sides."""
    shapes = dict(rule.signatures[0].shapes)

    def renamed(text: str) -> str:
        names = list(dict.fromkeys(re.findall(r"\b[a-z]\b(?!=)", text)))
        kinds = [shapes[name] for name in names]
        return re.sub(r"\b[a-z]\b(?!=)", lambda found: f"v{names.index(found[0])}", text) + f" @ {kinds}"

    order = range(len(rule.lhs))
    return min(
        renamed(" = ".join(show_terms([side[k] for k in chosen]) for side in sides))
        for chosen in itertools.permutations(order)
        for sides in ((rule.lhs, rule.rhs), (rule.rhs, rule.lhs))
    )


def rules(
    lines: Sequence[str], outputs: int, depthwise: bool, count_padding: bool, note: Callable[[str, str], None]
) -> Iterator[Rule]:
    """Yield the rules of a list, each once; `note(kind, message)` is called for each rule that is left out."""
    seen: dict[str, int] = {}
    for number in range(0, len(lines), outputs):
        place = f"line {number + 1}"
        try:
            rule = rule_of(lines[number : number + outputs], depthwise, count_padding)
        except Nothing:
            note("one graph on both sides", place)
            continue
        except (Inexpressible, IllTyped) as error:
            note("inexpressible", f"{place}: {error}: {lines[number]}")
            continue
        first = seen.setdefault(key(rule), number + 1)
        if first != number + 1:
            note("again", f"{place}: as line {first}")
            continue
        yield rule


def main() -> None:
    """Parse the command line, print the rules to stdout, and counts and reasons to stderr."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the list, one left=>right a line")
    parser.add_argument("--outputs", type=int, default=1, help="lines that make one rule (default: 1)")
    parser.add_argument("--depthwise", action="store_true", help="Cpool and input_19 with one channel a group")
    parser.add_argument("--exclude-padding", action="store_true", help="averages do not count padding, ONNX's default")
    parser.add_argument("-v", "--verbose", action="store_true", help="also list trivial and repeated rules")
    options = parser.parse_args()
    counts: Counter[str] = Counter()

    def note(kind: str, message: str) -> None:
        counts[kind] += 1
        if options.verbose or kind == "inexpressible":
            print(f"{kind}: {message}", file=sys.stderr)

    lines = [line for line in options.file.read_text().splitlines() if line.strip()]
    for rule in rules(lines, options.outputs, options.depthwise, not options.exclude_padding, note):
        counts["rules"] += 1
        print(show_rule(rule))
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(counts.items())), file=sys.stderr)


if __name__ == "__main__":
    main()
