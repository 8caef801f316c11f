"""The levels that a module goes through on its way to device code, and what may stand at each of them."""

from collections.abc import Iterator
from enum import Enum
from functools import cache, total_ordering

from xdsl.dialects.builtin import MemRefType, TensorType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from xpaged.errors import XpagedError
from xpaged.lowering.kernel import is_host


@total_ordering
class Level(Enum):
    """A level of the lowering; the value is the name that `--level` and `--to` take. Earlier levels are smaller."""

    MIGRAPHX = "migraphx"
    TOSA = "tosa"
    ROCK = "rock"
    ROCK_MEMREF = "rock-memref"
    GRIDWISE = "gridwise"
    TILE = "tile"
    DEVICE = "device"
    HOST = "host"  # the emitted text, run on a CPU: no module stands here

    @property
    def rank(self) -> int:
        """Position in the order of lowering, from 0."""
        return list(Level).index(self)

    def __lt__(self, other: "Level") -> bool:
        return self.rank < other.rank

    __hash__ = Enum.__hash__


MODULE_LEVELS = tuple(level for level in Level if level is not Level.HOST)


def _span(first: Level, last: Level) -> frozenset[Level]:
    return frozenset(level for level in MODULE_LEVELS if first <= level <= last)


_EVERYWHERE = frozenset(MODULE_LEVELS)
_NOWHERE = frozenset[Level]()
_TENSOR = _span(Level.TOSA, Level.ROCK)
_MEMREF = _span(Level.ROCK_MEMREF, Level.DEVICE)
_LANES = _span(Level.TILE, Level.DEVICE)
_VIEWS = _span(Level.ROCK, Level.TILE)
_GENERIC = _span(Level.ROCK, Level.GRIDWISE)

# Where a dialect may stand; an entry for a whole operation name comes before the one for its dialect.
_DIALECTS: dict[str, frozenset[Level]] = {
    "builtin": _EVERYWHERE,
    "func": _EVERYWHERE,
    "migraphx": frozenset({Level.MIGRAPHX}),
    "tosa": frozenset({Level.TOSA}),
    "tensor": _TENSOR,
    "arith": _span(Level.TOSA, Level.DEVICE),
    "math": _span(Level.ROCK, Level.DEVICE),
    "memref": _MEMREF,
    "scf": _LANES,
    "vector": _LANES,
    "rock": frozenset({Level.TILE}),
    "hip": frozenset({Level.DEVICE}),
}
_OPERATIONS: dict[str, frozenset[Level]] = {
    "builtin.unrealized_conversion_cast": _NOWHERE,
    "linalg.generic": _GENERIC,
    "linalg.yield": _GENERIC,
    "rock.transform": _VIEWS,
    "rock.deref": _VIEWS,
    "rock.yield": _GENERIC,
    "rock.attention": _span(Level.ROCK, Level.ROCK_MEMREF),
    "rock.merge_attention": _span(Level.ROCK_MEMREF, Level.GRIDWISE),
    "rock.gridwise_attention_accel": frozenset({Level.GRIDWISE}),
}

# Operations of the first level whose other side is a tensor.
_BOUNDARY = frozenset({"migraphx.mlir.as.logical.shape", "migraphx.mlir.as.underlying.shape"})

# A deref is lazy: until tiles are loaded, its view may only be described further or handed to attention.
_LAZY_USERS = frozenset({"rock.transform", "rock.attention", "rock.gridwise_attention_accel"})
_TILE_READERS = frozenset({"rock.transform", "rock.tile_load"})


@cache
def _levels_of_name(name: str) -> frozenset[Level]:
    return _OPERATIONS.get(name, _DIALECTS.get(name.split(".", 1)[0], _NOWHERE))


def _levels_of_type(type: Attribute) -> frozenset[Level]:
    match type:
        case TensorType():
            return _TENSOR
        case MemRefType():
            return _MEMREF
        case VectorType():
            return _LANES
        case _:
            dialect, _, rest = type.name.partition(".")
            return _DIALECTS.get(dialect, _EVERYWHERE) if rest and dialect != "builtin" else _EVERYWHERE


