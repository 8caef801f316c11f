"""tosa-to-rock-deref: addresses proved to be pointers plus offsets, in every spelling; all others refused."""

# ruff: noqa: E501
from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp

from xpaged.dialects.rock.ops import DerefOp
from xpaged.dialects.rock.views import chain_of
from xpaged.errors import XpagedError
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.ir.transform_map import apply_chain
from xpaged.pipeline import Pipeline

DEREF = Pipeline("tosa-to-rock-deref")
CUSTOM = '{domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"}'


def test_the_ir_of_the_docstring(docstring_ir: Callable[[str], tuple[ModuleOp, ModuleOp]]):
    before, after = docstring_ir("tosa-to-rock-deref")
    DEREF.apply(before)
    assert print_module(before) == print_module(after)


def graph(body: str, *, argument: str = "tensor<1x3x1xi64>", shape: str = "1x3x4", element: str = "f16") -> ModuleOp:
    """A function that reads through the addresses `%a`, computed from the argument `%t`."""
    return parse(
        f"""func.func @f(%t: {argument}, %u: {argument}) -> tensor<{shape}x{element}> {{
          %zero = "tosa.const"() <{{values = dense<0> : tensor<1xi8>}}> : () -> tensor<1xi8>
          %ones = "tosa.const"() <{{values = dense<1> : tensor<1x3x4xi64>}}> : () -> tensor<1x3x4xi64>
          %i = "tosa.const"() <{{values = dense<[0, 1, 2, 3]> : tensor<4xi64>}}> : () -> tensor<4xi64>
          %i3 = tosa.reshape %i {{new_shape = array<i64: 1, 1, 4>}} : (tensor<4xi64>) -> tensor<1x1x4xi64>
          %two = "tosa.const"() <{{values = dense<2> : tensor<1x1x1xi64>}}> : () -> tensor<1x1x1xi64>
          %i2 = tosa.mul %i3, %two : (tensor<1x1x4xi64>, tensor<1x1x1xi64>) -> tensor<1x1x4xi64>
          {body}
          %d = tosa.custom %a {CUSTOM} : (tensor<{shape}xi64>) -> tensor<{shape}x{element}>
          return %d : tensor<{shape}x{element}>
        }}""",
        "graph.mlir",
    )


def add(pointers: str, offsets: str) -> str:
    return f"%a = tosa.add {pointers}, {offsets} : (tensor<1x3x1xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xi64>"


def converted(module: ModuleOp) -> tuple[DerefOp, list[IndexExpr]]:
    """The deref of a module after the pass, and where in the argument the pointer of page d1 of entry d0 lies."""
    DEREF.apply(module)
    text = print_module(module)
    assert "tosa" not in text
    assert print_module(parse(text)) == text
    (deref,) = [op for op in module.walk() if isinstance(op, DerefOp)]
    chain = chain_of(deref.table)
    batch, pages, _ = (deref.batch, deref.num_pages, 1)
    coordinates = [IndexExpr.var("b", 0, batch - 1), IndexExpr.var("p", 0, pages - 1), IndexExpr.const(0)]
    return deref, apply_chain(chain.maps, coordinates)[0]


def test_added_offsets():
    deref, pointer = converted(graph(add("%t", "%i2")))
    assert (deref.page_size, deref.num_pages, str(deref.element_type)) == (4, 3, "f16")
    assert [str(c) for c in pointer] == ["0", "p", "0"]


BROADCAST = """
  %b = tosa.mul %t, %ones, %zero : (tensor<1x3x1xi64>, tensor<1x3x4xi64>, tensor<1xi8>) -> tensor<1x3x4xi64>
  %o = tosa.mul %i2, %ones : (tensor<1x1x4xi64>, tensor<1x3x4xi64>) -> tensor<1x3x4xi64>
  %a = tosa.add %o, %b : (tensor<1x3x4xi64>, tensor<1x3x4xi64>) -> tensor<1x3x4xi64>"""
BY_ADDITION = """
  %z = "tosa.const"() <{values = dense<0> : tensor<1x3x4xi64>}> : () -> tensor<1x3x4xi64>
  %b = tosa.add %t, %z : (tensor<1x3x1xi64>, tensor<1x3x4xi64>) -> tensor<1x3x4xi64>
  %a = tosa.add %b, %i2 : (tensor<1x3x4xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xi64>"""
BY_TILE = """
  %m = tosa.const_shape {values = dense<[1, 1, 4]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %b = tosa.tile %t, %m : (tensor<1x3x1xi64>, !tosa.shape<3>) -> tensor<1x3x4xi64>
  %a = tosa.add %b, %i2 : (tensor<1x3x4xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xi64>"""
