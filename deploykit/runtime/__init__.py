"""The paths of the sources that artifacts contain beside a model's own: C and, for the web, JavaScript.

* `include/deploykit.h`, `core/deploykit.c`, `core/errors.c`: portable C99, no heap, no globals; part of every artifact.
* `include/states.h`, `core/states.c`: the memory of models with states.
* `include/driver.h`, `core/driver.c`: the interface to GPUs, for models with GPU kernels.
* `include/gpu.h`: the drivers for GPUs of native machines; `gpu/work.{h,c}`: what they collect; `gpu/kept.{h,c}`: the
  buffers of values that stay there; `gpu/vulkan*.{h,c}`, `gpu/opencl*.{h,c}`: the drivers.
* `batching/device.{h,c}`: their flushes on a GPU.
* `batching/batching.h`, `batching/queue.c`, `batching/frontier.{h,c}`, `batching/choices.c`: the control flow of
  dynamic models, and the batches of their cells.
* `batching/stream.{h,c}`: instances that join while others run; `batching/instances.{h,c}`, `batching/records.c`,
  `batching/builder.h`: what they and their results consist of.
* `text/text.h`: the interface to tokenizers; `text/*.c`, `text/tables.h`: what they consist of.
* `language/*.{h,c}`: what models that generate texts need beside their kernels: pages of sequences, what is
  saved of them, the choice of tokens, texts that end an answer, and templates of conversations;
  `language/generate.{h,c}`: from prompts to answers.
* `answers/answers.{h,c}`: scores, and the memory of a run, of models with answers.
* `texts/texts.{h,c}`: what models of texts do, from tokens to answers.
* `pictures/*.{h,c}`: what models of pictures do, from points to answers; `sounds/*.{h,c}`: those of sound.
* `host/threads.{h,c}`: a thread pool for parallel loops, on systems with POSIX threads.
* `host/cpu.{h,c}`: the features of the CPU, for kernels that need certain instructions.
* `host/runner.c`: a program that runs a model under sanitizers; it does not ship.
* `host/profile.c`: the step timer of a model that is compiled for profiling; it does not ship.
* `wasm/entry.c`: the exports of a WebAssembly module for each function; `wasm/module.c`: its other exports;
  `wasm/threads.c`: its pool for parallel loops; `wasm/gpu.c`: a driver through imports; `wasm/libc.c` and
  `wasm/include`: the parts of the C library that it needs.
* `android/jni*.c`: the interface of a model's library for Java, with `android/jni.h`, `android/session.h` and
  `android/programs.h`; `android/arm.c`: functions that compilers for 32-bit Arm call; `android/include`: the parts of
  the C library that it needs; `macos/include`: what differs for tests on a Mac.
* `js/*.mjs`: the modules that load and run a WebAssembly module. Three of them do not ship: `js/runner.mjs` runs models
  for Python in node, `js/page.mjs` in a page, both with `js/jobs.mjs`. The numbers in `js/limits.d.mts` are those of
  the device that shaders are written for.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_ROOT = Path(__file__).parent

INCLUDE = _ROOT / "include"
HEADER = INCLUDE / "deploykit.h"
CORE = tuple(_ROOT / "core" / name for name in ("deploykit.c", "errors.c"))
STATES = (INCLUDE / "states.h", _ROOT / "core" / "states.c")
DRIVER_HEADER = INCLUDE / "driver.h"
DRIVER = _ROOT / "core" / "driver.c"
GPU = _ROOT / "gpu"
WORK = (GPU / "work.h", GPU / "work.c")
KEPT = (GPU / "kept.h", GPU / "kept.c")
UNPACK = (GPU / "unpack.h", GPU / "unpack.c")
VULKAN = (*WORK, *KEPT, *UNPACK, *sorted(GPU.glob("vulkan*.[ch]")))
OPENCL = (*WORK, *KEPT, *sorted(GPU.glob("opencl*.[ch]")))
DRIVERS = {"vulkan": VULKAN, "opencl": OPENCL}
"""The drivers for GPUs of native machines, by their names."""
BATCHING = _ROOT / "batching"
QUEUE = tuple(
    BATCHING / name
    for name in ("batching.h", "queue.c", "frontier.h", "frontier.c", "choices.c", "needed.c", "shared.c", "trace.c")
)
DEVICE = tuple(BATCHING / name for name in ("device.h", "device.c"))
INSTANCES = tuple(
    BATCHING / name for name in ("instances.h", "instances.c", "records.c", "stream.h", "stream.c", "builder.h")
)
TEXT_INCLUDE = _ROOT / "text"
TEXT_HEADER, TEXT_TABLES = TEXT_INCLUDE / "text.h", TEXT_INCLUDE / "tables.h"
TEXT = tuple(sorted(TEXT_INCLUDE.glob("*.[ch]")))
LANGUAGE_INCLUDE = _ROOT / "language"
TEMPLATE_VALUES = LANGUAGE_INCLUDE / "template_values.h"
TEMPLATE = tuple(sorted(LANGUAGE_INCLUDE.glob("template*.[ch]")))
LANGUAGE = (
    *(LANGUAGE_INCLUDE / name for name in ("language.h", "pages.c", "saved.c", "sampling.c", "stops.c")),
    *TEMPLATE,
)
GENERATING = tuple(LANGUAGE_INCLUDE / name for name in ("generate.h", "generate.c"))
ANSWERS_INCLUDE = _ROOT / "answers"
ANSWERS = tuple(ANSWERS_INCLUDE / name for name in ("answers.h", "answers.c"))
TEXTS_INCLUDE = _ROOT / "texts"
TEXTS = tuple(TEXTS_INCLUDE / name for name in ("texts.h", "texts.c"))
PICTURES_INCLUDE = _ROOT / "pictures"
PICTURES = tuple(PICTURES_INCLUDE / name for name in ("pictures.h", "prepare.c", "places.c", "pictures.c"))
CAMERA = PICTURES_INCLUDE / "camera.c"
SOUNDS_INCLUDE = _ROOT / "sounds"
SOUNDS = tuple(SOUNDS_INCLUDE / name for name in ("sounds.h", "resample.c", "sounds.c"))
CHECKS = (*CORE, STATES[1])
"""Sources that run once per call, whatever the model does."""
THREADS_HEADER = _ROOT / "host" / "threads.h"
THREADS = _ROOT / "host" / "threads.c"
SHARES = INCLUDE / "shares.h"
CPU_HEADER = _ROOT / "host" / "cpu.h"
CPU = _ROOT / "host" / "cpu.c"
RUNNER = _ROOT / "host" / "runner.c"
PROFILE = _ROOT / "host" / "profile.c"

WASM_ENTRY = _ROOT / "wasm" / "entry.c"
WASM_MODULE = _ROOT / "wasm" / "module.c"
WASM_THREADS = _ROOT / "wasm" / "threads.c"
WASM_GPU = _ROOT / "wasm" / "gpu.c"
WASM_TEXT = _ROOT / "wasm" / "text.c"
WASM_LANGUAGE = _ROOT / "wasm" / "language.c"
WASM_LIBC = _ROOT / "wasm" / "libc.c"
WASM_INCLUDE = _ROOT / "wasm" / "include"
ANDROID_INCLUDE = _ROOT / "android" / "include"
MACOS_INCLUDE = _ROOT / "macos" / "include"
ANDROID_ARM = _ROOT / "android" / "arm.c"
ANDROID_JNI = tuple(_ROOT / "android" / name for name in ("jni.c", "jni_programs.c"))
ANDROID_JNI_PROFILE = _ROOT / "android" / "jni_profile.c"
ANDROID_JNI_MODELS = _ROOT / "android" / "jni_models.c"
ANDROID_JNI_GPU = _ROOT / "android" / "jni_gpu.c"
ANDROID_JNI_TEXT = _ROOT / "android" / "jni_text.c"
ANDROID_JNI_MESSAGES = _ROOT / "android" / "jni_messages.c"
ANDROID_JNI_PICTURES = _ROOT / "android" / "jni_pictures.c"
ANDROID_JNI_SOUNDS = _ROOT / "android" / "jni_sounds.c"
JS_RUNNER = _ROOT / "js" / "runner.mjs"
JS_PAGE = _ROOT / "js" / "page.mjs"
JS_MODULES = tuple(
    sorted({*(_ROOT / "js").glob("*.mjs")} - {JS_RUNNER, JS_PAGE, _ROOT / "js" / "jobs.mjs"}),
)


def further_sources(*, states: bool, instances: bool) -> tuple[Path, ...]:
    """The sources beside the core for a model that has states, or that runs instances."""
    return (*(STATES if states else ()), *((*QUEUE, *INSTANCES) if instances else ()))


def gpu_sources(drivers: Iterable[str], *, instances: bool) -> tuple[Path, ...]:
    """The sources of drivers, by their names, for programs with kernels for GPUs."""
    own = dict.fromkeys(path for driver in drivers for path in DRIVERS[driver])
    return (DRIVER_HEADER, DRIVER, INCLUDE / "gpu.h", *own, *(DEVICE if instances else ()))
