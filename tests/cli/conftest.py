"""Kernels for the tests of the commands."""

import pytest


@pytest.fixture(scope="session")
def paged_kernel() -> str:
    """The text of a small paged kernel, as `xpaged gen` prints it."""
    from xpaged.ir.printing import print_module
    from xpaged.sizes import attention

    return print_module(attention(seq_q=5, seq_k=16, dim_qk=8, page_size=32, kv_index=True))
