"""The xDSL context that every part of xpaged parses and rewrites in."""

from collections.abc import Callable

from xdsl.context import Context
from xdsl.ir import Dialect


def _builtin() -> Dialect:
    from xdsl.dialects.builtin import Builtin

    return Builtin


def _func() -> Dialect:
    from xdsl.dialects.func import Func

    return Func


def _arith() -> Dialect:
    from xdsl.dialects.arith import Arith

    return Arith


def _math() -> Dialect:
    from xdsl.dialects.math import Math

    return Math


def _scf() -> Dialect:
    from xdsl.dialects.scf import Scf

    return Scf


def _memref() -> Dialect:
    from xdsl.dialects.memref import MemRef

    return MemRef


def _vector() -> Dialect:
    from xdsl.dialects.vector import Vector

    return Vector


def _tensor() -> Dialect:
    from xdsl.dialects.tensor import Tensor

    return Tensor


def _linalg() -> Dialect:
    from xdsl.dialects.linalg import Linalg

    return Linalg


def _gpu() -> Dialect:
    from xpaged.dialects.gpu import Gpu

    return Gpu


def _migraphx() -> Dialect:
    from xpaged.dialects.migraphx import MIGraphX

    return MIGraphX


def _tosa() -> Dialect:
    from xpaged.dialects.tosa import Tosa

    return Tosa


def _rock() -> Dialect:
    from xpaged.dialects.rock import Rock

    return Rock


def _hip() -> Dialect:
    from xpaged.dialects.hip import Hip

    return Hip


# The dialects that are xpaged's own and clash with nothing in xDSL: these go into the plug-in universe.
OWN_DIALECTS: dict[str, Callable[[], Dialect]] = {"migraphx": _migraphx, "rock": _rock, "hip": _hip}

DIALECTS: dict[str, Callable[[], Dialect]] = {
    "builtin": _builtin,
    "func": _func,
    "arith": _arith,
    "math": _math,
    "scf": _scf,
    "memref": _memref,
    "vector": _vector,
    "tensor": _tensor,
    "linalg": _linalg,
    "gpu": _gpu,
    "tosa": _tosa,
    **OWN_DIALECTS,
}


def context() -> Context:
    """A fresh context with every dialect of every level registered; each is loaded when a text first uses it."""
    ctx = Context()
    for name, factory in DIALECTS.items():
        ctx.register_dialect(name, factory)
    return ctx
