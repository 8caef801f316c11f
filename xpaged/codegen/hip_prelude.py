"""The head of a HIP text: the few type names and helper functions that its kernels use, and nothing else.

Everything is written in clang's builtins, from clang 15 on, without HIP's headers or device libraries. What a compiler
may not have yet stands behind `__has_builtin` with a slower form that is right.
"""

import re
from dataclasses import dataclass

from xpaged.arch.table import MatrixInstruction
from xpaged.codegen.c_text import WIDTH
from xpaged.dialects.hip import LDS_ALIGNMENT

_SCALARS = {
    "u8": "unsigned char",
    "u16": "unsigned short",
    "u32": "unsigned",
    "u64": "unsigned long long",
    "i8": "signed char",
    "i16": "short",
    "i64": "long long",
    "f16": "_Float16",
    "bf16": "short",
}
_COMMENTS = {"bf16": "  // the bits"}
_ELEMENTS = {
    **{name: name for name in _SCALARS},
    "i32": "int",
    "f32": "float",
    "f64": "double",
}
"""The C type of the elements of a vector type such as `f32x4`, by the letters of its name."""


def vector_type(element: str, lanes: int) -> str:
    """The name of a vector type: `vector_type("float", 4)` is `f32x4`."""
    return f"{_SHORT.get(element, element)}x{lanes}"


_SHORT = {"int": "i32", "float": "f32", "double": "f64"}


@dataclass(frozen=True)
class _Item:
    text: str
    needs: tuple[str, ...] = ()


_FUNCTIONS = {
    "exp_": "__builtin_expf",
    "exp2_": "__builtin_exp2f",
    "log_": "__builtin_logf",
    "log2_": "__builtin_log2f",
    "log10_": "__builtin_log10f",
    "sqrt_": "__builtin_sqrtf",
    "abs_": "__builtin_fabsf",
    "floor_": "__builtin_floorf",
    "ceil_": "__builtin_ceilf",
    "trunc_": "__builtin_truncf",
    "rint_": "__builtin_rintf",
    "round_": "__builtin_roundf",
}
"""Functions of one float that every clang makes inline code of for AMD GPUs."""