IN_PIECES = """
  %one = "tosa.const"() <{values = dense<1> : tensor<1x1x1xi64>}> : () -> tensor<1x1x1xi64>
  %j = tosa.add %i2, %one : (tensor<1x1x4xi64>, tensor<1x1x1xi64>) -> tensor<1x1x4xi64>
  %b = tosa.add %t, %j : (tensor<1x3x1xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xi64>
  %a = tosa.sub %b, %one : (tensor<1x3x4xi64>, tensor<1x1x1xi64>) -> tensor<1x3x4xi64>"""
RESHAPED = """
  %f = tosa.add %t, %i2 : (tensor<1x3x1xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xi64>
  %g = tosa.reshape %f {new_shape = array<i64: 12, 1>} : (tensor<1x3x4xi64>) -> tensor<12x1xi64>
  %a = tosa.reshape %g {new_shape = array<i64: 1, 3, 4>} : (tensor<12x1xi64>) -> tensor<1x3x4xi64>"""


@pytest.mark.parametrize("body", [BROADCAST, BY_ADDITION, BY_TILE, IN_PIECES, RESHAPED])
def test_spellings(body: str):
    _, pointer = converted(graph(body))
    assert [str(c) for c in pointer] == ["0", "p", "0"]


SLICED = {
    "tosa": """
      %1 = tosa.reshape %t {new_shape = array<i64: 1, 5, 3>} : (tensor<15xi64>) -> tensor<1x5x3xi64>
      %2 = tosa.slice %1 {start = array<i64: 0, 2, 0>, size = array<i64: 1, 1, 3>} : (tensor<1x5x3xi64>) -> tensor<1x1x3xi64>
      %3 = tosa.transpose %2 {perms = array<i32: 1, 2, 0>} : (tensor<1x1x3xi64>) -> tensor<1x3x1xi64>
    """,
    "tensor": """
      %1 = tensor.expand_shape %t [[0, 1, 2]] output_shape [1, 5, 3] : tensor<15xi64> into tensor<1x5x3xi64>
      %2 = tensor.extract_slice %1[0, 2, 0] [1, 1, 3] [1, 1, 1] : tensor<1x5x3xi64> to tensor<1x1x3xi64>
      %c = tensor.collapse_shape %2 [[0, 1], [2]] : tensor<1x1x3xi64> into tensor<1x3xi64>
      %3 = tensor.expand_shape %c [[0], [1, 2]] output_shape [1, 3, 1] : tensor<1x3xi64> into tensor<1x3x1xi64>
    """,
    "rank reducing": """
      %1 = tensor.expand_shape %t [[0, 1]] output_shape [5, 3] : tensor<15xi64> into tensor<5x3xi64>
      %2 = tensor.extract_slice %1[2, 0] [1, 3] [1, 1] : tensor<5x3xi64> to tensor<3xi64>
      %3 = tensor.expand_shape %2 [[0, 1, 2]] output_shape [1, 3, 1] : tensor<3xi64> into tensor<1x3x1xi64>
    """,
}


@pytest.mark.parametrize("spelling", SLICED)
def test_one_layer_of_a_table(spelling: str):
    module = graph(SLICED[spelling] + add("%3", "%i2"), argument="tensor<15xi64>")
    _, (pointer,) = converted(module)
    assert str(pointer) == "p + 6"
    assert "rock.page_table = {page_size = 4 : i64, elem = f16}" in print_module(module)


def test_a_page_may_start_behind_its_pointer():
    body = """
      %h = "tosa.const"() <{values = dense<6> : tensor<1x1x1xi64>}> : () -> tensor<1x1x1xi64>
      %j = tosa.add %i2, %h : (tensor<1x1x4xi64>, tensor<1x1x1xi64>) -> tensor<1x1x4xi64>
    """
    module = graph(body + add("%t", "%j"))
    deref, _ = converted(module)
    assert deref.page_size == 7
    text = print_module(module)
    assert "<Slice{3, 7}" in text
    assert "page_size = 7" in text


def test_pages_that_follow_one_another():
    """One pointer for all pages: they are one long page, here with a head of one element."""
    body = """
      %p = "tosa.const"() <{values = dense<[[[2], [10], [18]]]> : tensor<1x3x1xi64>}> : () -> tensor<1x3x1xi64>
      %q = tosa.add %t, %p : (tensor<1x1x1xi64>, tensor<1x3x1xi64>) -> tensor<1x3x1xi64>
    """
    module = graph(body + add("%q", "%i2"), argument="tensor<1x1x1xi64>")
    deref, pointer = converted(module)
    assert (deref.num_pages, deref.page_size) == (1, 13)
    assert [str(c) for c in pointer] == ["0", "0", "0"]
    assert "<Unmerge{3, 4}" in print_module(module)


