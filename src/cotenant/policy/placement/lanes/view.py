"""Arrays as plain pointers inside compiled loops.

Problem: numba counts references: each time a kernel reads an array out of a tuple it increments and decrements an atomic counter, several
hundred times per placement, which costs more than the placement. Choice: a numba type that holds only a pointer and the shape, without
reference counting. `viewed` converts a tuple of arrays into the same tuple of views; kernels are written once and accept either.
Limits: the caller keeps the arrays alive, and they must be C-contiguous; indices are neither checked nor wrapped.
"""

# numba leaves its extension interface untyped
# mypy: disable-error-code="no-untyped-call, misc, no-untyped-def, import-untyped, attr-defined"
from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global, signature
from numba.extending import intrinsic, lower_builtin, lower_getattr, models, register_model


def instruction(function: Any) -> Any:
    """Make `function(typing, *argument types) -> (signature, generator)` callable from compiled code. Untyped for mypy, which would see `typing`."""
    return intrinsic(function)


class View(types.Type):
    """A C-contiguous array of known dtype and number of dimensions, not owned."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype = dtype
        self.ndim = ndim
        super().__init__(name=f"View({dtype}, {ndim})")


@register_model(View)
class _ViewModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        members = [("data", types.CPointer(kind.dtype)), ("shape", types.UniTuple(types.intp, kind.ndim))]
        super().__init__(manager, kind, members)


@infer_getattr
class _ViewAttributes(AttributeTemplate):
    key = View

    def resolve_shape(self, kind: Any) -> Any:
        return types.UniTuple(types.intp, kind.ndim)


def _parts(context: Any, builder: Any, kind: Any, value: Any) -> tuple[Any, list[Any]]:
    return builder.extract_value(value, 0), [builder.extract_value(value, [1, i]) for i in range(kind.ndim)]


@lower_getattr(View, "shape")
def _shape(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return builder.extract_value(value, 1)


def _is_index(kind: Any, index: Any) -> bool:
    if kind.ndim == 1:
        return isinstance(index, types.Integer)
    return isinstance(index, types.BaseTuple) and len(index) == kind.ndim


@infer_global(operator.getitem)
class _Get(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], View) and _is_index(*args):
            index = types.intp if args[0].ndim == 1 else types.UniTuple(types.intp, args[0].ndim)
            return signature(args[0].dtype, args[0], index)
        return None


@infer_global(operator.setitem)
class _Set(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], View) and _is_index(args[0], args[1]):
            index = types.intp if args[0].ndim == 1 else types.UniTuple(types.intp, args[0].ndim)
            return signature(types.none, args[0], index, args[0].dtype)
        return None


def _element(context: Any, builder: Any, kind: Any, view: Any, index: Any) -> Any:
    data, shape = _parts(context, builder, kind, view)
    if kind.ndim == 1:
        return builder.gep(data, [index])
    offset = builder.extract_value(index, 0)
    for axis in range(1, kind.ndim):
        offset = builder.add(builder.mul(offset, shape[axis]), builder.extract_value(index, axis))
    return builder.gep(data, [offset])


def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    address = _element(context, builder, sig.args[0], args[0], args[1])
    return context.unpack_value(builder, sig.args[0].dtype, address)


def _set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    address = _element(context, builder, sig.args[0], args[0], args[1])
    context.pack_value(builder, sig.args[0].dtype, args[2], address)
    return context.get_dummy_value()


for _index in (types.Integer, types.BaseTuple):
    lower_builtin(operator.getitem, View, _index)(_get)
    lower_builtin(operator.setitem, View, _index, types.Any)(_set)


def _view_type(kind: Any) -> Any:
    """Arrays become views; tuples of arrays become the same tuple of views; other types are unchanged."""
    if isinstance(kind, types.Array):
        return View(kind.dtype, kind.ndim)
    if isinstance(kind, types.NamedTuple):
        return types.NamedTuple([_view_type(member) for member in kind.types], kind.instance_class)
    return kind


def _convert(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        result = ir.Constant(context.get_value_type(_view_type(kind)), ir.Undefined)
        return builder.insert_value(builder.insert_value(result, array.data, 0), array.shape, 1)
    if isinstance(kind, types.NamedTuple):
        result = ir.Constant(context.get_value_type(_view_type(kind)), ir.Undefined)
        for i, member in enumerate(kind.types):
            part = _convert(context, builder, member, builder.extract_value(value, i))
            result = builder.insert_value(result, part, i)
        return result
    return value


@instruction
def viewed(typing: Any, value: Any) -> Any:
    """The same tuple (or array) as views."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _convert(context, builder, sig.args[0], args[0])

    return signature(_view_type(value), value), generate


def pointer(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The address of the first element of an array or a view, for other intrinsics."""
    if isinstance(kind, View):
        return builder.extract_value(value, 0)
    return context.make_array(kind)(context, builder, value).data