def _values(op: Operation) -> list[SSAValue]:
    """The values that an operation defines and that must fit its level: results and the arguments of its blocks."""
    if op.name in _BOUNDARY:
        return []
    arguments = [arg for region in op.regions for block in region.blocks for arg in block.args]
    return [*op.results, *arguments]


def levels_of(op: Operation) -> frozenset[Level]:
    """The levels at which `op` may stand, judged by its name and by the types of the values that it defines."""
    allowed = _levels_of_name(op.name)
    for value in _values(op):
        allowed &= _levels_of_type(value.type)
    return allowed


def _culprit(op: Operation, level: Level) -> tuple[str, frozenset[Level]]:
    """What keeps `op` from standing at `level` (itself or a type), and where that may stand."""
    allowed = _levels_of_name(op.name)
    if level not in allowed:
        return f"'{op.name}'", allowed
    for value in _values(op):
        if level not in (allowed := _levels_of_type(value.type)):
            return f"the type {value.type} of '{op.name}'", allowed
    raise AssertionError(f"'{op.name}' may stand at {level.value}")


def _leveled(op: Operation) -> Iterator[Operation]:
    """`op` and everything in it that stands at a level: functions for the host do not, nor does what they hold."""
    if is_host(op):
        return
    yield op
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from _leveled(inner)


def check_level(module: Operation, level: Level) -> None:
    """
    Check that everything in `module` may stand at `level`; functions for the host may stand anywhere.

    Raises XpagedError that names the first operation that may not, its place, and the pass that should have removed
    it. For levels before `tile` that includes any operation that reads memory through a `rock.deref`.
    """
    for op in _leveled(module):
        if level not in levels_of(op):
            what, allowed = _culprit(op, level)
            raise XpagedError(
                f"{what} may not stand at level {level.value}",
                at=op,
                expected=_allowed_text(allowed),
                fix=_way_out(op, allowed, level),
            )
        if op.name == "rock.deref":
            _check_lazy(op, level)


def _check_lazy(deref: Operation, level: Level) -> None:
    """Every use of a deref's view, through any chain of transforms, must leave the read to a tile load."""
    users = _LAZY_USERS if level < Level.TILE else _TILE_READERS
    pending = list(deref.results)
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if user.name not in users:
                raise XpagedError(
                    f"'{user.name}' reads memory through a rock.deref at level {level.value}",
                    at=user,
                    expected=f"only {', '.join(sorted(users))} on the view of a deref",
                    fix="load a tile of it at level tile: before that level a deref is a description, not a load",
                )
            if user.name == "rock.transform":
                pending.extend(user.results)


def _allowed_text(allowed: frozenset[Level]) -> str:
    if not allowed:
        return "no level takes it"
    return "it may stand at " + ", ".join(level.value for level in sorted(allowed))


def _way_out(op: Operation, allowed: frozenset[Level], level: Level) -> str | None:
    """Name the pass that should have removed `op` before `level`; None when no pass does."""
    from xpaged.passes.pipelines import PATH

    if not allowed or max(allowed) > level:
        return None
    passes = PATH[max(allowed)]
    name = passes[-1]
    if op.name == "tosa.custom" and "tosa-to-rock-deref" in passes:
        operator = op.properties.get("operator_name", op.attributes.get("operator_name"))
        if getattr(operator, "data", "") == "deref":
            name = "tosa-to-rock-deref"
    elif "tosa-to-rock" in passes:
        name = "tosa-to-rock"
    return f"the pass {name} should have removed it"


def level_of(module: Operation) -> Level:
    """
    The level that `module` stands at: the earliest that takes everything in it.

    Raises XpagedError that names an operation of another level when no level takes all of them.
    """
    allowed = _EVERYWHERE
    for op in _leveled(module):
        here = levels_of(op)
        if not here & allowed:
            what, own = _culprit(op, min(allowed))
            raise XpagedError(
                f"{what} does not stand at the level of what comes before it",
                at=op,
                found=_allowed_text(own),
                expected=f"one that may stand at {', '.join(level.value for level in sorted(allowed))}",
            )
        allowed &= here
    level = min(allowed)
    check_level(module, level)
    return level
