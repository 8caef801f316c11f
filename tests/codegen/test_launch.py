"""Launch descriptions: read from device-level functions, written as JSON, checked against objects."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from xdsl.dialects.func import FuncOp

from xpaged.codegen.code_object import CodeObject, KernelArgument, KernelInfo
from xpaged.codegen.launch import LaunchDescription, describe_launches
from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse

KERNEL = """
func.func @attention(%q: memref<4x64xf16>,
    %ktab: memref<2x32xi64> {rock.page_table = {page_size = 1024 : i64, elem = f16}},
    %bias: memref<64xi8>, %count: i16, %scale: f32, %out: memref<256xf32> {rock.output = 0 : i32})
    attributes {rock.kernel, arch = "gfx942",
        rock.grid_size = 32 : i64, rock.block_size = 256 : i64, rock.lds_bytes = 1024 : i64} {
  func.return
}
"""

MERGE = """
func.func @merge(%out: memref<256xf32>, %0: memref<8xf32> {rock.output = 0 : i32})
    attributes {rock.kernel, rock.grid_size = 4 : i32, rock.block_size = 64 : i32, rock.lds_bytes = 0 : i64} {
  func.return
}
"""


def kernels(text: str) -> list[FuncOp]:
    return [op for op in parse(text).walk() if isinstance(op, FuncOp)]


def describe(text: str) -> LaunchDescription:
    return describe_launches(kernels(text), "attention.gfx942.hsaco")


def test_the_json_says_everything() -> None:
    assert json.loads(describe(KERNEL).to_json()) == {
        "version": 1,
        "buffers": [
            {"name": "q", "kind": "buffer", "dtype": "f16", "shape": [4, 64], "bytes": 512, "access": "read"},
            {
                "name": "ktab",
                "kind": "page_table",
                "dtype": "i64",
                "shape": [2, 32],
                "bytes": 512,
                "access": "read",
                "page_bytes": 2048,
            },
            {"name": "bias", "kind": "buffer", "dtype": "i8", "shape": [64], "bytes": 64, "access": "read"},
            {"name": "count", "kind": "scalar", "dtype": "i16", "shape": [], "bytes": 2, "access": "read"},
            {"name": "scale", "kind": "scalar", "dtype": "f32", "shape": [], "bytes": 4, "access": "read"},
            {"name": "out", "kind": "buffer", "dtype": "f32", "shape": [256], "bytes": 1024, "access": "write"},
        ],
        "launches": [
            {
                "kernel": "attention",
                "object": "attention.gfx942.hsaco",
                "grid": [32, 1, 1],
                "block": [256, 1, 1],
                "lds_bytes": 1024,
                "args": ["q", "ktab", "bias", "count", "scale", "out"],
            }
        ],
    }


def test_json_round_trip() -> None:
    description = describe(KERNEL + MERGE)
    assert LaunchDescription.from_json(description.to_json()) == description


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "buffers": [{}], "launches": []}'])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(XpagedError, match="launch description"):
        LaunchDescription.from_json(text)


def test_two_kernels_share_the_buffers_that_both_name() -> None:
    description = describe(KERNEL + MERGE)
    assert [launch.args for launch in description.launches] == [
        ("q", "ktab", "bias", "count", "scale", "out"),
        ("out", "merge.arg1"),
    ]
    assert description.buffer("out").access == "read_write"
    assert description.buffer("merge.arg1").access == "write"
    assert len(description.buffers) == 7


def test_one_name_for_two_different_buffers_is_refused() -> None:
    with pytest.raises(XpagedError, match="two kernels name different buffers 'out'") as caught:
        describe(KERNEL + MERGE.replace("memref<256xf32>", "memref<128xf32>"))
    assert (caught.value.found, caught.value.expected) == ("buffer of f32 [128]", "buffer of f32 [256]")


def test_arguments_without_a_name_are_numbered() -> None:
    assert describe(MERGE.replace("%out", "%1")).launches[0].args == ("arg0", "arg1")


@pytest.mark.parametrize("name", ["rock.grid_size", "rock.block_size", "rock.lds_bytes"])
@pytest.mark.parametrize("value", [None, "-1 : i64", '"many"'])
def test_a_kernel_without_usable_sizes_is_refused(name: str, value: str | None) -> None:
    known = {"rock.grid_size": "32 : i64", "rock.block_size": "256 : i64", "rock.lds_bytes": "1024 : i64"}[name]
    old, new = f"{name} = {known}", f"{name} = {value}" if value is not None else "other"
    with pytest.raises(XpagedError, match=f"no usable {name}"):
        describe(KERNEL.replace(old, new))


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("index", "cannot be passed to a GPU"),
        ("memref<?xf16>", "size of buffer"),
        ("memref<4xindex>", "size of buffer"),
        ("memref<64x4xf16, strided<[8, 1]>>", "layout of its own"),
    ],
)
def test_arguments_that_no_launcher_could_pass_are_refused(type: str, message: str) -> None:
    with pytest.raises(XpagedError, match=message) as caught:
        describe(KERNEL.replace("memref<4x64xf16>", type))
    assert "%q" in str(caught.value)


def compiled(**changes: object) -> CodeObject:
    """An object that agrees with KERNEL, but for the changes."""
    places = ((0, 8), (8, 8), (16, 8), (24, 2), (28, 4), (32, 8))
    arguments = tuple(KernelArgument(offset, size, "by_value") for offset, size in places)
    kernel = KernelInfo("attention", 64, 0, 32, 0, 0, 0, 1024, 256, 64, 40, arguments)
    return CodeObject("gfx942", 5, (replace(kernel, **changes),))


def test_an_object_that_agrees_passes() -> None:
    describe(KERNEL).check_object(compiled())


_HIDDEN = KernelArgument(40, 8, "hidden_global_offset_x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: compiled(lds=2048), "bytes of LDS"),
        (lambda: compiled(max_workgroup=1024), "lanes in a workgroup"),
        (lambda: compiled(kernarg_bytes=48), "bytes of kernel arguments"),
        (lambda: compiled(arguments=compiled().kernels[0].arguments[:-1]), "places of the arguments"),
        (lambda: compiled(arguments=(*compiled().kernels[0].arguments, _HIDDEN)), "hidden arguments"),
        (lambda: compiled(name="other"), "no kernel 'attention'"),
    ],
)
def test_an_object_that_disagrees_is_refused(change: Callable[[], CodeObject], message: str) -> None:
    with pytest.raises(XpagedError, match=message):
        describe(KERNEL).check_object(change())
