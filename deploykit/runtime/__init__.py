"""The C sources beside a model's own, as files.

* `include/deploykit.h`, `core/deploykit.c`: portable C99, no heap, no globals; every target has them.
* `host/threads.{h,c}`: a thread pool for parallel loops, where there are POSIX threads.
* `host/cpu.{h,c}`: what the CPU can do, for kernels that need a certain one.
* `host/runner.c`: a program that runs a model under sanitizers; it does not ship.
* `host/profile.c`: the clock of a model that is compiled for profiling; it does not ship.
"""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).parent

INCLUDE = _ROOT / "include"
HEADER = INCLUDE / "deploykit.h"
CORE = _ROOT / "core" / "deploykit.c"
THREADS_HEADER = _ROOT / "host" / "threads.h"
THREADS = _ROOT / "host" / "threads.c"
CPU_HEADER = _ROOT / "host" / "cpu.h"
CPU = _ROOT / "host" / "cpu.c"
RUNNER = _ROOT / "host" / "runner.c"
PROFILE = _ROOT / "host" / "profile.c"
