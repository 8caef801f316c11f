"""`rock.attention` and `rock.gridwise_attention_accel`: text, older spellings, and every rule of the verifiers."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, UnitAttr, f32, i32
from xdsl.ir import Block
from xdsl.traits import MemoryEffectKind, get_effects
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.rock.attention import AttentionOp, GridwiseAttentionAccelOp
from xpaged.dialects.rock.attrs import AttentionParamsAttr
from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module

ARGUMENTS = {
    "q": "4x5x8xf16",
    "k": "2x8x6xf16",
    "v": "2x6x12xf16",
    "o": "4x5x12xf16",
    "lse": "4x5xf32",
    "last": "4xi32",
    "offset": "4xi32",
    "bias": "4x5x6xf16",
}
REGION = """{
  ^bb0(%s: f32, %b: f16):
    %w = arith.extf %b : f16 to f32
    %r = arith.addf %s, %w : f32
    rock.yield %r : f32
  }"""
PLAIN = """rock.attention{
  qk = %q * %k : memref<Q>, memref<K>
  %o = softmax(qk) * %v : memref<V> -> memref<O>
} {numHeadsKV = 1 : i32, numHeadsQ = 2 : i32}"""
FULL = """rock.attention{
  qk = %q * %k : memref<Q>, memref<K>
  lastValidKVIndex = (%last : memref<LAST>)
  prefixOffset = (%offset : memref<OFFSET>)
  causal
  slidingWindowLookBack = 3
  lse = %lse : memref<LSE>
  qk = elementwise otherIns(%bias : memref<BIAS>) REGION
  %o = softmax(qk) * %v : memref<V> -> memref<O>
} {numHeadsKV = 1 : i32, numHeadsQ = 2 : i32, softmaxType = f32, splitKV = 1 : i32}"""


def source(text: str, **types: str) -> str:
    """A function with `text`, in which upper-case argument names stand for the types of the arguments."""
    types = ARGUMENTS | types
    text = text.replace("REGION", REGION)
    for name in sorted(types, key=len, reverse=True):
        text = text.replace(f"<{name.upper()}>", f"<{types[name]}>")
    kind = "tensor" if "tensor<" in text else "memref"
    arguments = ", ".join(f"%{name}: {kind}<{type_}>" for name, type_ in types.items())
    return f"func.func @f({arguments}) {{\n{text}\nfunc.return\n}}"


def attention_of(module: ModuleOp) -> AttentionOp:
    return next(op for op in module.walk() if isinstance(op, AttentionOp))


def refused(text: str, message: str):
    with pytest.raises(XpagedError) as refusal:
        parse(text)
    assert message in refusal.value.render()
    assert refusal.value.where.startswith("<input>:")


class TestText:
    @pytest.mark.parametrize("text", [PLAIN, FULL])
    def test_custom_and_generic_text_round_trip(self, text: str):
        module = parse(source(text))
        custom, generic = print_module(module), print_module(module, generic=True)
        assert print_module(parse(custom)) == custom == print_module(parse(generic))

    def test_everything_is_printed(self):
        lines = [line.strip() for line in print_module(parse(source(FULL))).splitlines()]
        start = lines.index("rock.attention{")
        assert lines[start + 1 : start + 9] == [
            "qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>",
            "lastValidKVIndex = (%last : memref<4xi32>)",
            "prefixOffset = (%offset : memref<4xi32>)",
            "causal",
            "slidingWindowLookBack = 3",
            "lse = %lse : memref<4x5xf32>",
            "qk = elementwise otherIns(%bias : memref<4x5x6xf16>) {",
            "^bb0(%s: f32, %b: f16):",
        ]
        assert lines[start + 13] == "%o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>"

    def test_older_spellings_are_taken(self):
        old = FULL.replace("lastValidKVIndex", "currentSeqLen").replace("slidingWindowLookBack", "slidingWindowSize")
        assert print_module(parse(source(old))) == print_module(parse(source(FULL)))
        generic = print_module(parse(source(FULL)), generic=True)
        assert print_module(parse(generic.replace("slidingWindowLookBack", "slidingWindowSize"))) == print_module(
            parse(generic)
        )

    @pytest.mark.parametrize("segments", ["operandSegmentSizes", "operand_segment_sizes"])
    def test_segments_from_before_paging_are_taken(self, segments: str):
        generic = print_module(parse(source(FULL)), generic=True)
        sizes = "array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0>"
        assert sizes in generic
        older = generic.replace(f"operandSegmentSizes = {sizes}", f"{segments} = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>")
        assert print_module(parse(older), generic=True) == generic

    def test_properties_in_the_attribute_dictionary_are_taken(self):
        generic = print_module(parse(source(PLAIN)), generic=True)
        start = generic.index('"rock.attention"')
        begin, end = generic.index("<{", start), generic.index("}>", start)
        properties = generic[begin + 1 : end + 1]
        rest = generic[end + 3 :].replace("}) :", f"}}) {properties} :", 1)
        older = generic[:begin] + rest
        assert older.count(properties) == 1
        assert print_module(parse(older)) == print_module(parse(generic))

    def test_clauses_in_another_order(self):
        lines = FULL.splitlines()
        swapped = "\n".join([*lines[:2], *lines[4:7], *lines[2:4], *lines[7:]])
        assert print_module(parse(source(swapped))) == print_module(parse(source(FULL)))

    def test_transposed_operands(self):
        text = PLAIN.replace("%q *", "tr %q *").replace("* %k", "* tr %k").replace("* %v", "* tr %v")
        text = source(text.replace("%o =", "tr %o ="), q="4x8x5xf16", k="2x6x8xf16", v="2x12x6xf16", o="4x12x5xf16")
        module = parse(text)
        assert attention_of(module).sizes == (4, 2, 5, 6, 8, 12, 1)
        assert "tr %o = softmax(qk) * tr %v" in print_module(module)
        assert print_module(parse(print_module(module))) == print_module(module)

    def test_tensors(self):
        text = """%r, %l = rock.attention{
          qk = %q * %k : tensor<Q>, tensor<K>
          softmax(qk) * %v : tensor<V>
        } {numHeadsKV = 1 : i32, numHeadsQ = 2 : i32} -> tensor<O>, tensor<LSE>"""
        module = parse(source(text))
        op = attention_of(module)
        assert op.on_tensors
        assert op.has_lse
        assert str(op.lse_type) == "tensor<4x5xf32>"
        assert print_module(parse(print_module(module))) == print_module(module)
        assert not get_effects(op)

    def test_effects_on_memrefs(self):
        effects = get_effects(attention_of(parse(source(PLAIN))))
        assert effects is not None
        assert {e.kind for e in effects} == {MemoryEffectKind.READ, MemoryEffectKind.WRITE}

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("causal", "casual", "unknown clause 'casual' of rock.attention"),
            ("causal", "causal causal", "the clause 'causal' is repeated"),
            ("causal", "slidingWindowSize = 3", "is repeated"),
            ("causal", "4", "expected a clause of rock.attention"),
            ("softmax(qk)", "softmax(kq)", "qk"),
            ("} {numHeadsKV", "{numHeadsKV", "Expected"),
        ],
    )
    def test_malformed_text_is_refused_at_its_place(self, old: str, new: str, message: str):
        refused(source(FULL.replace(old, new)), message)


class TestRules:
    @pytest.mark.parametrize(
        ("text", "types", "message"),
        [
            (PLAIN, {"q": "4x5x9xf16"}, "queries have head dimension 9, keys 8"),
            (PLAIN, {"v": "2x7x12xf16"}, "there are 6 keys, but 7 values"),
            (PLAIN, {"k": "3x8x6xf16"}, "queries have 4 heads over the batch, keys 3 and values 2"),
            (PLAIN, {"v": "4x6x12xf16"}, "keys 2 and values 4"),
            (PLAIN, {"q": "5x8xf16"}, "queries must have rank 3"),
            (PLAIN, {"k": "2x8x6xf32"}, "different element types f16 and f32"),
            (PLAIN, {"q": "4x5x8xi32", "k": "2x8x6xi32"}, "hold floats or i8, found i32"),
            (PLAIN, {"v": "2x6x12xi8"}, "values hold floats, found i8"),
            (PLAIN, {"o": "4x6x12xf16"}, "the output has 6 rows, there are 5 queries"),
            (PLAIN, {"o": "4x5x11xf16"}, "the output has head dimension 11, the values 12"),
            (PLAIN, {"o": "8x5x12xf16"}, "output batch 8 / splitKV 1 is 8, the query batch is 4"),
            (PLAIN, {"o": "60x4xf16"}, "the output must have rank 3"),
            (PLAIN, {"o": "4x5x12xi32"}, "the output holds floats"),
            (PLAIN, {"q": "4x?x8xf16"}, "queries must have a static shape"),
            (PLAIN, {"q": "4x5x8xi8", "k": "2x8x6xi8"}, "need a region"),
            (FULL, {"lse": "20xf32"}, "the LSE must have rank 2"),
            (FULL, {"lse": "4x6xf32"}, "the LSE must be [4, 5]"),
            (FULL, {"lse": "4x5xi32"}, "the LSE holds floats"),
            (FULL, {"last": "2xi32"}, "lastValidKVIndex must have one entry for each of the 4 heads"),
            (FULL, {"last": "4xi64"}, "lastValidKVIndex holds i32"),
            (FULL, {"offset": "4x1xi32"}, "prefixOffset must have one entry for each of the 4 heads"),
            (FULL, {"bias": "4x5x7xf16"}, "score input 0 must be [4, 5, 6]"),
            (FULL, {"bias": "4x5x6xf32"}, "found (f32, f16)"),
            (FULL, {"q": "4x5x8xi8", "k": "2x8x6xi8"}, "takes (i32, f16)"),
        ],
    )
    def test_sizes_and_types(self, text: str, types: dict[str, str], message: str):
        refused(source(text, **types), message)

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("numHeadsQ = 2 : i32", "numHeadsQ = 0 : i32", "numHeadsQ must be positive, found 0"),
            ("numHeadsKV = 1 : i32", "numHeadsKV = -1 : i32", "numHeadsKV must be positive, found -1"),
            ("numHeadsKV = 1 : i32", "numHeadsKV = 3 : i32", "numHeadsQ = 2 is not a multiple of numHeadsKV = 3"),
            ("splitKV = 1 : i32", "splitKV = 0 : i32", "splitKV must be positive, found 0"),
            ("splitKV = 1 : i32", "splitKV = 3 : i32", "output batch 4 is not a multiple of splitKV = 3"),
            ("softmaxType = f32", "softmaxType = f64", "softmaxType must be f16, bf16 or f32, found f64"),
            ("softmaxType = f32", "softmaxType = 3 : i32", "softmaxType must be f16"),
            ("softmaxType = f32", "storeMethod = #rock<StoreMethod atomic_add>", "storeMethod must be set"),
            ("  causal\n", "", "prefixOffset needs causal"),
            ("slidingWindowLookBack = 3", "slidingWindowLookBack = 7", "must be in 1..6, the number of keys, found 7"),
            ("slidingWindowLookBack = 3", "slidingWindowLookBack = 0", "must be in 1..6, the number of keys, found 0"),
            ("  lastValidKVIndex = (%last : memref<LAST>)\n", "", "slidingWindowLookBack = 3 needs lastValidKVIndex"),
            ("REGION", "{}", "1 score inputs, but no region"),
            ("rock.yield %r : f32", "rock.yield", "yields one float, found ()"),
            ("rock.yield %r : f32", "%i = arith.fptosi %r : f32 to i32\nrock.yield %i : i32", "yields one float"),
            ("%w = arith.extf", "%x = memref.alloc() : memref<4xf32>\n%w = arith.extf", "found 'memref.alloc'"),
        ],
    )
    def test_attributes_and_region(self, old: str, new: str, message: str):
        text = FULL.replace("REGION", REGION)
        assert old in text or old == "REGION"
        refused(source((FULL if old == "REGION" else text).replace(old, new)), message)

    def test_a_split_without_lse(self):
        text = PLAIN.replace("{numHeadsKV", "{splitKV = 2 : i32, numHeadsKV")
        refused(source(text, o="8x5x12xf16"), "splitKV = 2 needs an LSE")

    def test_a_score_region_without_an_end(self):
        op = attention_of(parse(source(FULL)))
        last = op.preSoftmaxBody.block.last_op
        assert last is not None
        last.detach()
        last.erase()
        with pytest.raises(VerifyException, match=r"must end in rock\.yield"):
            op.verify_()
        op.preSoftmaxBody.add_block(Block())
        with pytest.raises(VerifyException, match="has 2 blocks, expected 1"):
            op.verify_()

    def test_a_value_from_outside_the_score_region(self):
        text = "%c = arith.constant 2.0 : f32\n" + FULL.replace("REGION", REGION.replace("addf %s, %w", "addf %s, %c"))
        refused(source(text), "'arith.addf' in the score region uses a value from outside")

    def test_memrefs_without_an_output_and_with_results(self):
        text = PLAIN.replace("%o = softmax", "softmax").replace(" -> memref<O>", "")
        refused(source(text), "on memrefs the output must be given")
        refused(source("%r = " + PLAIN + " -> memref<O>"), "on memrefs there are no results")

    def test_tensors_without_a_result(self):
        text = PLAIN.replace("memref", "tensor")
        refused(source(text), "on tensors there are 1 or 2 results, found 0")
        refused(source("%r = " + text + " -> tensor<Q>"), "what it is written into tensor<4x5x12xf16>")

    def test_memrefs_and_tensors_mixed(self):
        text = source(PLAIN).replace("%v: memref", "%v: tensor").replace("* %v : memref", "* %v : tensor")
        refused(text, "memrefs and tensors mixed")

    def test_results_of_a_split(self):
        text = FULL.replace("splitKV = 1", "splitKV = 2")
        module = parse(source(text, o="8x5x12xf16", lse="8x5xf32"))
        assert attention_of(module).sizes.split_kv == 2
        pre = text.replace("splitKV = 2 : i32", "splitKV = 2 : i32, preSoftmaxHasSplitKVTransforms = true")
        parse(source(pre, o="8x5x12xf16", lse="8x5xf32", bias="8x5x3xf16"))
        refused(source(pre, o="8x5x12xf16", lse="8x5xf32"), "score input 0 must be [8, 5, 3]")


PAGED = """#rows = #rock.transform_map<affine_map<(d0, d1) -> (d0, d1 floordiv 16, d1 mod 16)> by
  [<PassThrough ["b"] at [0] -> ["b"] at [0]>, <Merge{6, 16} ["n"] at [1] -> ["p", "o"] at [1, 2]>]
  bounds = [2, 96] -> [2, 6, 16]>
