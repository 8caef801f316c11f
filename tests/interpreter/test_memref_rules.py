"""memref: loads, stores, allocation and views, against NumPy."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from xpaged.errors import XpagedError
from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.views import MemRef
from xpaged.ir.parsing import parse

F32 = np.dtype(np.float32)
X = np.arange(24, dtype=np.float32)


@cache
def program(text: str) -> Program:
    return Program(parse(text))


def run(body: str, args: str, results: str, *values: Any, machine: Machine | None = None) -> Any:
    text = f"func.func @f({args}) -> ({results}) {{\n{body}\n}}"
    return program(text).call(machine or Machine(), "f", values)


def buffer(memory: Memory, values: Any) -> MemRef:
    base = memory.allocate(values.nbytes, name="x").base
    memory.write_array(base, values)
    return MemRef.dense(base, values.dtype, values.shape)


def viewed(body: str, source: str, result: str, shape: tuple[int, ...], *indices: Any) -> Any:
    """What a view `%v` that `body` makes of `%x` holds."""
    machine = Machine()
    args = "".join(f", %i{n}: index" for n in range(len(indices)))
    values = [buffer(machine.memory, X.reshape(shape)), *(np.array([i]) for i in indices)]
    (view,) = run(f"{body}\nreturn %v : {result}", f"%x: {source}{args}", result, *values, machine=machine)
    coords = list(np.indices(view.shape).reshape(len(view.shape), -1)) or [np.zeros(1, np.int64)][:0]
    return view.load(machine.memory, coords).reshape(view.shape)


def test_expand_and_collapse() -> None:
    got = viewed(
        "%v = memref.expand_shape %x [[0, 1], [2]] output_shape [2, 3, 4] : memref<6x4xf32> into memref<2x3x4xf32>",
        "memref<6x4xf32>",
        "memref<2x3x4xf32>",
        (6, 4),
    )
    np.testing.assert_array_equal(got, X.reshape(2, 3, 4))
    got = viewed(
        "%v = memref.collapse_shape %x [[0], [1, 2]] : memref<2x3x4xf32> into memref<2x12xf32>",
        "memref<2x3x4xf32>",
        "memref<2x12xf32>",
        (2, 3, 4),
    )
    np.testing.assert_array_equal(got, X.reshape(2, 12))


def test_reshapes_of_what_is_not_contiguous() -> None:
    body = """%s = memref.subview %x[0, 1] [6, 2] [1, 1] :
      memref<6x4xf32> to memref<6x2xf32, strided<[4, 1], offset: 1>>
    %v = memref.collapse_shape %s [[0, 1]] : memref<6x2xf32, strided<[4, 1], offset: 1>> into memref<12xf32>"""
    got = viewed(body, "memref<6x4xf32>", "memref<12xf32>", (6, 4))
    np.testing.assert_array_equal(got, X.reshape(6, 4)[:, 1:3].reshape(12))


def test_subviews() -> None:
    body = """%v = memref.subview %x[1, %i0] [2, 2] [2, 1] :
      memref<6x4xf32> to memref<2x2xf32, strided<[8, 1], offset: ?>>"""
    got = viewed(body, "memref<6x4xf32>", "memref<2x2xf32, strided<[8, 1], offset: ?>>", (6, 4), 2)
    np.testing.assert_array_equal(got, X.reshape(6, 4)[1:5:2, 2:4])
    body = "%v = memref.subview %x[3, 0] [1, 4] [1, 1] : memref<6x4xf32> to memref<4xf32, strided<[1], offset: 12>>"
    got = viewed(body, "memref<6x4xf32>", "memref<4xf32, strided<[1], offset: 12>>", (6, 4))
    np.testing.assert_array_equal(got, X.reshape(6, 4)[3])


def test_reinterpret_cast() -> None:
    body = """%v = memref.reinterpret_cast %x to offset: [%i0], sizes: [3, 2], strides: [4, 1] :
      memref<24xf32> to memref<3x2xf32, strided<[4, 1], offset: ?>>"""
    got = viewed(body, "memref<24xf32>", "memref<3x2xf32, strided<[4, 1], offset: ?>>", (24,), 5)
    np.testing.assert_array_equal(got, X[5:17].reshape(3, 4)[:, :2])


def test_views_of_bytes_and_pointers() -> None:
    machine = Machine()
    data = buffer(machine.memory, np.arange(4, dtype=np.int32))
    raw = MemRef.dense(int(data.base[0]), np.dtype(np.int8), (16,))
    body = """%c8 = arith.constant 8 : index
    %v = memref.view %x[%c8][] : memref<16xi8> to memref<2xi32>
    %c1 = arith.constant 1 : index
    %a = memref.load %v[%c1] : memref<2xi32>
    %p = "memref.extract_aligned_pointer_as_index"(%v) : (memref<2xi32>) -> index
    return %a, %p : i32, index"""
    value, address = run(body, "%x: memref<16xi8>", "i32, index", raw, machine=machine)
    assert value.tolist() == [3]
    assert address.tolist() == [int(data.base[0]) + 8]


def test_dim_and_rank() -> None:
    body = """%c1 = arith.constant 1 : index
    %d = memref.dim %x, %c1 : memref<6x4xf32>
    %r = "memref.rank"(%x) : (memref<6x4xf32>) -> index
    return %d, %r : index, index"""
    machine = Machine()
    found = run(body, "%x: memref<6x4xf32>", "index, index", buffer(machine.memory, X.reshape(6, 4)), machine=machine)
    assert [int(v[0]) for v in found] == [4, 2]


def test_scalars_in_memory() -> None:
    body = """%a = memref.alloc() : memref<f32>
    memref.store %v, %a[] : memref<f32>
    %r = memref.load %a[] : memref<f32>
    return %r : f32"""
    assert run(body, "%v: f32", "f32", np.array([2.5], np.float32))[0].tolist() == [2.5]


COPY = """%a = memref.alloc() : memref<24xf32>
"memref.copy"(%x, %a) : (memref<24xf32>, memref<24xf32>) -> ()
memref.dealloc %x : memref<24xf32>
return %a : memref<24xf32>"""


def test_alloc_and_copy() -> None:
    machine = Machine()
    (copy,) = run(COPY, "%x: memref<24xf32>", "memref<24xf32>", buffer(machine.memory, X), machine=machine)
    np.testing.assert_array_equal(copy.read_all(machine.memory), X)


@pytest.mark.parametrize(("space", "shared"), [(", 3", True), ("", False), (", 5", False)])
def test_workgroup_memory_is_shared_and_other_memory_is_not(space: str, shared: bool) -> None:
    type = f"memref<4xf32{space}>"
    machine = Machine(groups=range(2), lanes_per_group=4)
    body = f"""%a = memref.alloca() : {type}
    %c0 = arith.constant 0 : index
    memref.store %v, %a[%c0] : {type}
    %r = memref.load %a[%c0] : {type}
    %c1 = arith.constant 1 : index
    %s = memref.load %a[%c1] : {type}
    return %r, %s : f32, f32"""
    lanes = np.arange(8, dtype=np.float32)
    mine, poison = run(body, "%v: f32", "f32, f32", lanes, machine=machine)
    np.testing.assert_array_equal(mine, [3, 3, 3, 3, 7, 7, 7, 7] if shared else lanes)
    assert np.isnan(poison).all()


def test_vector_loads_and_stores() -> None:
    machine = Machine(lanes_per_group=3)
    target = buffer(machine.memory, np.zeros(24, np.float32))
    body = """%v = vector.load %x[%i] : memref<24xf32>, vector<4xf32>
    vector.store %v, %y[%i] : memref<24xf32>, vector<4xf32>
    %m = vector.create_mask %n : vector<4xi1>
    %p = arith.constant dense<-1.0> : vector<4xf32>
    %w = vector.maskedload %x[%i], %m, %p : memref<24xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
    return %v, %w : vector<4xf32>, vector<4xf32>"""
    args = "%x: memref<24xf32>, %y: memref<24xf32>, %i: index, %n: index"
    start = np.array([0, 8, 20])
    values = [buffer(machine.memory, X), target, start, np.array([4, 0, 2])]
    loaded, masked = run(body, args, "vector<4xf32>, vector<4xf32>", *values, machine=machine)
    np.testing.assert_array_equal(loaded, start[:, None] + np.arange(4))
    np.testing.assert_array_equal(masked, [[0, 1, 2, 3], [-1, -1, -1, -1], [20, 21, -1, -1]])
    expected = np.zeros(24)
    expected[np.r_[0:4, 8:12, 20:24]] = np.r_[0:4, 8:12, 20:24]
    np.testing.assert_array_equal(target.read_all(machine.memory), expected)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%a = memref.alloc(%n) : memref<?xf32>\nreturn", "static shapes only"),
        ("%v = memref.subview %x[0] [%n] [1] : memref<24xf32> to memref<?xf32, strided<[1]>>\nreturn", "static sizes"),
    ],
)
def test_dynamic_shapes_are_refused(body: str, message: str) -> None:
    with pytest.raises(XpagedError, match=message):
        run(body, "%x: memref<24xf32>, %n: index", "", None, np.array([3]))
