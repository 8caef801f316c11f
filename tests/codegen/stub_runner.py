"""One launch of the stubbed HIP runtime (see stub_hip.h): the emitted text, run on the CPU on the memory of the stub.

Called as `stub_runner.py HIP LAUNCH ARCH FAULT` in the folder of launch.txt and memory.bin. FAULT `none` runs the
kernel, `nothing` does nothing, `table` runs it with two entries of its first page table exchanged.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from xpaged.arch import get_arch
from xpaged.codegen.host import HostKernel, PageTable
from xpaged.codegen.launch import LaunchDescription

TYPES = {"f16": np.float16, "f32": np.float32, "i32": np.int32, "i64": np.int64, "i8": np.int8, "bf16": np.uint16}


def main(hip: str, launch: str, arch: str, fault: str) -> None:
    """Run the launch and write memory.bin."""
    head, sizes, words, *regions = Path("launch.txt").read_text().splitlines()
    description = LaunchDescription.from_json(Path(launch).read_text())
    (each,) = [entry for entry in description.launches if entry.kernel == head]
    assert [*each.grid, *each.block] == [int(n) for n in sizes.split()]
    memory = bytearray(Path("memory.bin").read_bytes())
    starts: list[tuple[int, int, int]] = []
    at = 0
    for region in regions:
        address, size = map(int, region.split())
        starts.append((address, size, at))
        at += size

    def place(address: int, size: int) -> int:
        """Where memory of the device lies in the file."""
        return next(at + address - a for a, n, at in starts if a <= address and address + size <= a + n)

    arguments = bytes.fromhex(words)
    buffers: dict[str, object] = {}
    found: dict[str, tuple[int, np.ndarray]] = {}
    for name, slot in zip(each.args, description.argument_slots(each), strict=True):
        buffer = description.buffer(name)
        address = int.from_bytes(arguments[slot.offset : slot.offset + slot.size], "little")
        data = np.frombuffer(memory, np.uint8, buffer.bytes, place(address, buffer.bytes)).copy()
        if buffer.kind != "page_table":
            buffers[name] = data.view(TYPES[buffer.dtype])
            found[name] = place(address, buffer.bytes), data
            continue
        entries = data.view(np.uint64)
        if fault == "table" and not any(isinstance(b, PageTable) for b in buffers.values()):
            entries[[0, 1]] = entries[[1, 0]]
        pages = [np.frombuffer(memory, np.uint8, buffer.page_bytes, place(int(e), buffer.page_bytes)) for e in entries]
        buffers[name] = PageTable(np.stack(pages))
    used = [description.buffer(name) for name in each.args]
    alone = replace(description, buffers=tuple(used), launches=(each,))
    if fault != "nothing":
        with HostKernel(Path(hip).read_text(), get_arch(arch), alone) as kernel:
            kernel.launch(buffers, jobs=1)  # pyright: ignore[reportArgumentType]
    for where, data in found.values():
        memory[where : where + data.nbytes] = data.tobytes()
    Path("memory.bin").write_bytes(memory)


if __name__ == "__main__":
    main(*sys.argv[1:])
