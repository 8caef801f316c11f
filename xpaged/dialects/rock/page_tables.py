"""The mark of a function argument that holds page addresses: `rock.page_table = {page_size = 1024 : i64, elem = f16}`.

It outlives the derefs: from level `device` on, it is what says that an argument is a page table, and of what pages.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

from xpaged.dialects.rock.ops import DerefOp
from xpaged.dialects.rock.views import chain_of
from xpaged.errors import XpagedError

PAGE_TABLE = "rock.page_table"


def mark_page_tables(function: FuncOp) -> None:
    """Mark every argument of `function` that a deref takes its addresses from.

    Raises XpagedError when one table is read with pages of two kinds.
    """
    for op in function.walk():
        if isinstance(op, DerefOp):
            mark_page_table(op)


def mark_page_table(deref: DerefOp) -> None:
    """Mark the function argument that `deref` takes its addresses from, if it is one; see `mark_page_tables`."""
    root = chain_of(deref.table).root
    if not isinstance(root, BlockArgument) or not isinstance(function := root.owner.parent_op(), FuncOp):
        return
    page = DictionaryAttr({"page_size": IntegerAttr(deref.page_size, i64), "elem": deref.element_type})
    attributes = list(function.arg_attrs or [DictionaryAttr({})] * len(function.args))
    known = attributes[root.index].data
    other = known.get(PAGE_TABLE, page)
    if other != page:
        raise XpagedError(
            "one page table is read with pages of two kinds",
            at=deref,
            found=f"{page} and {other}",
            fix="give the pages of each kind a table of their own",
        )
    attributes[root.index] = DictionaryAttr({**known, PAGE_TABLE: page})
    function.arg_attrs = ArrayAttr(attributes)
