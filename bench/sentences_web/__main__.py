"""Times text to vector on the web, next to transformers.js with the same weights, on one thread, as a table.

    python -m bench.sentences_web FOLDER --onnx model.onnx [--place P] [--count N] [--rounds N] [--output DIR]

FOLDER is a Hugging Face folder such as all-MiniLM-L6-v2, and model.onnx what `python -m bench.sentences FOLDER --export
model.onnx` writes. The texts are those of `bench.sentences`. The places are node and a page of headless Chromium, both
on WebAssembly, and a page on WebGPU, in software on a machine without a GPU: give that few texts. transformers.js gets
texts sorted by length in batches of several sizes. All sides take turns, and medians count. `ratio` is the time of
transformers.js divided by ours. The last lines are the bytes of code, with gzip, that a page has fetched for each side.

Needs node, npm and chromium. DIR (default `build/bench-sentences-web`) receives the package, the models and
transformers.js. Exit code 1 if vectors differ.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

import deploykit
from bench.browser import in_chromium
from bench.peers.npm import install
from bench.sentences import sentences
from deploykit.cli.console import messages, results, table
from deploykit.engines.web.node import find_node

PEER = "@huggingface/transformers@4.3.1"
PLACES = ("node", "wasm", "webgpu")
BATCHES = (1, 8, 32)
TOLERANCE = 1e-4
HERE = Path(__file__).parent
SCRIPTS = (HERE / "compare.mjs", HERE / "node.mjs", HERE / "page.html", HERE.parent / "turns.mjs")
OURS = "package/"
DATA = ("package/weights/", "package/tokenizer.bin", "peer/")
"""Files of the folder that are no code: weights and vocabularies."""


def main() -> int:
    given = _arguments()
    folder: Path = given.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    install(PEER, folder)
    make_peer(given.folder, given.onnx, folder / "peer")
    messages.print(f"building {given.folder}")
    deploykit.build(given.folder, "webgpu", output=folder / "package")
    for script in SCRIPTS:
        shutil.copyfile(script, folder / script.name)
    shown = table("place", "side", ">seconds", ">texts per second", ">ratio", ">error")
    wrong = False
    files: Sequence[str] = ()
    for place in given.place or PLACES:
        messages.print(f"timing {place}")
        found = measure(folder, place, sentences(given.count), given.rounds)
        wrong = wrong or found["error"] > TOLERANCE
        ours = found["seconds"]["deploykit"]
        for side, seconds in found["seconds"].items():
            error = "" if side == "deploykit" else f"{found['error']:.0e}"
            shown.add_row(place, side, f"{seconds:.2f}", f"{given.count / seconds:.0f}", f"{seconds / ours:.2f}", error)
        files = files or found.get("files", ())
    results.print(shown)
    for side, count in code_bytes(folder, files).items():
        results.print(f"code of {side}: {count / 1000:.1f} kB with gzip")
    return 1 if wrong else 0


def make_peer(folder: Path, model: Path, place: Path) -> None:
    """The folder that transformers.js loads: the exported model, with the name of its output that it expects."""
    (place / "onnx").mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(folder / name, place / name)
    loaded = onnx.load(model)
    (output,) = loaded.graph.output
    node = next(node for node in loaded.graph.node if output.name in node.output)
    node.output[list(node.output).index(output.name)] = output.name = "last_hidden_state"
    onnx.save(loaded, place / "onnx" / "model.onnx")


def measure(folder: Path, place: str, texts: Sequence[str], rounds: int) -> Mapping[str, Any]:
    """What `compare.mjs` finds in a place."""
    settings = {"texts": texts, "rounds": rounds, "batches": BATCHES, "device": place}
    (folder / "settings.json").write_text(json.dumps(settings))
    if place == "node":
        done = subprocess.run([find_node(), "node.mjs"], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"node: {done.stderr[-2000:]}")
        found = json.loads(done.stdout)
    else:
        found = in_chromium(folder, "page.html", seconds=3600, gpu=place == "webgpu")
    if "failed" in found:
        raise RuntimeError(f"{place}: {found['failed']}")
    return dict(found)


def code_bytes(folder: Path, files: Sequence[str]) -> dict[str, int]:
    """Bytes with gzip of the code among these files, for each side."""
    found: dict[str, int] = {}
    for name in dict.fromkeys(files):
        if name.startswith((OURS, "node_modules/")) and not name.startswith(DATA):
            side = "deploykit" if name.startswith(OURS) else "transformers.js"
            found[side] = found.get(side, 0) + len(gzip.compress((folder / name).read_bytes()))
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.sentences_web", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--onnx", type=Path, required=True, help="the peer's model")
    parser.add_argument("--place", action="append", choices=PLACES, help="where to time (default: all)")
    parser.add_argument("--count", type=int, default=1000, help="sentences (default: 1000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("build/bench-sentences-web"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
