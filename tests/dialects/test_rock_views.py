"""The rock dialect's views: `#rock.transform_map`, `rock.transform`, `rock.deref`, and chains of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.builder import Builder
from xdsl.dialects.builtin import MemRefType, TensorType, f16, i64
from xdsl.ir import Attribute, Block, Operation
from xdsl.rewriter import InsertPoint
from xdsl.traits import Pure
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import is_trivially_dead
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.rock.attrs import AttentionParamsAttr, StoreMethodAttr, TransformMapAttr
from xpaged.dialects.rock.ops import DerefOp, TransformOp, YieldOp
from xpaged.dialects.rock.views import (
    chain_of,
    erase_unused_views,
    make_chain,
    make_transform,
    memory_position,
    step_of,
    transforms_of,
)
from xpaged.errors import XpagedError
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.ir.transform_map import Builder as MapBuilder
from xpaged.ir.transform_map import Transform, TransformMap

IDENTITY = '<PassThrough ["x"] at [0] -> ["x"] at [0]>'


def with_map(text: str, lower: str = "4xf16", upper: str = "4xf16") -> str:
    return f"""func.func @f(%x: memref<{lower}>) {{
  %y = rock.transform %x by #rock.transform_map<{text}> : memref<{lower}> to memref<{upper}>
  func.return
}}"""


def refused(text: str) -> str:
    with pytest.raises(XpagedError) as refusal:
        parse(text)
    assert refusal.value.where.startswith("<input>:")
    return refusal.value.render()


class TestTransformMapAttribute:
    def test_upstream_text_is_taken(self):
        """As rocMLIR prints it, with its own way to write the affine map."""
        text = with_map(
            "affine_map<(d0, d1, d2, d3, d4) -> (((d1 * 6 + d2) * 2 + d3) * 8 + d4)> by "
            '[<Unmerge{12, 6, 2, 8} ["exp1", "exp2", "exp3", "exp4"] at [1, 2, 3, 4] -> ["dim0"] at [0]>, '
            '<AddDim{1} ["unit0"] at [0] -> [] at []>] bounds = [1, 12, 6, 2, 8] -> [1152]',
            "1152xf16",
            "1x12x6x2x8xf16",
        )
        printed = print_module(parse(text))
        assert "(d1 * 96 + d2 * 16 + d3 * 8 + d4)" in printed
        assert print_module(parse(printed)) == printed

    def test_aliases_and_the_short_form(self):
        body = f"affine_map<(d0) -> (d0)> by [{IDENTITY}] bounds = [4] -> [4]"
        short = with_map(body).replace("#rock.transform_map", "")
        alias = f"#t = #rock.transform_map<{body}>\n" + with_map(body).replace(f"#rock.transform_map<{body}>", "#t")
        assert print_module(parse(short)) == print_module(parse(alias)) == print_module(parse(with_map(body)))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (f"affine_map<(d0) -> (d0 + 1)> by [{IDENTITY}] bounds = [4] -> [4]", "is not what the transforms do"),
            (f"affine_map<(d0) -> (d0, d0)> by [{IDENTITY}] bounds = [4] -> [4]", "is not what the transforms do"),
            (f"affine_map<(d0) -> (d0 * d0)> by [{IDENTITY}] bounds = [4] -> [4]", ""),
            (f"affine_map<(d0)[s0] -> (d0)> by [{IDENTITY}] bounds = [4] -> [4]", "is not what the transforms do"),
            (f"4 by [{IDENTITY}] bounds = [4] -> [4]", "expected an affine map, found 4"),
            (
                f"affine_map<(d0) -> (d0)> by [{IDENTITY.replace('PassThrough', 'PassTrough')}] bounds = [4] -> [4]",
                "did you mean 'PassThrough'?",
            ),
            (f"affine_map<(d0) -> (d0)> by [{IDENTITY}] bounds = [4] -> [5]", "malformed transform map"),
            (f"affine_map<(d0) -> (d0)> by [{IDENTITY}] bounds = [0] -> [0]", "must all be positive"),
            (f"affine_map<(d0) -> (d0)> by [{IDENTITY}] bounds = [4", ""),
            ("affine_map<(d0) -> (d0)> by [<[] at []>] bounds = [4] -> [4]", "expected a transform kind"),
        ],
    )
    def test_a_map_that_does_not_hold_together_is_refused(self, text: str, message: str):
        assert message in refused(with_map(text))

    def test_constructed_maps_are_checked_too(self):
        bad = TransformMap((Transform("PassThrough", (), ("x",), (0,), ("x",), (0,)),), (4,), (5,))
        with pytest.raises(VerifyException, match="upper length 4 and lower length 5 differ"):
            TransformMapAttr(bad)

    @settings(max_examples=30)
    @given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2))
    def test_every_kind_round_trips(self, a: int, b: int, c: int):
        builder = MapBuilder(("x", "y", "z", "w", "v", "u"), (a * b, a, b, a + c, a, b))
        builder.unmerge(("x0", "x1"), "x", (a, b)).merge("yz", ("y", "z")).slice("w", c, a + c).pad("v", c, 1)
        builder.broadcast("u", 2 * b).add_dim("n", 3)
        built = builder.build()
        block = Block(arg_types=[MemRefType(f16, built.lower_bounds)])
        op = TransformOp(block.args[0], built)
        op.verify()
        text = with_map(
            str(TransformMapAttr(built)).removeprefix("#rock.transform_map<").removesuffix(">"),
            "x".join(map(str, built.lower_bounds)) + "xf16",
            "x".join(map(str, built.upper_bounds)) + "xf16",
        )
        assert print_module(parse(print_module(parse(text)))) == print_module(parse(text))


def test_ceildiv_in_a_given_map_is_understood():
    text = with_map(
        'affine_map<(d0, d1) -> ((d0 * 4 + d1) ceildiv 1)> by [<Unmerge{3, 4} ["a", "b"] at [0, 1] -> ["x"] at [0]>]'
        " bounds = [3, 4] -> [12]",
        "12xf16",
        "3x4xf16",
    )
    parse(text)


def test_attention_parameters():
    attr = AttentionParamsAttr.of(keys_per_tile=16, query_waves=1, key_waves=4, channel_chunk=64, value_channels=32)
    text = str(attr)
    assert text == (
        "#rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 4, channel_chunk = 64, "
        "value_channels = 32, stages = 1, rows_per_wave = 16>"
    )
    module = parse(f"func.func @f() attributes {{p = {text}}} {{ func.return }}")
    func = module.body.block.first_op
    assert func is not None
    assert func.attributes["p"] == attr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<keys_per_tile = 0, query_waves = 1, key_waves = 4, channel_chunk = 64, value_channels = 32>", "positive"),
        ("<keys_per_tile = 1>", "missing parameters: query_waves, key_waves"),
        ("<tile = 1>", "unknown parameter 'tile'"),
        ("<key_waves = 1, key_waves = 1>", "repeated parameter 'key_waves'"),
    ],
)
def test_bad_attention_parameters(text: str, message: str):
    assert message in refused(f"func.func @f() attributes {{p = #rock.attention_params{text}}} {{ func.return }}")


def test_store_method():
    module = parse("func.func @f() attributes {m = #rock<StoreMethod set>} { func.return }")
    assert "m = #rock<StoreMethod set>" in print_module(module)
    assert StoreMethodAttr("set") in [op.attributes.get("m") for op in module.walk()]
    assert "unknown store method 'sett'" in refused(
        "func.func @f() attributes {m = #rock<StoreMethod sett>} { func.return }"
    )


def body(line: str, arguments: str) -> str:
    return f"func.func @f({arguments}) {{\n  {line}\n  func.return\n}}"


TO_2x2 = 'affine_map<(d0, d1) -> (d0 * 2 + d1)> by [<Unmerge{2, 2} ["a", "b"] at [0, 1] -> ["x"] at [0]>]'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"rock.transform %x by <{TO_2x2} bounds = [2, 2] -> [4]> : memref<4xf16> to memref<2x2xf32>", "element types"),
        (f"rock.transform %x by <{TO_2x2} bounds = [2, 2] -> [4]> : memref<4xf16> to tensor<2x2xf16>", "a view of"),
        (
            f"rock.transform %x by <{TO_2x2} bounds = [2, 2] -> [4]> : memref<4xf16> to memref<4x1xf16>",
            "for the result",
        ),
        (
            f"rock.transform %z by <{TO_2x2} bounds = [2, 2] -> [4]> : memref<5xf16> to memref<2x2xf16>",
            "for the source",
        ),
        (f"rock.transform %d by <{TO_2x2} bounds = [2, 2] -> [4]> : memref<?xf16> to memref<2x2xf16>", "static shape"),
        (f"rock.transform %i by <{TO_2x2} bounds = [2, 2] -> [4]> : index to memref<2x2xf16>", "memref or a tensor"),
        ('rock.transform %x by "four" : memref<4xf16> to memref<2x2xf16>', "expected a #rock.transform_map"),
    ],
)
def test_transform_refuses(line: str, message: str):
    text = body(f"%y = {line}", "%x: memref<4xf16>, %z: memref<5xf16>, %d: memref<?xf16>, %i: index")
    assert message in refused(text)


@pytest.mark.parametrize(
    ("table", "pages", "message"),
    [
        ("memref<8xi64>", "memref<1x8x16xf16>", "rank 3 [batch, numPages, 1]"),
        ("memref<1x8xi64>", "memref<1x8x16xf16>", "rank 3 [batch, numPages, 1]"),
        ("memref<1x8x1xi64>", "memref<8x16xf16>", "rank 3 [batch, numPages, pageSize]"),
        ("memref<1x8x1xi32>", "memref<1x8x16xf16>", "i64 addresses"),
        ("memref<1x8x2xi64>", "memref<1x8x16xf16>", "last dimension of the page table must be 1"),
        ("memref<1x8x1xi64>", "memref<1x9x16xf16>", "numPages 8, the result 9"),
        ("memref<2x8x1xi64>", "memref<1x8x16xf16>", "batch 2, the result 1"),
        ("memref<1x8x1xi64>", "memref<1x8x?xf16>", "static shape"),
        ("memref<1x8x1xi64>", "memref<1x8x0xf16>", "length 0"),
        ("memref<1x8x1xi64>", "memref<1x8x16xindex>", "floats or integers"),
        ("tensor<1x8x1xi64>", "memref<1x8x16xf16>", "both tensors or memrefs"),
        ("i64", "memref<1x8x16xf16>", "memref or a tensor"),
    ],
)
def test_deref_refuses(table: str, pages: str, message: str):
    assert message in refused(body(f"%p = rock.deref %t : {table} -> {pages}", f"%t: {table}"))


def test_deref_describes_and_loads_nothing():
    """Pure: two of the same are one, one that is unused goes away, and neither is a read."""
    block = Block(arg_types=[MemRefType(i64, [2, 8, 1])])
    ops = [DerefOp(block.args[0], MemRefType(f16, [2, 8, 16])) for _ in range(2)]
    block.add_ops([*ops, YieldOp(ops[0], ops[1])])
    assert ops[0].has_trait(Pure)
    cse(block)
    assert [op.name for op in block.ops] == ["rock.deref", "rock.yield"]
    assert is_trivially_dead(DerefOp(block.args[0], MemRefType(f16, [2, 8, 16])))
    assert (ops[0].batch, ops[0].num_pages, ops[0].page_size, ops[0].element_type) == (2, 8, 16, f16)


def test_deref_on_tensors_round_trips():
    text = print_module(
        parse(body("%p = rock.deref %t : tensor<1x8x1xi64> -> tensor<1x8x16xbf16>", "%t: tensor<1x8x1xi64>"))
    )
    assert "%p = rock.deref %t : tensor<1x8x1xi64> -> tensor<1x8x16xbf16>" in text
    assert print_module(parse(text)) == text


class TestChains:
    def setup_method(self):
        self.block = Block(arg_types=[MemRefType(i64, [8]), MemRefType(f16, [64])])
        self.b = Builder(InsertPoint.at_end(self.block))
        self.table_map = MapBuilder(("raw",), (8,)).unmerge(("b", "p", "one"), "raw", (1, 8, 1)).build()
        self.flat = MapBuilder(("b", "p", "o"), (1, 8, 16)).pass_through("b").merge("n", ("p", "o")).build()
        self.split = MapBuilder(("b", "n"), (1, 128)).pass_through("b").unmerge(("s", "d"), "n", (16, 8)).build()

    def pages(self):
        table = make_transform(self.b, self.block.args[0], self.table_map)
        return self.b.insert(DerefOp(table, MemRefType(f16, [1, 8, 16]))).result

    def test_a_chain_ends_in_its_deref(self):
        pages = self.pages()
        view = make_chain(self.b, pages, [self.split, self.flat], "keys")
        chain = chain_of(view)
        assert chain.root is pages
        assert chain.maps == [self.split, self.flat]
        assert chain.deref is pages.owner
        assert chain.table is not None
        assert chain.table.root is self.block.args[0]
        assert chain.table.maps == [self.table_map]
        assert chain.table.deref is None
        assert chain.table.table is None
        assert [t.map.data for t in transforms_of(view)] == chain.maps
        assert view.name_hint == "keys"
        assert view.type == MemRefType(f16, [1, 16, 8])

    def test_an_identity_adds_nothing(self):
        identity = MapBuilder(("x",), (64,)).pass_through("x").build()
        assert make_transform(self.b, self.block.args[1], identity) is self.block.args[1]

    def test_views_of_tensors_are_tensors(self):
        block = Block(arg_types=[TensorType(f16, [64])])
        split = MapBuilder(("x",), (64,)).unmerge(("a", "b"), "x", (8, 8)).build()
        view = make_transform(Builder(InsertPoint.at_end(block)), block.args[0], TransformMapAttr(split))
        assert view.type == TensorType(f16, [8, 8])

    def test_positions_run_on_over_pages(self):
        view = make_chain(self.b, self.pages(), [self.split, self.flat])
        position, names = memory_position(view)
        assert (str(position), names) == ("8*d1 + d2", ["d0", "d1", "d2"])
        assert [step_of(position, name) for name in names] == [0, 8, 1]
        assert step_of(IndexExpr.var("x", 0, 9) // 4, "x") is None
        at = memory_position(view, [IndexExpr.const(0), IndexExpr.const(3), IndexExpr.var("c", 0, 7)])[0]
        assert str(at) == "c + 24"

    def test_erasing_stops_at_what_is_used(self):
        pages = self.pages()
        flat = make_chain(self.b, pages, [self.flat])
        views = [make_transform(self.b, flat, self.split) for _ in range(2)]
        erase_unused_views(views[0])
        erase_unused_views(views[0])
        names = [op.name for op in self.block.ops]
        assert names == ["rock.transform", "rock.deref", "rock.transform", "rock.transform"]
        erase_unused_views(views[1])
        assert [op.name for op in self.block.ops] == ["rock.transform", "rock.deref"]


def test_types_of_attributes():
    """Every attribute of the dialect is one of xDSL's, with a name of ours."""
    from xpaged.dialects.rock import Rock

    attributes: list[type[Attribute]] = list(Rock.attributes)
    operations: list[type[Operation]] = list(Rock.operations)
    assert {a.name for a in attributes} >= {
        "rock.transform_map",
        "rock.attention_params",
        "rock.StoreMethod",
        "rock.tile",
    }
    assert {o.name for o in operations} >= {
        "rock.transform",
        "rock.deref",
        "rock.yield",
        "rock.attention",
        "rock.tile_load",
    }
