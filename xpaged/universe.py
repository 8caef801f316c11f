"""
The plug-in that stock `xdsl-opt` finds: xpaged's dialects, passes and the `hip` target.

xpaged's tosa is not among them: xDSL has a dialect of that name, and two of one name stop every xDSL tool. `xpaged opt`
and `xpaged-opt` have it.
"""

from collections.abc import Callable

from xdsl.universe import Universe
from xdsl.utils.target import Target

from xpaged.context import OWN_DIALECTS
from xpaged.passes import get_all_passes


def _hip() -> type[Target]:
    from xpaged.codegen.hip_target import HipTarget

    return HipTarget


TARGETS: dict[str, Callable[[], type[Target]]] = {"hip": _hip}

UNIVERSE = Universe(all_dialects=OWN_DIALECTS, all_passes=get_all_passes(), all_targets=TARGETS)