GUARD = """
  %f = tosa.slice %t {start = array<i64: 0, 0, 0>, size = array<i64: 1, 1, 1>} : (tensor<1x3x1xi64>) -> tensor<1x1x1xi64>
  %n = "tosa.const"() <{values = dense<0> : tensor<1x1x1xi64>}> : () -> tensor<1x1x1xi64>
  %c = tosa.greater %t, %n : (tensor<1x3x1xi64>, tensor<1x1x1xi64>) -> tensor<1x3x1xi1>
"""
POINTERS = "(tensor<1x3x1xi1>, tensor<1x3x1xi64>, tensor<1x1x1xi64>) -> tensor<1x3x1xi64>\n"
GUARDED = {
    "pointers": f"{GUARD}%q = tosa.select %c, %t, %f : {POINTERS}" + add("%q", "%i2"),
    "exchanged": f"{GUARD}%q = tosa.select %c, %f, %t : {POINTERS}".replace(
        "tensor<1x3x1xi64>, tensor<1x1x1xi64>) -> tensor<1x3x1xi64>\n", "tensor<1x1x1xi64>, tensor<1x3x1xi64>) -> tensor<1x3x1xi64>\n"
    ) + add("%q", "%i2"),
    "addresses": GUARD + add("%t", "%i2").replace("%a", "%b") + """
  %a = tosa.select %c, %b, %f : (tensor<1x3x1xi1>, tensor<1x3x4xi64>, tensor<1x1x1xi64>) -> tensor<1x3x4xi64>""",
}  # fmt: skip


@pytest.mark.parametrize("spelling", GUARDED)
def test_slots_that_are_not_used(spelling: str):
    """Another address for unused slots: zeros instead of what is read there, until an attention proves that it does
    not look."""
    module = graph(GUARDED[spelling])
    DEREF.apply(module)
    (deref,) = [op for op in module.walk() if isinstance(op, DerefOp)]
    (select,) = [op for op in module.walk() if op.name == "tosa.select"]
    assert select.operands[2 if spelling == "exchanged" else 1] is deref.result


def test_batches_and_pages_of_one_element():
    body = "%a = tosa.identity %t : (tensor<2x3x1xi64>) -> tensor<2x3x1xi64>"
    deref, pointer = converted(graph(body, argument="tensor<2x3x1xi64>", shape="2x3x1"))
    assert (deref.batch, deref.num_pages, deref.page_size) == (2, 3, 1)
    assert [str(c) for c in pointer] == ["b", "p", "0"]


def scaled(values: str) -> str:
    return f'%o = "tosa.const"() <{{values = dense<{values}> : tensor<1x1x4xi64>}}> : () -> tensor<1x1x4xi64>\n'


PER_PAGE = '%p = "tosa.const"() <{values = dense<[[[0], [8], [16]]]> : tensor<1x3x1xi64>}> : () -> tensor<1x3x1xi64>\n'
REFUSED = {
    "step": (scaled("[[[0, 4, 8, 12]]]") + add("%t", "%o"), r"proved to be i \* sizeof\(element\)", r"found: .*4\*d2"),
    "no step": (
        "%a = tosa.mul %t, %ones : (tensor<1x3x1xi64>, tensor<1x3x4xi64>) -> tensor<1x3x4xi64>",
        r"proved to be i \* sizeof",
        "expected: 2",
    ),
    "shuffled": (scaled("[[[0, 4, 2, 6]]]") + add("%t", "%o"), "not an affine function", "starts with 0, 4, 2, 6"),
    "odd start": (scaled("[[[1, 3, 5, 7]]]") + add("%t", "%o"), "a whole number of elements", "found: 1 bytes"),
    "negative start": (scaled("[[[-2, 0, 2, 4]]]") + add("%t", "%o"), "a whole number of elements", "found: -2 bytes"),
    "start per page": (
        f"{PER_PAGE}%q = tosa.add %t, %p : (tensor<1x3x1xi64>, tensor<1x3x1xi64>) -> tensor<1x3x1xi64>\n"
        + add("%q", "%i2"),
        "do not all start at the same offset",
        r"8\*d1",
    ),
    "two pointers": (
        "%q = tosa.add %t, %u : (tensor<1x3x1xi64>, tensor<1x3x1xi64>) -> tensor<1x3x1xi64>\n" + add("%q", "%i2"),
        "adds two values that are not constant",
        "%t",
    ),
    "scaled pointer": (
        "%q = tosa.mul %t, %two : (tensor<1x3x1xi64>, tensor<1x1x1xi64>) -> tensor<1x3x1xi64>\n" + add("%q", "%i2"),
        "multiplies a value that is not constant",
        "%t",
    ),
    "negated pointer": (
        "%q = tosa.sub %two, %t : (tensor<1x1x1xi64>, tensor<1x3x1xi64>) -> tensor<1x3x1xi64>\n" + add("%q", "%i2"),
        "subtracts a value that is not constant",
        "%t",
    ),
    "square": (
        "%s = tosa.mul %i2, %i2 : (tensor<1x1x4xi64>, tensor<1x1x4xi64>) -> tensor<1x1x4xi64>\n" + add("%t", "%s"),
        "not linear",
        "",
    ),
    "overflow": (
        '%big = "tosa.const"() <{values = dense<9223372036854775807> : tensor<1x1x1xi64>}> : () -> tensor<1x1x1xi64>\n'
        "%s = tosa.add %i2, %big : (tensor<1x1x4xi64>, tensor<1x1x1xi64>) -> tensor<1x1x4xi64>\n" + add("%t", "%s"),
        "overflows i64",
        "",
    ),
    "constant": (
        "%a = tosa.mul %i2, %ones : (tensor<1x1x4xi64>, tensor<1x3x4xi64>) -> tensor<1x3x4xi64>",
        "come from no page table",
        "",
    ),
    "computed": (
        "%q = tosa.abs %t : (tensor<1x3x1xi64>) -> tensor<1x3x1xi64>\n" + add("%q", "%i2"),
        "must come from a function argument",
        "'tosa.abs'",
    ),
    "clipped": (
        "%q = tosa.maximum %t, %two : (tensor<1x3x1xi64>, tensor<1x1x1xi64>) -> tensor<1x3x1xi64>\n" + add("%q", "%i2"),
        "the pointers of a deref are clipped",
        r"clip\(%t\[0, d1, 0\], 2\.\.\)",
    ),
    "selected": (
        "%c = tosa.greater %t, %u : (tensor<1x3x1xi64>, tensor<1x3x1xi64>) -> tensor<1x3x1xi1>\n"
        "%q = tosa.select %c, %t, %u : (tensor<1x3x1xi1>, tensor<1x3x1xi64>, tensor<1x3x1xi64>) -> tensor<1x3x1xi64>\n"
        + add("%q", "%i2"),
        "cannot be told which of two addresses is meant for slots that are not used",
        r"%t\[0, d1, 0\] \+ 0 and %u",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "message", "found"), REFUSED.values(), ids=REFUSED)
