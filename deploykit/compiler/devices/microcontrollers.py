"""The CPUs that C for boards is made for, as data: what `--cpu` can name with the target embedded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deploykit.compiler.devices import row_functions
from deploykit.compiler.devices.cpu import SCALAR_C, Device

GENERIC = "generic"
"""Any CPU, of which nothing is known."""

SCALAR = replace(SCALAR_C, name="scalar", vector_registers=13, dots=("mla",), group_dots=("widened",), fixed_point=True)
"""Integers in 32-bit registers; floats may be functions of the C library."""

PAIRS = replace(SCALAR, name="pairs", dots=("smlad",))
"""Instructions that multiply both halves of a word, those of Armv7E-M and of the DSP extension of Armv8-M."""

FLOATS = replace(SCALAR, name="floats", float_sums=20)
"""32 registers for floats, with instructions for them."""

FLOAT_PAIRS = replace(PAIRS, name="float-pairs", float_sums=20)
"""Both."""

HELIUM = replace(
    PAIRS, name="helium", dots=("vmladava", "vmladava_16"), fixed_point=False, row_functions=row_functions.HELIUM
)
"""Vectors of 128 bits and float32, those of the M-profile Vector Extension. Kernels call functions that use them."""

RVV = replace(SCALAR, name="rvv", dots=("vwmacc", "vwmacc_16"), fixed_point=False, row_functions=row_functions.RVV)
"""Vectors of 128 bits or more, those of the V extension of RISC-V. Kernels call functions that use them."""

MICROCONTROLLERS: Mapping[str, Device] = {
    GENERIC: SCALAR_C,
    **dict.fromkeys(("cortex-m0plus", "cortex-m3"), SCALAR),
    **dict.fromkeys(("cortex-m4", "cortex-m7", "cortex-m33"), FLOAT_PAIRS),
    **dict.fromkeys(("cortex-m55", "cortex-m85"), HELIUM),
    **dict.fromkeys(("rv32imc", "xtensa"), SCALAR),
    **dict.fromkeys(("rv32imafc", "rv64gc"), FLOATS),
    "rv32imafcv": RVV,
}
"""The device that kernels are scheduled for, by the name of the CPU."""
