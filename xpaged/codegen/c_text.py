"""Lines of C: names that do not clash, statements and blocks laid out by hand's habits, long lines broken."""

import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

WIDTH = 112
"""Columns of a line of code; comments at the right margin end here too."""

KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const consteval
    constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast
    else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return short signed
    sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename union unsigned using virtual void volatile wchar_t while xor xor_eq restrict main linux unix i386
    """.split()
)
"""Words that are no names in C++, with or without extensions."""
_NUMBER = re.compile(r"_\d+$")
_OPERATOR = re.compile(r" (&&|\|\||[-+*/%?:]) ")
_TAKEN = re.compile(r"[a-z]+\d+x\d+|lane_xor\d+|mfma_\w+|wmma_\w+|hw_bf16x\d+|__\w*|_[A-Z]\w*")
"""Names of vector types, of helper functions, and those that belong to the compiler."""


class Names:
    """Names of variables: each is new in the scopes around it; scopes side by side may use the same."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._reserved = KEYWORDS | frozenset(reserved)
        self._scopes: list[set[str]] = [set()]

    @contextmanager
    def scope(self) -> Generator[None]:
        """A block: names made inside are free again behind it."""
        self._scopes.append(set())
        try:
            yield
        finally:
            self._scopes.pop()

    def new(self, hint: str) -> str:
        """A name like `hint`: number suffixes are dropped, and numbers added until it is new."""
        base = re.sub(r"\W", "_", _NUMBER.sub("", hint)).lstrip("_") or "x"
        if base[0].isdigit():
            base = f"x{base}"
        text, number = base, 2
        while self._is_reserved(text) or any(text in scope for scope in self._scopes):
            text, number = f"{base}{'_' if base[-1].isdigit() else ''}{number}", number + 1
        self._scopes[-1].add(text)
        return text

    def _is_reserved(self, text: str) -> bool:
        return text in self._reserved or _TAKEN.fullmatch(text) is not None


@dataclass
class Block:
    """`header { body }`, after `UNROLL` or not, with the text of an `else` branch behind it."""

    header: str
    body: "list[Node]" = field(default_factory=list["Node"])
    otherwise: "list[Node] | None" = None
    key: object = None  # blocks with the same key, one right behind the other, are one block


Node = str | Block
"""A statement (or comment), or a block."""


def layout(nodes: Sequence[Node], depth: int) -> list[str]:
    """Lines of code at an indentation of `depth` steps."""
    lines: list[str] = []
    indent = "  " * depth
    for node in nodes:
        if isinstance(node, str):
            lines += _statement(node, indent)
            continue
        body = layout(node.body, depth + 1)
        if node.otherwise is None and len(body) == 1 and not body[0].lstrip().startswith("//"):
            line = f"{indent}{node.header} {body[0].strip()}"
            if len(line) <= WIDTH and not _declares(body[0]):
                lines.append(line)
                continue
        lines += [f"{indent}{node.header} {{", *body]
        if node.otherwise is not None:
            lines += [f"{indent}}} else {{", *layout(node.otherwise, depth + 1)]
        lines.append(f"{indent}}}")
    return lines


def _declares(line: str) -> bool:
    return line.lstrip().startswith(("const ", "LDS "))


def _statement(text: str, indent: str) -> list[str]:
    """One statement, broken where it is too long."""
    if text.startswith("//") or not text:
        return [f"{indent}{line}".rstrip() for line in text.split("\n")]
    lines = [indent + text]
    while len(lines[-1]) > WIDTH:
        cut = _break(lines[-1], len(indent) + 4)
        if cut is None:
            break
        lines[-1:] = [lines[-1][:cut].rstrip(), f"{indent}    {lines[-1][cut:].lstrip()}"]
    return lines


def _break(line: str, least: int) -> int | None:
    """Where to break a line: behind a comma or before an operator, as far out of parentheses as can be, before a loose
    operator rather than a product, and as far right as can be."""
    best: tuple[int, int] | None = None
    found: int | None = None
    depth = 0
    for position, character in enumerate(line[:WIDTH]):
        depth += (character in "([{") - (character in ")]}")
        if character != " " or position <= least:
            continue
        operator = _OPERATOR.match(line, position)
        if line[position - 1] != "," and operator is None:
            continue
        rank = depth, int(operator is not None and operator[1] in ("*", "/", "%"))
        if best is None or rank <= best:
            best, found = rank, position
    return found


def wrap(indent: str, parts: Sequence[str], end: str) -> list[str]:
    """`part, part, part` and `end` in as few lines as hold them."""
    lines = [indent]
    for number, part in enumerate(parts):
        text = part + (end if number == len(parts) - 1 else ",")
        if len(lines[-1]) + len(text) + 1 > WIDTH and lines[-1].strip():
            lines.append(indent)
        lines[-1] += text if not lines[-1].strip() else f" {text}"
    return lines


def comment(text: str) -> list[str]:
    """The lines of a text as comments. (A backslash at the end of a line would swallow the next one.)"""
    lines = [line.rstrip() for line in text.splitlines()]
    return [f"// {line}{'.' if line.endswith(chr(92)) else ''}".rstrip() for line in lines]


def banner(title: str, place: str, indent: int) -> str:
    """A comment that begins a part of the code, with the place that it comes from at the right."""
    title, place = " ".join(title.split()), f" {place}" if place else ""
    rule = "-" * max(WIDTH - indent - len(f"// ---- {title} ") - len(place), 4)
    return f"// ---- {title} {rule}{place}"
