"""`docs/structure.svg`: the packages of deploykit, from what users call to what all need.

`python -m tests.docs.structure_picture` draws it anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "structure.svg"

WIDTH, LEFT, GAP, HEIGHT, LINE = 1180, 150, 14, 84, 15
NOTE = (
    "Dashed: rooms of the next parts, not there yet. Which way imports run is held by tests/structure/test_arrows.py."
)

STYLE = (
    ".box{fill:#fff;stroke-width:2}.next{fill:#fbf7ef;stroke-dasharray:6 4}"
    ".row,.name{font-size:13px;font-weight:600}.does{font-size:10.5px;fill:#444}"
)


@dataclass(frozen=True)
class Box:
    """A package or module of deploykit by its path, and what it does, in lines. `next`: it is not there yet."""

    path: str
    does: tuple[str, ...]
    next: bool = False


ROWS: tuple[tuple[str, str, tuple[Box, ...]], ...] = (
    (
        "what users call",
        "#4c78a8",
        (
            Box("cli", ("the command line",)),
            Box("building.py", ("load and build",)),
            Box("sessions", ("open and run an artifact;", "texts, pictures, sound")),
            Box("checks", ("verify, bench, profile",)),
            Box("inspection", ("what a model", "and a plan hold")),
            Box("serving", ("HTTP in front of sessions",), next=True),
        ),
    ),
    (
        "sources",
        "#72a0c8",
        (
            Box("sources", ("a frontend recognises a source", "and has options of its own")),
            Box("options", ("dataclasses: keywords, flags,", "docs/options.md")),
            Box("folders", ("what a Hugging Face", "model is for")),
            Box("quantization", ("smaller weights, and what", "they change")),
        ),
    ),
    (
        "frontends",
        "#54a24b",
        (
            Box("frontends/onnx", ("nodes, attributes, opsets,", "the arithmetic of shapes")),
            Box("frontends/huggingface", ("a folder's configuration and", "weights become operators")),
            Box("frontends/torch", ("a process with PyTorch", "exports other folders")),
            Box("frontends/python", ("a dynamic model is read", "from its source")),
            Box("frontends/gguf", ("a file becomes what a", "folder would hold")),
        ),
    ),
    (
        "compiler",
        "#e45756",
        (
            Box("compiler/operators", ("tensor expressions", "over one builder")),
            Box("compiler/graph", ("which operators", "become one kernel")),
            Box("compiler/schedules", ("a kernel to loops,", "rule by rule")),
            Box("compiler/lowering", ("pointers and", "integers")),
            Box("compiler/program", ("steps, states,", "memory as formulas")),
            Box("compiler/batching", ("cells are grouped,", "by a queue")),
            Box("compiler/ragged", ("extents depend on", "an outer index")),
            Box("compiler/language", ("one paged cache,", "many functions"), next=True),
        ),
    ),
    (
        "codegen",
        "#b279a2",
        (
            Box("compiler/codegen/host", ("the steps as C",)),
            Box("compiler/codegen/c", ("kernels as C99",)),
            Box("compiler/codegen/native", ("kernels as objects",)),
            Box("compiler/codegen/shaders", ("WGSL, OpenCL, SPIR-V",)),
            Box("compiler/codegen/weights", ("constants",)),
        ),
    ),
    (
        "targets, engines",
        "#f58518",
        (
            Box("targets/host", ("shared library",)),
            Box("targets/android", ("AAR, libraries for C",)),
            Box("targets/webgpu", ("package for pages",)),
            Box("targets/embedded", ("C99 project",)),
            Box("targets/embedded/boards", ("flags, memories and a", "project of each board")),
            Box("engines", ("native, web",)),
        ),
    ),
    (
        "runtime (ships)",
        "#9d755d",
        (
            Box("runtime/core", ("checks, states;", "no heap")),
            Box("runtime/host", ("threads, CPU features",)),
            Box("runtime/gpu", ("Vulkan and OpenCL,", "loaded if there")),
            Box("runtime/js", ("pages and node, over", "runtime/wasm")),
            Box("runtime/batching", ("instances, frames,", "order of cells")),
            Box("runtime/text", ("tokenizers; beside it", "pictures, sounds")),
            Box("runtime/language", ("sampling, templates,", "conversations")),
        ),
    ),
    (
        "what all need",
        "#7f7f7f",
        (
            Box("compiler/dims", ("integer expressions;", "tir, devices as data")),
            Box("compiler/model.py", ("ImportedModel,", "Signature, Dim, Port")),
            Box("artifact", ("folder, manifest, plan,", "formulas")),
            Box("basics", ("dtypes, files, threads,", "tools of this machine")),
            Box("errors.py", ("refusals, with", "what to do next")),
        ),
    ),
)


def picture() -> str:
    bottom = GAP + len(ROWS) * (HEIGHT + GAP)
    told = "The packages of deploykit, from what users call to what all need, and the rooms of the next parts"
    size = f'width="{WIDTH}" height="{bottom + 24}"'
    fonts = 'font-family="system-ui, Helvetica, Arial, sans-serif" role="img"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 24}" {size}',
        f'  {fonts} aria-label="{told}">',
        f"  <style>{STYLE}</style>",
        f'  <rect {size} fill="#fafafa"/>',
    ]
    for row, (title, colour, boxes) in enumerate(ROWS):
        top = GAP + row * (HEIGHT + GAP)
        lines.append(f'  <text class="row" x="16" y="{top + HEIGHT / 2 + 4:g}" fill="{colour}">{title}</text>')
        width = (WIDTH - LEFT - GAP * len(boxes)) / len(boxes)
        for index, box in enumerate(boxes):
            left = LEFT + index * (width + GAP)
            name = box.path.rpartition("/")[2]
            look = "box next" if box.next else "box"
            lines.append(
                f'  <rect class="{look}" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{HEIGHT}" rx="7" '
                f'stroke="{colour}"/>'
            )
            texts = [("name", name), *(("does", line) for line in box.does)]
            for number, (kind, text) in enumerate(texts):
                y = top + 28 + number * (LINE + 3)
                lines.append(
                    f'  <text class="{kind}" x="{left + width / 2:.1f}" y="{y}" text-anchor="middle"'
                    f"{f' fill={chr(34)}{colour}{chr(34)}' if kind == 'name' else ''}>{escape(text)}</text>"
                )
    lines.append(f'  <text class="does" x="16" y="{bottom + 10}">{NOTE}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture())
