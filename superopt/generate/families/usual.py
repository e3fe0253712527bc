"""Attributes and lists of operators that several families use."""

from __future__ import annotations

from superopt.ir.term import Attr

__all__ = ["ELEMENTWISE_OPS", "GEMM", "LAYER", "ONE_ROW_FUNCTION", "POINT", "ROW_FUNCTIONS"]

GEMM: dict[str, Attr] = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
LAYER: dict[str, Attr] = {"axis": -1, "epsilon": 1e-05}
POINT: dict[str, Attr] = {"dilations": (1, 1), "group": 1, "pads": (0,) * 4, "strides": (1, 1)}  # a kernel of 1 x 1

ELEMENTWISE_OPS = "Relu,Sigmoid,Neg,Add,Sub,Mul,Div"
ROW_FUNCTIONS = "Softmax,LayerNormalization,RMSNormalization,ReduceSum,ReduceMean,ReduceMax"
ONE_ROW_FUNCTION = f"x!{ROW_FUNCTIONS}"  # a slot: at most one function of a row