_ITEMS: dict[str, _Item] = {
    # Words
    "DEV": _Item("#define DEV static __attribute__((device, always_inline)) inline"),
    "LDS": _Item(f"#define LDS __attribute__((shared, aligned({LDS_ALIGNMENT}))) static"),
    "GLOBAL": _Item("#define GLOBAL __attribute__((address_space(1)))"),
    "CONSTANT": _Item("#define CONSTANT __attribute__((address_space(4)))"),
    "UNROLL": _Item('#define UNROLL _Pragma("clang loop unroll(full)")'),
    "ROLLED": _Item('#define ROLLED _Pragma("clang loop unroll(disable)")'),
    "NEG_INF": _Item("#define NEG_INF (-__builtin_inff())"),
    "SCHED_BARRIER": _Item(
        """\
#if __has_builtin(__builtin_amdgcn_sched_barrier)
#define SCHED_BARRIER() __builtin_amdgcn_sched_barrier(0)
#else
#define SCHED_BARRIER()
#endif"""
    ),
    # Types
    "Element": _Item(
        """\
template <class T> struct Element { typedef T type; };
template <class E, int N> struct Element<E __attribute__((ext_vector_type(N)))> { typedef E type; };"""
    ),
    "bits": _Item(
        "template <class To, class From> DEV To bits(From x) { return __builtin_bit_cast(To, x); }",
        ("DEV",),
    ),
    "convert": _Item(
        "template <class To, class From> DEV To convert(From x) { return __builtin_convertvector(x, To); }",
        ("DEV",),
    ),
    # Memory
    "HOLD": _Item(
        """\
// Holds an offset in a 32-bit register of its own for a turn of a loop: loads add it to a scalar base for nothing.
#ifdef __AMDGCN__
#define HOLD(offset) asm("" : "+v"(offset))
#else
#define HOLD(offset)
#endif"""
    ),
    "load": _Item(
        """\
// The element at `offset + more` of a buffer or page, or the vector that begins there.
template <class T, class Base> DEV T load(Base base, u32 offset, u32 more = 0) {
  constexpr u32 size = sizeof(typename Element<T>::type);
  return *(const GLOBAL T*)((const GLOBAL char*)base + offset * size + more * size);
}""",
        ("DEV", "GLOBAL", "Element", "u32"),
    ),
    "load_far": _Item(
        """\
// The same where the offset in bytes may take more than 32 bits.
template <class T, class Base> DEV T load_far(Base base, u64 offset) {
  return *(const GLOBAL T*)((const GLOBAL char*)base + offset * sizeof(typename Element<T>::type));
}""",
        ("DEV", "GLOBAL", "Element", "u64"),
    ),
    "store": _Item(
        """\
template <class T, class Base> DEV void store(Base base, u32 offset, T value) {
  *(GLOBAL T*)((GLOBAL char*)base + offset * (u32)sizeof(typename Element<T>::type)) = value;
}""",
        ("DEV", "GLOBAL", "Element", "u32"),
    ),
    "store_far": _Item(
        """\
template <class T, class Base> DEV void store_far(Base base, u64 offset, T value) {
  *(GLOBAL T*)((GLOBAL char*)base + offset * sizeof(typename Element<T>::type)) = value;
}""",
        ("DEV", "GLOBAL", "Element", "u64"),
    ),
    "lookup": _Item(
        """\
// An entry of a table that nobody writes: a scalar load where the index is the same for the whole wave.
template <class E> DEV E lookup(const E* table, u32 index) { return ((const CONSTANT E*)table)[index]; }""",
        ("DEV", "CONSTANT", "u32"),
    ),
    "at": _Item(
        """\
// The vector in LDS that begins at element `offset`.
template <class T, class E> DEV T& at(E* array, u32 offset) { return *(T*)(array + offset); }""",
        ("DEV", "u32"),
    ),
    # Numbers
    "imin": _Item("DEV int imin(int a, int b) { return a < b ? a : b; }", ("DEV",)),
    "imax": _Item("DEV int imax(int a, int b) { return a > b ? a : b; }", ("DEV",)),
    "umin": _Item("DEV u32 umin(u32 a, u32 b) { return a < b ? a : b; }", ("DEV", "u32")),
    "umax": _Item("DEV u32 umax(u32 a, u32 b) { return a > b ? a : b; }", ("DEV", "u32")),
    "lmin": _Item("DEV i64 lmin(i64 a, i64 b) { return a < b ? a : b; }", ("DEV", "i64")),
    "lmax": _Item("DEV i64 lmax(i64 a, i64 b) { return a > b ? a : b; }", ("DEV", "i64")),
    "ulmin": _Item("DEV u64 ulmin(u64 a, u64 b) { return a < b ? a : b; }", ("DEV", "u64")),
    "ulmax": _Item("DEV u64 ulmax(u64 a, u64 b) { return a > b ? a : b; }", ("DEV", "u64")),
    "ceil_div": _Item(
        "template <class T> DEV T ceil_div(T a, T b) { return a / b + (a % b != 0 && (a < 0) == (b < 0)); }", ("DEV",)
    ),
    "floor_div": _Item(
        "template <class T> DEV T floor_div(T a, T b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }",
        ("DEV",),
    ),
    "hw_exp2:float": _Item(
        """\
// 2^x by one instruction.
#if __has_builtin(__builtin_amdgcn_exp2f)
DEV float hw_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
#else
DEV float hw_exp2(float x) { return __builtin_exp2f(x); }
#endif""",
        ("DEV",),
    ),
    "maxf:float": _Item("DEV float maxf(float a, float b) { return __builtin_fmaxf(a, b); }", ("DEV",)),
    "minf:float": _Item("DEV float minf(float a, float b) { return __builtin_fminf(a, b); }", ("DEV",)),
    "max_nan:float": _Item(
        "DEV float max_nan(float a, float b) { return a != a ? a : b != b ? b : __builtin_fmaxf(a, b); }", ("DEV",)
    ),
    "min_nan:float": _Item(
        "DEV float min_nan(float a, float b) { return a != a ? a : b != b ? b : __builtin_fminf(a, b); }", ("DEV",)
    ),
    **{
        f"{name}:float": _Item(f"DEV float {name}(float x) {{ return {builtin}(x); }}", ("DEV",))
        for name, builtin in _FUNCTIONS.items()
    },
    "rsqrt_:float": _Item("DEV float rsqrt_(float x) { return 1.0f / __builtin_sqrtf(x); }", ("DEV",)),
    "fma_:float": _Item("DEV float fma_(float a, float b, float c) { return __builtin_fmaf(a, b, c); }", ("DEV",)),
    "tanh_:float": _Item(
        """\
DEV float tanh_(float x) {
  const float a = __builtin_fabsf(x), z = x * x;
  const float sum = 0.13333304f + z * (-0.053959407f + z * (0.021769967f + z * (-0.0083469944f + z * 0.0022958545f)));
  const float far = 1.0f - 2.0f / (__builtin_expf(2.0f * a) + 1.0f);
  return a < 0.625f ? x + x * z * (-0.33333334f + z * sum) : __builtin_copysignf(far, x);
}""",
        ("DEV",),
    ),
    "erf_:float": _Item(
        """\
// The Gauss error function: a polynomial near 0, and 1 - e^(a polynomial) from 1 on.
DEV float erf_(float x) {
  const float a = __builtin_fabsf(x), z = x * x;
  float near = -0.00084843964f + z * (0.00011268254f + z * -0.0000096735903f);
  near = 1.1283792f + z * (-0.37612638f + z * (0.11283783f + z * (-0.026865438f + z * (0.0052210535f + z * near))));
  float tail = 0.00067333761f + a * (-0.000060068804f + a * (0.0000030952056f + a * -0.000000065828615f));
  tail = -0.63108885f + a * (-0.11090742f + a * (0.026999498f + a * (-0.005021045f + a * tail)));
  tail = 0.00040050058f + a * (-1.1306045f + a * tail);
  const float far = a < 4.0f ? 1.0f - __builtin_expf(tail) : a == a ? 1.0f : a;
  return a < 1.0f ? x * near : __builtin_copysignf(far, x);
}""",
        ("DEV",),
    ),
    "pow_:float": _Item(
        """\
// x^y = 2^(y log2 x); the logarithm needs more bits than a float has.
DEV float pow_(float x, float y) {
  const float a = __builtin_fabsf(x), inf = __builtin_inff();
  const bool whole = __builtin_truncf(y) == y;
  const bool odd = whole && __builtin_fabsf(y) < 16777216.0f && ((int)y & 1);
  if (x == 1.0f || y == 0.0f) return 1.0f;
  if (x != x || y != y) return x + y;
  if (x < 0.0f && a < inf && !whole) return __builtin_nanf("");
  float result = 1.0f;
  if (a == 0.0f || a == inf) {
    result = (a == 0.0f) == (y > 0.0f) ? 0.0f : inf;
  } else if (a != 1.0f) {
    const bool tiny = a < 1.17549435e-38f;
    const int u = bits<int>(tiny ? a * 16777216.0f : a), e = (u - 0x3f3504f3) >> 23;
    const double m = bits<float>(u - (int)((u32)e << 23)), t = (m - 1.0) / (m + 1.0), s = t * t;
    double sum = 1.0 / 13.0;
    UNROLL for (int i = 11; i > 0; i -= 2) sum = sum * s + 1.0 / i;
    double p = y * (2.8853900817779268 * t * sum + (e - (tiny ? 24 : 0)));
    p = p < -200.0 ? -200.0 : p > 200.0 ? 200.0 : p;
    const int n = (int)(p < 0.0 ? p - 0.5 : p + 0.5), half = n / 2;
    result = __builtin_exp2f((float)(p - n)) * bits<float>((half + 127) << 23) * bits<float>((n - half + 127) << 23);
  }
  return odd && bits<int>(x) < 0 ? -result : result;
}""",
        ("DEV", "UNROLL", "u32", "bits"),
    ),
    "copysign_:float": _Item("DEV float copysign_(float a, float b) { return __builtin_copysignf(a, b); }", ("DEV",)),
    "widen:bf16": _Item(
        "DEV float widen(bf16 x) { return bits<float>((u32)x << 16); }", ("DEV", "bf16", "u32", "bits")
    ),
    "rounded:float": _Item(
        """\
DEV u32 rounded(float x) {  // its upper half is the nearest bf16, ties to even
  const u32 u = bits<u32>(x);
  return x == x ? u + 0x7fff + (u >> 16 & 1) : 0x7fc00000;
}""",
        ("DEV", "u32", "bits"),
    ),
    "rounded_number:float": _Item(
        """\
DEV u32 rounded_number(float x) {  // the same for what is no NaN
  const u32 u = bits<u32>(x);
  return u + 0x7fff + (u >> 16 & 1);
}""",
        ("DEV", "u32", "bits"),
    ),
    **{
        f"pair{of}:float": _Item(
            f"DEV u32 pair{of}(float a, float b) "
            f"{{ return __builtin_amdgcn_perm(rounded{of}(b), rounded{of}(a), 0x07060302); }}",
            ("DEV", "u32", f"rounded{of}:float"),
        )
        for of in ("", "_number")
    },
    "narrow:float": _Item("DEV bf16 narrow(float x) { return rounded(x) >> 16; }", ("DEV", "bf16", "rounded:float")),
    "narrow_number:float": _Item(
        "DEV bf16 narrow_number(float x) { return rounded_number(x) >> 16; }", ("DEV", "bf16", "rounded_number:float")
    ),
    # Waves and workgroups
    "uniform:int": _Item(
        "DEV int uniform(int x) { return __builtin_amdgcn_readfirstlane(x); }  // of the first active lane", ("DEV",)
    ),
    "uniform:float": _Item(
        "DEV float uniform(float x) { return bits<float>(uniform(bits<int>(x))); }", ("DEV", "bits", "uniform:int")
    ),
    "uniform:u64": _Item(
        "DEV u64 uniform(u64 x) { return (u64)(u32)uniform((int)(x >> 32)) << 32 | (u32)uniform((int)x); }",
        ("DEV", "u32", "u64", "uniform:int"),
    ),
    "any:64": _Item(
        """\
#if __has_builtin(__builtin_amdgcn_ballot_w64) || !defined(__AMDGCN__)
DEV bool any(bool x) { return __builtin_amdgcn_ballot_w64(x) != 0; }  // in any lane of the wave
#else
DEV bool any(bool x) { return __builtin_amdgcn_uicmp((u32)x, 0u, 33 /* not equal */) != 0; }
#endif""",
        ("DEV", "u32"),
    ),
    "any:32": _Item("DEV bool any(bool x) { return __builtin_amdgcn_ballot_w32(x) != 0; }", ("DEV",)),
    "barrier": _Item(
        """\
DEV void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}""",
        ("DEV",),
    ),
}

