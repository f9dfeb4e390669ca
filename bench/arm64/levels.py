"""The levels of 64-bit Arm CPUs that are compared, and the system that programs see under QEMU at each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LIBC = Path("/usr/aarch64-linux-gnu/lib")
"""Where Debian puts the C library for arm64."""

_OLD = "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
_NEW = f"{_OLD} atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"


@dataclass(frozen=True)
class Level:
    """A kind of CPU. `cpu` is the one that models are built for, in `deploykit.build`; `model` that of QEMU. `part` is
    the number that Arm gave the CPU, and `features` are its features as Linux lists them."""

    name: str
    cpu: str
    model: str
    part: str
    features: str

    def root(self, folder: Path) -> Path:
        """A folder of files that programs see in the place of this machine's, made in `folder`. Libraries read the
        kind of CPU from such files, and some crash if it is another one than they were compiled for."""
        made = folder / self.name
        cpus = made / "sys/devices/system/cpu"
        cpus.mkdir(parents=True, exist_ok=True)
        for name in ("possible", "present", "online"):
            (cpus / name).write_text("0\n")
        (made / "proc").mkdir(exist_ok=True)
        lines = {
            "processor": "0",
            "BogoMIPS": "100.00",
            "Features": self.features,
            "CPU implementer": "0x41",
            "CPU architecture": "8",
            "CPU variant": "0x1",
            "CPU part": self.part,
            "CPU revision": "0",
        }
        (made / "proc/cpuinfo").write_text("".join(f"{name}\t: {value}\n" for name, value in lines.items()) + "\n")
        if not (made / "lib").is_symlink():
            (made / "lib").symlink_to(LIBC)
        return made


LEVELS: Mapping[str, Level] = {
    level.name: level
    for level in (
        Level("baseline", "armv8-a", "cortex-a72", "0xd08", _OLD),
        Level("dotprod", "armv8.2-a+dotprod", "cortex-a76", "0xd0b", _NEW),
        Level("dotprod+fp16", "armv8.2-a+dotprod+fullfp16", "cortex-a76", "0xd0b", _NEW),
        Level("i8mm", "armv8.2-a+dotprod+fullfp16+i8mm", "max,sve=off,sme=off", "0xd4d", f"{_NEW} i8mm bf16"),
    )
}
"""From old CPUs to new ones: a Cortex-A72, twice a Cortex-A76, and a CPU with products of 8-bit matrices."""