#heads = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, d1 * 8 + d2)> by
  [<PassThrough ["b"] at [0] -> ["b"] at [0]>, <Unmerge{12, 8} ["s", "d"] at [1, 2] -> ["n"] at [1]>]
  bounds = [2, 12, 8] -> [2, 96]>
func.func @f(%q: memref<2x5x8xf16>, %t: memref<2x6x1xi64>, %o: memref<2x5x8xf16>, %x: memref<2x6x16xf16>) {
  %kp = rock.deref %t : memref<2x6x1xi64> -> memref<2x6x16xf16>
  %vp = rock.deref %t : memref<2x6x1xi64> -> memref<2x6x16xf16>
  %k0 = rock.transform %kp by #rows : memref<2x6x16xf16> to memref<2x96xf16>
  %k = rock.transform %k0 by #heads : memref<2x96xf16> to memref<2x12x8xf16>
  %v0 = rock.transform %vp by #rows : memref<2x6x16xf16> to memref<2x96xf16>
  %v = rock.transform %v0 by #heads : memref<2x96xf16> to memref<2x12x8xf16>
  rock.attention{
    qk = %q * tr %k : memref<2x5x8xf16>, memref<2x12x8xf16>
    keyAddresses = (%kp : memref<2x6x16xf16>)
    valueAddresses = (%vp : memref<2x6x16xf16>)
    %o = softmax(qk) * %v : memref<2x12x8xf16> -> memref<2x5x8xf16>
  }
  func.return
}"""


class TestPages:
    def test_paged_text_round_trips(self):
        text = print_module(parse(PAGED))
        assert print_module(parse(text)) == text
        generic = print_module(parse(PAGED), generic=True)
        assert print_module(parse(generic), generic=True) == generic
        assert attention_of(parse(PAGED)).is_paged

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("    valueAddresses = (%vp : memref<2x6x16xf16>)\n", "", "keyAddresses is given without valueAddresses"),
            ("    keyAddresses = (%kp : memref<2x6x16xf16>)\n", "", "valueAddresses is given without keyAddresses"),
            (
                "    keyAddresses = (%kp : memref<2x6x16xf16>)\n    valueAddresses = (%vp : memref<2x6x16xf16>)\n",
                "",
                "the view 'keys' ends in a rock.deref, but keyAddresses and valueAddresses are not given",
            ),
            (
                "keyAddresses = (%kp",
                "keyAddresses = (%vp",
                "'keys' ends in another rock.deref than the one given as keyAd",
            ),
            ("valueAddresses = (%vp", "valueAddresses = (%kp", "'values' ends in another rock.deref than the one"),
            (
                "keyAddresses = (%kp",
                "keyAddresses = (%x",
                "keyAddresses must be the result of a rock.deref, found an argum",
            ),
            ("%k0 = rock.transform %kp", "%k0 = rock.transform %x", "but the view 'keys' ends in an argument"),
            (
                "keyAddresses = (%kp : memref<2x6x16xf16>)",
                "keyAddresses = (%k0 : memref<2x96xf16>)",
                "found the result of",
            ),
        ],
    )
    def test_addresses(self, old: str, new: str, message: str):
        assert old in PAGED
        refused(PAGED.replace(old, new), message)

    def test_pages_that_hold_more_than_the_view_names(self):
        """A view of a part of the pages, both products in the message."""
        text = PAGED.replace(
            "#heads = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, d1 * 8 + d2)> by\n"
            '  [<PassThrough ["b"] at [0] -> ["b"] at [0]>, <Unmerge{12, 8} ["s", "d"] at [1, 2] -> ["n"] at [1]>]\n'
            "  bounds = [2, 12, 8] -> [2, 96]>",
            "#cut = #rock.transform_map<affine_map<(d0, d1) -> (d0, d1)> by\n"
            '  [<PassThrough ["b"] at [0] -> ["b"] at [0]>, <Slice{0, 88} ["n"] at [1] -> ["n"] at [1]>]\n'
            "  bounds = [2, 88] -> [2, 96]>\n"
            "#heads = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, d1 * 8 + d2)> by\n"
            '  [<PassThrough ["b"] at [0] -> ["b"] at [0]>, <Unmerge{11, 8} ["s", "d"] at [1, 2] -> ["n"] at [1]>]\n'
            "  bounds = [2, 11, 8] -> [2, 88]>",
        )
        for side in "kv":
            text = text.replace(
                f"%{side} = rock.transform %{side}0 by #heads : memref<2x96xf16>",
                f"%{side}1 = rock.transform %{side}0 by #cut : memref<2x96xf16> to memref<2x88xf16>\n"
                f"  %{side} = rock.transform %{side}1 by #heads : memref<2x88xf16>",
            )
        text = text.replace("memref<2x12x8xf16>", "memref<2x11x8xf16>")
        refused(text, "numPages * pageSize = 6 * 16 = 96 elements for each of 2 batch entries, 192 in all")
        refused(text, "heads * seqLenK * headDim = 2 * 88 = 176 (numHeadsKV = 1)")

    def test_an_offset_in_every_page_is_no_part_of_it(self):
        text = PAGED.replace("2x6x16xf16", "2x6x20xf16").replace(
            "func.func",
            "#skip = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, d1, d2 + 4)> by\n"
            '  [<PassThrough ["b", "p"] at [0, 1] -> ["b", "p"] at [0, 1]>,'
            ' <Slice{4, 20} ["o"] at [2] -> ["o"] at [2]>]\n'
            "  bounds = [2, 6, 16] -> [2, 6, 20]>\nfunc.func",
        )
        for side in "kv":
            text = text.replace(
                f"%{side}0 = rock.transform %{side}p by #rows : memref<2x6x20xf16>",
                f"%{side}s = rock.transform %{side}p by #skip : memref<2x6x20xf16> to memref<2x6x16xf16>\n"
                f"  %{side}0 = rock.transform %{side}s by #rows : memref<2x6x16xf16>",
            )
        parse(text)

    def test_repeated_heads_name_the_pages_more_than_once(self):
        """Without GQA on the operation, the view repeats a KV head; the pages are counted once."""
        text = PAGED.replace("memref<2x5x8xf16>", "memref<6x5x8xf16>").replace(
            "memref<2x12x8xf16>", "memref<6x12x8xf16>"
        )
        text = text.replace(
            "func.func",
            "#more = #rock.transform_map<affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)> by\n"
            '  [<PassThrough ["b"] at [0] -> ["b"] at [0]>, <AddDim{3} ["r"] at [1] -> [] at []>,'
            ' <PassThrough ["s", "d"] at [2, 3] -> ["s", "d"] at [1, 2]>] bounds = [2, 3, 12, 8] -> [2, 12, 8]>\n'
            "#g = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0 floordiv 3, d0 mod 3, d1, d2)> by\n"
            '  [<Merge{2, 3} ["g"] at [0] -> ["b", "r"] at [0, 1]>,'
            ' <PassThrough ["s", "d"] at [1, 2] -> ["s", "d"] at [2, 3]>] bounds = [6, 12, 8] -> [2, 3, 12, 8]>\n'
            "func.func",
        )
        for side in "kv":
            text = text.replace(
                f"  %{side} = rock.transform %{side}0 by #heads : memref<2x96xf16> to memref<6x12x8xf16>",
                f"  %{side}1 = rock.transform %{side}0 by #heads : memref<2x96xf16> to memref<2x12x8xf16>\n"
                f"  %{side}2 = rock.transform %{side}1 by #more : memref<2x12x8xf16> to memref<2x3x12x8xf16>\n"
                f"  %{side} = rock.transform %{side}2 by #g : memref<2x3x12x8xf16> to memref<6x12x8xf16>",
            )
        parse(text)


class TestRebuilding:
    def test_a_rebuilt_attention_keeps_everything_else(self):
        module = parse(PAGED)
        op = attention_of(module)
        copy = op.rebuilt({"out": op.out}, {"causal": UnitAttr()})
        assert copy.operands_by_name() == op.operands_by_name()
        assert copy.causal is not None
        assert copy.rebuilt(properties={"causal": None}).causal is None
        assert op.rebuilt({"keyAddresses": None}).keyAddresses is None
        assert copy.rebuilt({"preSoftmaxElemWiseInputs": [op.queries]}).preSoftmaxElemWiseInputs == (op.queries,)

    def test_sizes(self):
        sizes = attention_of(parse(source(PLAIN))).sizes
        assert sizes.repeats == 2
        assert attention_of(parse(source(PLAIN))).softmax_type == f32


GRIDWISE = """rock.gridwise_attention_accel(%q, %k, %v, %last, %o, %lse) preSoftmaxOps = {} {
  params0 = #rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 1, channel_chunk = 8,
                                   value_channels = 8>,
  blockSize = 64 : i32, gridSize = 4 : i32, numRepeatsGQA = 2 : i32, prePadG0M = 14 : i32, prePadG0N = 30 : i32,
  operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1, 1, 0, 0>
} : memref<Q>, memref<K>, memref<V>, memref<LAST>, memref<O>, memref<LSE>"""
GRID_TYPES = {
    "q": "2x8x32xf16",
    "k": "2x8x16xf16",
    "v": "2x16x8xf16",
    "o": "2x32x8xf16",
    "last": "2xi32",
    "lse": "2x32xf32",
}


class TestGridwise:
    def test_round_trip(self):
        module = parse(source(GRIDWISE, **GRID_TYPES))
        text, generic = print_module(module), print_module(module, generic=True)
        assert print_module(parse(text)) == text == print_module(parse(generic))
        op = next(op for op in module.walk() if isinstance(op, GridwiseAttentionAccelOp))
        assert (op.repeats, op.valid_keys, op.valid_rows, op.is_paged) == (2, 14, 30, False)

    def test_upstream_text_without_segments(self):
        text = """rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {
          blockSize = 64 : i32, gridSize = 24 : i32, disableQBypassLDS = false, splitKV = 1 : i32,
          firstGemmIndices = array<i64: 0>, storeMethod = #rock<StoreMethod set>
        } : memref<Q>, memref<K>, memref<V>, memref<O>"""
        module = parse(source(text, **GRID_TYPES))
        assert print_module(parse(print_module(module))) == print_module(module)
        op = next(op for op in module.walk() if isinstance(op, GridwiseAttentionAccelOp))
        assert (op.repeats, op.valid_keys, op.valid_rows) == (1, 16, 32)

    def test_older_segments(self):
        text = GRIDWISE.replace("array<i32: 1, 1, 1, 0, 1, 0, 1, 1, 0, 0>", "array<i32: 1, 1, 1, 0, 1, 0, 1, 1>")
        text = text.replace("operandSegmentSizes", "operand_segment_sizes")
        assert print_module(parse(source(text, **GRID_TYPES))) == print_module(parse(source(GRIDWISE, **GRID_TYPES)))

    def test_construction(self):
        module = parse(source(GRIDWISE, **GRID_TYPES))
        op = next(op for op in module.walk() if isinstance(op, GridwiseAttentionAccelOp))
        assert op.out is not None
        assert isinstance(op.params0, AttentionParamsAttr)
        built = GridwiseAttentionAccelOp(
            op.queries, op.keys, op.values, op.out, params0=op.params0, blockSize=64, gridSize=4, causal=True,
            slidingWindowLookBack=3, currentSeqLen=op.currentSeqLen, lse=op.lse, preSoftmaxElemWiseInputs=[],
        )  # fmt: skip
        built.verify()
        assert built.window == 3
        assert built.properties["operandSegmentSizes"] == DenseArrayBase.from_list(i32, [1, 1, 1, 0, 1, 0, 1, 1, 0, 0])
        assert built.gridSize == IntegerAttr(4, i32)

    @pytest.mark.parametrize(
        ("types", "message"),
        [
            ({"k": "2x9x16xf16"}, "keys [G, Dqk, M] must be [2, 8, 16]"),
            ({"v": "2x15x8xf16"}, "values [G, M, Dv] must be [2, 16, 8]"),
            ({"o": "2x32x9xf16"}, "out [G * splitKV, N, Dv] must be [2, 32, 8]"),
            ({"lse": "2x31xf32"}, "lse [G, N] must be [2, 32]"),
            ({"last": "4xi32"}, "one entry for each of the 2 heads"),
            ({"q": "2x8x?xf16"}, "static shape"),
        ],
    )
    def test_shapes(self, types: dict[str, str], message: str):
        refused(source(GRIDWISE, **(GRID_TYPES | types)), message)

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("blockSize = 64", "blockSize = 0", "blockSize must be positive"),
            ("gridSize = 4", "gridSize = -4", "gridSize must be positive"),
            ("numRepeatsGQA = 2", "numRepeatsGQA = 0", "numRepeatsGQA must be positive"),
            ("prePadG0M = 14", "prePadG0M = 17", "prePadG0M must be in 1..16"),
            ("prePadG0N = 30", "prePadG0N = 0", "prePadG0N must be in 1..32"),
            ("gridSize = 4 : i32", "gridSize = 4 : i32, splitKV = 0 : i32", "splitKV must be positive"),
            (
                "gridSize = 4 : i32",
                "gridSize = 4 : i32, enableSoftmax = false",
                "enableSoftmax = false is no attention",
            ),
            ("gridSize = 4 : i32", "gridSize = 4 : i32, storeMethod = #rock<StoreMethod atomic_max>", "must be set"),
            (
                "gridSize = 4 : i32",
                "gridSize = 4 : i32, slidingWindowLookBack = 15 : i32",
                "must be in 1..14, the number of keys",
            ),
            ("array<i32: 1, 1, 1, 0, 1, 0, 1, 1, 0, 0>", "array<i32: 1, 1, 1, 0, 0, 1, 1, 1, 0, 0>", "needs causal"),
        ],
    )
    def test_attributes(self, old: str, new: str, message: str):
        refused(source(GRIDWISE.replace(old, new), **GRID_TYPES), message)

    def test_a_split_needs_an_lse(self):
        text = GRIDWISE.replace("gridSize = 4 : i32", "splitKV = 2 : i32").replace(", %o, %lse)", ", %o)")
        text = text.replace("1, 0, 1, 1, 0, 0>", "1, 0, 1, 0, 0, 0>").replace(", memref<LSE>", "")
        refused(source(text, **GRID_TYPES), "splitKV = 2 needs an LSE")

    def test_an_output_is_needed(self):
        text = GRIDWISE.replace("%last, %o, %lse)", "%last)").replace("1, 0, 1, 1, 0, 0>", "1, 0, 0, 0, 0, 0>")
        text = text.replace(", memref<O>, memref<LSE>", "")
        refused(source(text, **GRID_TYPES), "no output memref")
