"""Sixteen float32 numbers treated at once, for kernels that Numba compiles. Needs Numba.

Loops over short rows are not vectorised by the compiler as one would like, so the vectors are explicit: `Lanes` are a
value like a number, with `+ - * /` and the functions below. A processor with narrower registers takes several for one.
No operation assumes that numbers are finite: NaN stays NaN.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

LANES = 16

FLOOR = -86.5617  # to base 2, the -60 of `scaling`: less than this part of the largest entry becomes zero

# 2**x on [-1/2, 1/2] with relative error 2e-9, and log2(m) / s in powers of s² with s = (m - 1) / (m + 1) for m between
# sqrt(1/2) and sqrt(2), error 2e-10: fitted by least squares, with weights moved until the error was even.
_EXP2 = (
    1.0000000005541734,
    0.6931472057374963,
    0.24022646890593324,
    0.05550328776464992,
    0.009618488959705197,
    0.0013399931422719167,
    0.00015345811786694096,
)
_LOG2 = (2.8853900727490287, 0.9618007602836403, 0.5765844533634081, 0.43425794622374064)

_NUMBERS = ir.VectorType(ir.FloatType(), LANES)
_BITS = ir.VectorType(ir.IntType(32), LANES)
_FUSED = ("contract",)  # a product and a sum may be one instruction


class LanesType(types.Type):
    """The type of `Lanes` to Numba."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


Lanes = LanesType()


class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _NUMBERS)


register_model(LanesType)(_LanesModel)


def _operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Define an operation by what types it takes and the instructions it is; callers leave out its first argument."""
    defined: Callable[..., Any] = intrinsic(function)
    return defined


def _all(value: float | int) -> ir.Constant:
    """Return the same constant in all lanes."""
    kind = _BITS if isinstance(value, int) else _NUMBERS
    return ir.Constant(kind, [value if isinstance(value, int) else float(np.float32(value))] * LANES)


def _polynomial(builder: Any, x: Any, coefficients: tuple[float, ...]) -> Any:
    total = _all(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = builder.fadd(builder.fmul(total, x, flags=_FUSED), _all(coefficient), flags=_FUSED)
    return total


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _fold(builder: Any, lanes: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Combine all lanes into one number, halves at a time."""
    half = LANES // 2
    while half:
        places = ir.Constant(_BITS, [(lane + half) % LANES for lane in range(LANES)])
        lanes = combine(lanes, builder.shuffle_vector(lanes, lanes, places))
        half //= 2
    return builder.extract_element(lanes, ir.IntType(32)(0))


def _address(context: Any, builder: Any, kind: Any, array: Any, row: Any, column: Any) -> Any:
    view = context.make_array(kind)(context, builder, array)
    return builder.bitcast(
        cgutils.get_item_pointer(context, builder, kind, view, [row, column], wraparound=False),
        _NUMBERS.as_pointer(),
    )


@_operation
def load(typing: Any, matrix: Any, row: Any, column: Any) -> Any:
    """Return the 16 entries of a matrix from (row, column) on."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *values), align=4)

    return Lanes(matrix, types.intp, types.intp), emit


@_operation
def store(typing: Any, matrix: Any, row: Any, column: Any, lanes: Any) -> Any:
    """Write 16 entries of a matrix from (row, column) on."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.store(values[3], _address(context, builder, signature.args[0], *values[:3]), align=4)
        return context.get_dummy_value()

    return types.void(matrix, types.intp, types.intp, Lanes), emit


@_operation
def spread(typing: Any, number: Any) -> Any:
    """Return a number in all lanes."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        first = builder.insert_element(ir.Constant(_NUMBERS, ir.Undefined), values[0], ir.IntType(32)(0))
        return builder.shuffle_vector(first, ir.Constant(_NUMBERS, ir.Undefined), ir.Constant(_BITS, None))

    return Lanes(types.float32), emit


def _pairwise(emit_one: Callable[[Any, Any, Any], Any]) -> Any:
    @_operation
    def combine(typing: Any, a: Any, b: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return emit_one(builder, *values)

        return Lanes(Lanes, Lanes), emit

    return combine


larger = _pairwise(_larger)
"""Return the larger entry in each lane."""


def _define(symbol: Any, name: str) -> None:
    """Let an operator combine the lanes of two values."""

    def resolve(context: Any) -> Any:
        return lambda a, b: Lanes if a == b == Lanes else None

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return getattr(builder, name)(*values, flags=_FUSED)

    type_callable(symbol)(resolve)
    lower_builtin(symbol, LanesType, LanesType)(emit)


for _symbol, _name in (
    (operator.add, "fadd"),
    (operator.iadd, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _define(_symbol, _name)


@_operation
def largest(typing: Any, lanes: Any) -> Any:
    """Return the largest of the lanes."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _fold(builder, values[0], lambda a, b: _larger(builder, a, b))

    return types.float32(Lanes), emit


@_operation
def total(typing: Any, lanes: Any) -> Any:
    """Return the sum of the lanes."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _fold(builder, values[0], builder.fadd)

    return types.float32(Lanes), emit


@_operation
def exp2(typing: Any, exponents: Any) -> Any:
    """Return `2**x` for x of at most 0, and zero where x is below the floor."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        x = values[0]
        # Adding 1.5 * 2**23 rounds to a whole number, which then is in the last bits; 127 more is its exponent's code.
        code = builder.fadd(x, _all(12582912.0 + 127))
        rest = builder.fsub(x, builder.fsub(code, _all(12582912.0 + 127)))
        whole = builder.bitcast(builder.shl(builder.bitcast(code, _BITS), _all(23)), _NUMBERS)
        found = builder.fmul(_polynomial(builder, rest, _EXP2), whole)
        return builder.select(builder.fcmp_ordered("<=", x, _all(FLOOR)), _all(0.0), found)

    return Lanes(Lanes), emit


@_operation
def log2(typing: Any, numbers: Any) -> Any:
    """Return `log2(x)` for normal positive x."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        bits = builder.bitcast(values[0], _BITS)
        # The exponent that leaves a factor between sqrt(1/2), whose bits these are, and sqrt(2).
        exponent = builder.ashr(builder.sub(bits, _all(0x3F3504F3)), _all(23))
        factor = builder.bitcast(builder.sub(bits, builder.shl(exponent, _all(23))), _NUMBERS)
        s = builder.fdiv(builder.fsub(factor, _all(1.0)), builder.fadd(factor, _all(1.0)))
        found = builder.fmul(s, _polynomial(builder, builder.fmul(s, s), _LOG2))
        return builder.fadd(builder.sitofp(exponent, _NUMBERS), found)

    return Lanes(Lanes), emit
