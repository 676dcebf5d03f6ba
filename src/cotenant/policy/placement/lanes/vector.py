"""Sixteen lanes as one value that compiled kernels compute with.

Problem: whether LLVM turns a loop over lanes into vector instructions depends on aliasing checks and on trip counts it cannot know, and a
row that moves up a tree is stored and loaded again at every level. Choice: a numba type that *is* an LLVM vector of sixteen floats, with the
few operations that kernels need, so that kernels read like scalar code and stay in registers. LLVM splits the vectors into
whatever the CPU has, so this is portable. Arithmetic is IEEE, never contracted: each lane equals NumPy's elementwise result to the last
bit. Limits: sixteen lanes, float64 or float32; offsets are not checked against bounds.
"""

# numba leaves its extension interface untyped
# mypy: disable-error-code="no-untyped-call, misc, no-untyped-def, import-untyped, attr-defined"
from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model

from cotenant.policy.placement.lanes.view import instruction, pointer

WIDTH = 16
_BIT = ir.IntType(1)


class Lanes(types.Type):
    """Sixteen floats of one element type."""

    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(name=f"Lanes({element})")


class LaneMask(types.Type):
    """Sixteen truth values."""

    def __init__(self) -> None:
        super().__init__(name="LaneMask")


_MASK = LaneMask()


def _element_type(element: Any) -> Any:
    return ir.DoubleType() if element == types.float64 else ir.FloatType()


def _vector_type(element: Any) -> Any:
    return ir.VectorType(_element_type(element), WIDTH)


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _vector_type(kind.element))


@register_model(LaneMask)
class _LaneMaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.VectorType(_BIT, WIDTH))


class _SameLanes(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if len(args) == 2 and args[0] == args[1] and isinstance(args[0], Lanes):
            return signature(args[0], *args)
        return None


class _BothMasks(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if len(args) == 2 and isinstance(args[0], LaneMask) and isinstance(args[1], LaneMask):
            return signature(args[0], *args)
        return None


def _arithmetic(function: Any, instruction: str) -> None:
    infer_global(function)(type(f"_{instruction}", (_SameLanes,), {"key": function}))

    @lower_builtin(function, Lanes, Lanes)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)


def _logic(function: Any, instruction: str) -> None:
    infer_global(function)(type(f"_{instruction}", (_BothMasks,), {"key": function}))

    @lower_builtin(function, LaneMask, LaneMask)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)


for _function, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _arithmetic(_function, _instruction)
_logic(operator.and_, "and_")
_logic(operator.or_, "or_")


def _address(context: Any, builder: Any, array_type: Any, array: Any, offset: Any, target: Any) -> Any:
    data = pointer(context, builder, array_type, array)
    return builder.bitcast(builder.gep(data, [offset]), target.as_pointer())


@instruction
def load(typing: Any, array: Any, offset: Any) -> Any:
    """Sixteen consecutive elements of a C-contiguous array from the flat `offset` on."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = _vector_type(sig.args[0].dtype)
        address = _address(context, builder, sig.args[0], args[0], args[1], vector)
        return builder.load(address, align=sig.args[0].dtype.bitwidth // 8)

    return signature(Lanes(array.dtype), array, types.intp), generate


@instruction
def store(typing: Any, array: Any, offset: Any, lanes: Any) -> Any:
    """Write sixteen consecutive elements from the flat `offset` on."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = _vector_type(sig.args[0].dtype)
        address = _address(context, builder, sig.args[0], args[0], args[1], vector)
        builder.store(args[2], address, align=sig.args[0].dtype.bitwidth // 8)
        return context.get_dummy_value()

    return signature(types.none, array, types.intp, lanes), generate


def _spread(builder: Any, vector: Any, value: Any) -> Any:
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), everywhere)


@instruction
def fill(typing: Any, array: Any, value: Any) -> Any:
    """The same value in every lane, as the element type of `array`."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        element = sig.args[0].dtype
        return _spread(builder, _vector_type(element), context.cast(builder, args[1], sig.args[1], element))

    return signature(Lanes(array.dtype), array, value), generate


@instruction
def gather(typing: Any, array: Any, base: Any, index: Any, offset: Any) -> Any:
    """Lane j is `array[base + index[offset + j]]`, both flat."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = _vector_type(sig.args[0].dtype)
        data = pointer(context, builder, sig.args[0], args[0])
        origin = builder.gep(data, [args[1]])
        indices = pointer(context, builder, sig.args[2], args[2])
        result = ir.Constant(vector, ir.Undefined)
        for lane in range(WIDTH):
            place = builder.add(args[3], ir.Constant(args[3].type, lane))
            at = builder.load(builder.gep(indices, [place]))
            result = builder.insert_element(
                result, builder.load(builder.gep(origin, [at])), ir.Constant(ir.IntType(32), lane)
            )
        return result

    return signature(Lanes(array.dtype), array, types.intp, index, types.intp), generate


@instruction
def strided(typing: Any, array: Any, base: Any, stride: Any) -> Any:
    """Lane j is `array[base + j * stride]`, flat."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = _vector_type(sig.args[0].dtype)
        data = pointer(context, builder, sig.args[0], args[0])
        result = ir.Constant(vector, ir.Undefined)
        at = args[1]
        for lane in range(WIDTH):
            value = builder.load(builder.gep(data, [at]))
            result = builder.insert_element(result, value, ir.Constant(ir.IntType(32), lane))
            at = builder.add(at, args[2])
        return result

    return signature(Lanes(array.dtype), array, types.intp, types.intp), generate


def _unary(name: str) -> Any:
    def typed(typing: Any, lanes: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            vector = args[0].type
            llvm_name = f"llvm.{name}.v{WIDTH}f{sig.args[0].element.bitwidth}"
            declared = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector]), llvm_name)
            return builder.call(declared, args)

        return signature(lanes, lanes), generate

    return typed


square_root = instruction(_unary("sqrt"))
floor = instruction(_unary("floor"))
absolute = instruction(_unary("fabs"))


def _extreme(comparison: str) -> Any:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.select(builder.fcmp_ordered(comparison, args[0], args[1]), args[0], args[1])

        return signature(left, left, right), generate

    return typed


larger = instruction(_extreme(">"))  # the right operand where either is NaN
smaller = instruction(_extreme("<"))


def _comparison(sign: str) -> Any:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.fcmp_ordered(sign, args[0], args[1])

        return signature(_MASK, left, right), generate

    return typed


at_most = instruction(_comparison("<="))
above = instruction(_comparison(">"))


@instruction
def choose(typing: Any, mask: Any, yes: Any, no: Any) -> Any:
    """Lanes of `yes` where the mask is true, of `no` elsewhere."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(*args)

    return signature(yes, mask, yes, no), generate


@instruction
def word_mask(typing: Any, word: Any) -> Any:
    """Lane j is true where bit j of the 16-bit word is set."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.VectorType(_BIT, WIDTH))

    return signature(_MASK, types.uint16), generate


@instruction
def mask_word(typing: Any, mask: Any) -> Any:
    """The mask as an integer: bit j is set where lane j is true, so 0 = no lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(builder.bitcast(args[0], ir.IntType(16)), ir.IntType(64))

    return signature(types.int64, mask), generate


@instruction
def pick(typing: Any, lanes: Any, lane: Any) -> Any:
    """One lane's value."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], args[1])

    return signature(lanes.element, lanes, types.intp), generate
