"""What a compiled code object says of itself: kernels, registers, memory and arguments, from its metadata note."""

import io
import re
from dataclasses import dataclass
from typing import Any

from xpaged.errors import XpagedError

_NOTE_NAME = "AMDGPU"
_NOTE_TYPE = 32  # NT_AMDGPU_METADATA
_MACHINE = "EM_AMDGPU"
_MATRIX = re.compile(r"^\s+v_(?:smfmac|mfma|wmma|swmmac)_\w+", re.MULTILINE)


@dataclass(frozen=True)
class KernelArgument:
    """One argument in the kernel argument segment: place and size in bytes, kind (`global_buffer`, `by_value`, ...)."""

    offset: int
    size: int
    kind: str


@dataclass(frozen=True)
class KernelInfo:
    """
    What the compiler used for one kernel. Registers are counted per lane; on gfx90a and later `vgprs` includes
    `agprs`. Memory is in bytes: `lds` for a workgroup, `scratch` (private memory) for a lane.
    """

    name: str
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    scratch: int
    lds: int
    max_workgroup: int
    wave_size: int
    kernarg_bytes: int
    arguments: tuple[KernelArgument, ...]

    def check_memory(self, lds_limit: int) -> None:
        """
        Refuse a kernel that keeps values in memory of a lane (scratch, spilled registers) or needs more LDS than the
        architecture has. An array that the compiler could not put in registers shows as scratch without spills.
        """
        if self.scratch or self.vgpr_spills or self.sgpr_spills:
            raise XpagedError(
                f"kernel '{self.name}' does not fit in registers",
                found=f"{self.scratch} bytes of scratch a lane, {self.vgpr_spills} vector and "
                f"{self.sgpr_spills} scalar registers spilled",
                expected="no scratch and no spills",
                fix="choose smaller tiles (perf_config), or another --toolchain",
            )
        if self.lds > lds_limit:
            raise XpagedError(
                f"kernel '{self.name}' needs more LDS than a workgroup can have",
                found=f"{self.lds} bytes",
                expected=f"at most {lds_limit} bytes",
                fix="choose smaller tiles (perf_config)",
            )


@dataclass(frozen=True)
class CodeObject:
    """A code object: the architecture it is for, its version (5), its kernels in the order of the text."""

    arch: str
    version: int
    kernels: tuple[KernelInfo, ...]

    def kernel(self, name: str) -> KernelInfo:
        """The kernel called `name`; refuses a name that is not there."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise XpagedError(
            f"the code object has no kernel '{name}'", expected=", ".join(kernel.name for kernel in self.kernels)
        )


def read_code_object(data: bytes) -> CodeObject:
    """
    Read the ELF file `data` (a bare code object, no offload bundle).

    Raises XpagedError when it is no code object, is damaged, or when the packages that read it are not installed.
    """
    elf_file, errors, unpack = _readers()
    try:
        elf = elf_file(io.BytesIO(data))
        if elf["e_machine"] != _MACHINE:
            raise XpagedError("this ELF file is not an AMD code object", found=elf["e_machine"], expected=_MACHINE)
        abi = int(elf["e_ident"]["EI_ABIVERSION"])
        for segment in elf.iter_segments("PT_NOTE"):
            for note in segment.iter_notes():
                if note["n_name"] == _NOTE_NAME and note["n_type"] in (_NOTE_TYPE, "NT_AMDGPU_METADATA"):
                    return _code_object(unpack(note["n_descdata"]), abi + 2)  # ABI version 3 is code object version 5
    except errors as err:
        raise XpagedError(
            "this is no readable code object", found=str(err) or type(err).__name__, expected="an AMDGPU ELF file"
        ) from err
    raise XpagedError("this code object has no kernel metadata", expected="a note of AMDGPU metadata")


def matrix_instructions(asm: str) -> int:
    """How many matrix instructions (MFMA, SMFMAC, WMMA, SWMMAC) the assembly text holds."""
    return len(_MATRIX.findall(asm))


def _code_object(metadata: dict[str, Any], version: int) -> CodeObject:
    target = str(metadata["amdhsa.target"])
    return CodeObject(target.rpartition("-")[2], version, tuple(map(_kernel, metadata.get("amdhsa.kernels", ()))))


def _kernel(entry: dict[str, Any]) -> KernelInfo:
    arguments = tuple(
        KernelArgument(arg[".offset"], arg[".size"], arg[".value_kind"]) for arg in entry.get(".args", ())
    )
    return KernelInfo(
        name=entry[".name"],
        vgprs=entry[".vgpr_count"],
        agprs=entry.get(".agpr_count", 0),
        sgprs=entry[".sgpr_count"],
        vgpr_spills=entry.get(".vgpr_spill_count", 0),
        sgpr_spills=entry.get(".sgpr_spill_count", 0),
        scratch=entry[".private_segment_fixed_size"],
        lds=entry[".group_segment_fixed_size"],
        max_workgroup=entry[".max_flat_workgroup_size"],
        wave_size=entry[".wavefront_size"],
        kernarg_bytes=entry[".kernarg_segment_size"],
        arguments=arguments,
    )


def _readers() -> tuple[Any, tuple[type[Exception], ...], Any]:
    """The ELF and MessagePack readers; imported here, since only a compile to an object needs them."""
    try:
        import msgpack
        from elftools.common.exceptions import ELFError
        from elftools.construct.core import ConstructError
        from elftools.elf.elffile import ELFFile
    except ImportError as err:
        raise XpagedError(
            f"the Python package that reads code objects is not installed: {err.name}",
            fix="pip install 'xpaged[toolchain]'",
        ) from err
    damaged = (ELFError, ConstructError, msgpack.UnpackException)
    wrong_types = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)
    return ELFFile, damaged + wrong_types, msgpack.unpackb