_ORDER = {name: number for number, name in enumerate(_ITEMS)}
_WORDS = ("DEV", "LDS", "GLOBAL", "CONSTANT", "UNROLL", "ROLLED", "NEG_INF", "SCHED_BARRIER")

# DPP controls that exchange lanes within rows of 16, and the others through ds_swizzle (within 32 lanes).
_DPP = {1: 0xB1, 2: 0x4E, 3: 0x1B, 7: 0x141, 8: 0x128, 15: 0x140}

RESERVED = frozenset(name.split(":")[0] for name in _ITEMS) | set(_SCALARS) | {"mma"}
"""Names that the variables of a kernel may not have."""


class Prelude:
    """Collects what a text uses; `text` writes it down in a fixed order."""

    def __init__(self) -> None:
        self._items: dict[str, _Item] = {}
        self._types: dict[str, None] = {}
        self._instructions: dict[str, MatrixInstruction] = {}

    def use(self, name: str) -> str:
        """Note that a helper is used; returns what to call it by."""
        item = _ITEMS[name]
        for need in item.needs:
            if need in _SCALARS:
                self.type(need)
            else:
                self.use(need)
        self._items[name] = item
        return name.split(":")[0]

    def type(self, name: str) -> str:
        """Note that a type is used (`float`, `u32`, `f16x4`); returns its name."""
        if name in _SCALARS:
            self._types[name] = None
        elif "x" in name:
            self.type(_ELEMENTS[name.split("x")[0]])
            self._types[name] = None
        return name

    def overload(self, function: str, scalar: str, type_: str, arity: int, result: str | None = None) -> str:
        """Note that `function` (known for `scalar`) is used on a type: that scalar, or a vector of it."""
        self.use(f"{function}:{scalar}")
        if type_ != scalar:
            self.use("DEV")
            self.use("UNROLL")
            self.type(type_)
            lanes = type_.split("x")[1]
            names = "abc"[:arity]
            arguments = ", ".join(f"{type_} {name}" for name in names)
            call = f"{function}({', '.join(f'{name}[i]' for name in names)})"
            loop = f"UNROLL for (int i = 0; i < {lanes}; ++i)"
            if result is None or result == type_:
                head, body = type_, (f"{loop} a[i] = {call};", "return a;")
            else:
                head, body = self.type(result), (f"{result} r;", f"{loop} r[i] = {call};", "return r;")
            text = _function(f"DEV {head} {function}({arguments})", *body)
            self._items[f"{function}:{type_}"] = _Item(text)
        return function

    def narrow(self, type_: str, result: str, *, number: bool, whole: bool) -> str:
        """The function that rounds `float` or a vector of it to bf16; with `number` it may take no NaN, with `whole`
        the GPU has an instruction for it."""
        name, pair = ("narrow_number", "pair_number") if number else ("narrow", "pair")
        lanes = int(type_.split("x")[1]) if type_ != "float" else 1
        if lanes % 2:
            return self.overload(name, "float", type_, 1, result)
        for need in ("DEV", "bits", f"{pair}:float", *(["UNROLL"] if lanes > 2 else [])):
            self.use(need)
        if lanes == 2:
            body = [f"return bits<{result}>({pair}(a.x, a.y));"]
        else:
            words = self.type(vector_type("u32", lanes // 2))
            loop = f"UNROLL for (int i = 0; i < {lanes // 2}; ++i) r[i] = {pair}(a[2 * i], a[2 * i + 1]);"
            body = [f"{words} r;", loop, f"return bits<{result}>(r);"]
        head = f"DEV {self.type(result)} {name}({self.type(type_)} a)"
        text = _function(head, *body)
        if whole:
            own = self.packed(f"hw_{result}")
            converted = _function(head, f"return bits<{result}>(__builtin_convertvector(a, {own}));")
            text = f"#ifdef __AMDGCN__\n{converted}\n#else\n{text}\n#endif"
        self._items[f"{name}:{type_}"] = _Item(text)
        return name

    def lane_xor(self, mask: int, type_: str, words: int = 1) -> str:
        """The function that gets an `int`, a `float` or a vector of `words` 32-bit words from lane `lane ^ mask`."""
        name = f"lane_xor{mask}"
        self.use("DEV")
        if "x" in type_:
            self.lane_xor(mask, "int")
            self.use("bits")
            if words == 1:
                body = [f"return bits<{type_}>({name}(bits<int>(x)));"]
            else:
                self.use("UNROLL")
                whole = self.type(vector_type("int", words))
                loop = f"UNROLL for (int i = 0; i < {words}; ++i) w[i] = {name}(w[i]);"
                body = [f"{whole} w = bits<{whole}>(x);", loop, f"return bits<{type_}>(w);"]
            self._items[f"{name}:{type_}"] = _Item(_function(f"DEV {self.type(type_)} {name}({type_} x)", *body))
            return name
        if mask in _DPP:
            call = f"__builtin_amdgcn_mov_dpp({{}}, {_DPP[mask]:#x}, 0xf, 0xf, true)"
        elif mask < 32:
            call = f"__builtin_amdgcn_ds_swizzle({{}}, {mask << 10 | 0x1F:#x})"
        else:
            call = f"__builtin_amdgcn_ds_bpermute(4 * (lane ^ {mask}), {{}})"
        if type_ == "float":
            self.use("bits")
            call = f"bits<float>({call.format('bits<int>(x)')})"
        else:
            call = call.format("x")
        body = [f"return {call};"]
        if mask >= 32:
            body.insert(0, "const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));")
        text = _function(f"DEV {type_} {name}({type_} x)", *body)
        self._items[f"{name}:{type_}"] = _Item(text)
        return name

    def join(self, part: str, result: str) -> str:
        """The function that puts two vectors of type `part` one behind the other."""
        self.use("DEV")
        lanes = ", ".join(str(i) for i in range(int(result.split("x")[1])))
        shuffle = f"return __builtin_shufflevector(a, b, {lanes});"
        text = _function(f"DEV {self.type(result)} join({part} a, {part} b)", shuffle)
        self._items[f"join:{part}"] = _Item(text)
        return "join"

    def mma(self, instruction: MatrixInstruction) -> str:
        """The function that is a matrix instruction: `mma` where its types alone tell which."""
        key = f"mma:{instruction.operand}:{instruction.elements}:{instruction.registers}"
        other = self._instructions.setdefault(key, instruction)
        name = "mma" if other.name == instruction.name else instruction.name
        operand = _ELEMENTS[instruction.operand]
        if instruction.elements > 1:
            operand = vector_type(operand, instruction.elements)
        total = self.type(vector_type(_ELEMENTS[instruction.accumulator], instruction.registers))
        self.use("DEV")
        head = f"DEV {total} {name}({self.type(operand)} a, {operand} b, {total} c)"
        a, b = "a", "b"
        if instruction.packed is not None:
            self.use("bits")
            packed = self.packed(instruction.packed)
            a, b = f"bits<{packed}>(a)", f"bits<{packed}>(b)"
        text = _function(head, f"return {instruction.builtin}({instruction.call.format(a=a, b=b, c='c')});")
        self._items[f"{key}:{name}"] = _Item(text)
        return name

    def packed(self, name: str) -> str:
        """The type in which a builtin takes an operand: one of ours, or the compiler's own bf16."""
        if name.startswith("hw_bf16x"):
            lanes = name.removeprefix("hw_bf16x")
            vector = f"{name} __attribute__((ext_vector_type({lanes})));"
            text = f"#ifdef __AMDGCN__\ntypedef __bf16 {vector}\n#else\ntypedef bf16 {vector}\n#endif"
            self._items[f"{name}:type"] = _Item(text)
            return name
        return self.type(name)

    def text(self, code: str) -> str:
        """The definitions that `code` needs, ending in a newline; words first, then types, then functions."""
        words = [self._items[name].text for name in _WORDS if name in self._items]
        functions = [item.text for name, item in sorted(self._items.items(), key=_function_key) if name not in _WORDS]
        mentioned = set(re.findall(r"\w+", "\n".join((code, *functions))))
        vectors = sorted((n for n in self._types if n not in _SCALARS and n in mentioned), key=_vector_key)
        mentioned |= {_ELEMENTS[n.split("x")[0]] for n in vectors}
        scalars = [f"typedef {_SCALARS[n]} {n};{_COMMENTS.get(n, '')}" for n in _SCALARS if n in mentioned]
        types = scalars + [
            f"typedef {_ELEMENTS[n.split('x')[0]]} {n} __attribute__((ext_vector_type({n.split('x')[1]})));"
            for n in vectors
        ]
        return "".join("\n".join(part) + "\n\n" for part in (words, types, functions) if part).removesuffix("\n")


def _function(head: str, *body: str) -> str:
    """A function on one line where that holds it."""
    line = f"{head} {{ {' '.join(body)} }}"
    if len(line) <= WIDTH:
        return line
    return "".join((f"{head} {{\n", *(f"  {statement}\n" for statement in body), "}"))


def _vector_key(name: str) -> tuple[str, int]:
    element, lanes = name.split("x")
    return element, int(lanes)


def _function_key(entry: tuple[str, _Item]) -> tuple[int, int]:
    """Helpers in the order of the table, vector forms behind their scalar form, then what belongs to waves."""
    name = entry[0]
    base = name.split(":")[0]
    if base.startswith("hw_bf16"):  # a type
        return -1, 0
    if base in ("mma", "join") or base.startswith(("lane_xor", "mfma", "wmma")):
        return _ORDER["uniform:int"], 0
    same = [number for item, number in _ORDER.items() if item.split(":")[0] == base]
    return (_ORDER[name], 0) if name in _ORDER else (same[-1], 1)