def test_refused(body: str, message: str, found: str):
    import re

    with pytest.raises(XpagedError, match=message) as caught:
        DEREF.apply(graph(body))
    rendered = caught.value.render()
    assert rendered.startswith("graph.mlir:")
    assert re.search(found, rendered), rendered


def test_a_pointer_for_each_element_is_refused():
    body = "%a = tosa.add %t, %i2 : (tensor<1x3x4xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xi64>"
    with pytest.raises(XpagedError, match="have pointers of their own"):
        DEREF.apply(graph(body, argument="tensor<1x3x4xi64>"))


def test_page_tables_of_rank_2_are_refused():
    body = """
      %o = tosa.reshape %i2 {new_shape = array<i64: 1, 4>} : (tensor<1x1x4xi64>) -> tensor<1x4xi64>
      %a = tosa.add %t, %o : (tensor<3x1xi64>, tensor<1x4xi64>) -> tensor<3x4xi64>"""
    with pytest.raises(XpagedError, match="must have rank 3") as caught:
        DEREF.apply(graph(body, argument="tensor<3x1xi64>", shape="3x4"))
    assert "expected: [batch, numPages, pageSize]" in caught.value.render()
    assert "found: tensor<3x4xi64>, of rank 2" in caught.value.render()


def test_addresses_must_be_i64_and_one_for_each_element():
    text = """func.func @f(%t: tensor<1x3x4x{0}>) -> tensor<1x3x{1}xf16> {{
      %d = tosa.custom %t {2} : (tensor<1x3x4x{0}>) -> tensor<1x3x{1}xf16>
      return %d : tensor<1x3x{1}xf16>
    }}"""
    for element, length, message in (("i32", 4, "must be i64"), ("i64", 8, "one address for each element")):
        with pytest.raises(XpagedError, match=message):
            DEREF.apply(parse(text.format(element, length, CUSTOM)))


def test_one_table_with_pages_of_two_kinds_is_refused():
    other = add("%t", "%i2").replace("%a", "%a2")
    body = f"{other}\n%e = tosa.custom %a2 {CUSTOM} : (tensor<1x3x4xi64>) -> tensor<1x3x4xbf16>\n"
    with pytest.raises(XpagedError, match="pages of two kinds") as caught:
        DEREF.apply(graph(body + add("%t", "%i2")))
    assert "bf16" in caught.value.render()


def test_other_custom_operators_stay():
    text = """func.func @f(%t: tensor<4xi32>) -> tensor<4xi32> {
      %d = tosa.custom %t {domain_name = "rocmlir", implementation_attrs = "", operator_name = "unsigned_cast"}
         : (tensor<4xi32>) -> tensor<4xi32>
      return %d : tensor<4xi32>
    }"""
    module = parse(text)
    DEREF.apply(module)
    assert "unsigned_cast" in print_module(module)
