"""The emitted HIP text, unchanged, run on the CPU: compiled for this machine, one stack a lane."""

from xpaged.codegen.host.build import unable
from xpaged.codegen.host.faults import HostFault
from xpaged.codegen.host.kernel import HostKernel, PageTable

__all__ = ["HostFault", "HostKernel", "PageTable", "unable"]
