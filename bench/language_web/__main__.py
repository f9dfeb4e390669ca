"""A language model in a page of Chromium, next to wllama and transformers.js: loading, memory, tokens per second.

    python -m bench.language_web FOLDER [--device wasm,webgpu] [--threads 1,2]
    python -m bench.language_web FOLDER --peers wllama,transformers --gguf MODEL.gguf --onnx FOLDER

FOLDER is a package of a language model for the web, `--gguf` the file that it was made of, which wllama reads, and
`--onnx` what `python -m bench.language_web.export MODEL.gguf FOLDER` writes, which transformers.js reads. Its weights
were rounded once more, so a second package is built of it, and transformers.js is compared with that.

First each peer continues some texts by a word. At least three in four words have to be those of the package of the
same folder or file, or the peer is not timed. Some may differ, because both peers round the left operands of products
to 8 bits, and transformers.js has weights in 8 bits (`q8`) besides those in 4 (`q4`). Then all sides take turns;
figures are medians. Answers are those to a single word. Time is that of the clock, and what the processes of the page
and of the GPU computed (CPU): on a machine that does other work, too, only the latter says something. On WebGPU the
GPU is one in software, where there is no other: give that `--prompt` and `--answer`. wllama computed on the CPU there,
so it is timed on WebAssembly alone.

Each side loads at a first visit with nothing in storage, and once more, from a server on this machine. Memory is what
these processes take at the peak of the first load, and at the end of the answers, beyond what they took before, without
files that they share with others; it is read in Linux. Code is what the first visit requests besides weights and
vocabularies, with gzip.

Peers need npm. DIR (default `build/bench-language-web`) receives them, and `report.json`. Exit code 1 if words differ.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import deploykit
from bench.browser import ISOLATED, FolderHandler, served
from bench.language_web.files import HERE, code_bytes, link, write_transformers
from bench.language_web.processes import TICK, cpu_seconds, grown, own_memory, peak
from bench.peers.npm import install
from deploykit.artifact.manifest import read_manifest
from deploykit.checks.language_speed import ANSWER, PROMPTS
from deploykit.cli.console import messages, results, table
from deploykit.engines.web.chromium import GPU_OPTIONS
from tests.apps.devtools import Page, chromium

PEERS = {"wllama": "@wllama/wllama@3.13.0", "transformers": "@huggingface/transformers@4.3.1"}
PATIENCE = 570.0
"""Seconds that a prompt may take."""
AGREEING = 0.75
"""The least part of words that a peer continues in the same way."""
WORDS = ("the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by", "on", "not", "he")
TEXTS = (
    *("The capital of France is", "Two plus two is equal to", "The opposite of hot is", "A week has seven"),
    *("The sun rises in the", "The first president of the United", "Once upon a", "Thank you very"),
    *("Monday, Tuesday, Wednesday,", "He was born in London, England, and grew", "The cat sat on the", "Ladies and"),
    *(
        "In the beginning God created the heaven and the",
        "To be, or not to",
        "one two three four",
        "The dog barked at the",
    ),
)
"""What is continued by a word."""


@dataclass(frozen=True)
class Side:
    """A library with a model. `settings` are those of `sides.mjs`, `same` is the side whose words it has to continue
    with, `devices` are those that it computes on."""

    name: str
    library: str
    settings: Mapping[str, Any]
    same: str | None = None
    devices: Sequence[str] = ("wasm", "webgpu")


def sides(given: argparse.Namespace, folder: Path) -> list[Side]:
    """All sides, with their files in `folder`."""
    link(given.folder, folder / "package")
    found = [Side("deploykit", "deploykit", {"folder": "package"})]
    for peer in given.peers:
        install(PEERS[peer], folder)
    if "wllama" in given.peers:
        link(given.gguf, folder / "model.gguf")
        settings = {"file": "model.gguf", "context": 2 * (given.prompt + given.answer)}
        found.append(Side("wllama", "wllama", settings, "deploykit", ("wasm",)))
    if "transformers" in given.peers:
        messages.print(f"building {given.onnx}")
        deploykit.build(given.onnx, "webgpu", output=folder / "package-onnx", check=False)
        found.append(Side("deploykit, ONNX", "deploykit", {"folder": "package-onnx"}))
        for dtype in write_transformers(given.onnx, folder / "peer"):
            settings = {"folder": "peer", "dtype": dtype, "external": dtype == "q4"}
            found.append(Side(f"transformers.js, {dtype}", "transformers", settings, "deploykit, ONNX"))
    return found


def load(page: Page, side: Side, settings: Mapping[str, Any]) -> float:
    """Load a side in a page that has just been opened; gives the seconds."""
    found = json.dumps({**side.settings, **settings})
    return float(page.evaluate(f"import('/sides.mjs').then(({{ open }}) => open('{side.library}', {found}))"))


def complete(page: Page, text: str, tokens: int) -> dict[str, Any]:
    """The text of a side's answer, the tokens that it read and wrote, and the seconds, also those of the CPU."""
    cpu, start = cpu_seconds(page), time.perf_counter()
    found: dict[str, Any] = page.evaluate(f"complete({json.dumps(text)}, {tokens})")
    return {**found, "seconds": time.perf_counter() - start, "cpu": max(cpu_seconds(page) - cpu, TICK)}


def agreement(one: Page, other: Page) -> float:
    """The part of the texts that two sides continue by the same word."""
    words = ([complete(page, text, 1)["text"].strip() for text in TEXTS] for page in (one, other))
    return sum(map(str.__eq__, *words)) / len(TEXTS)


def rates(page: Page, what: str, tokens: int, seed: int) -> dict[str, float]:
    """Tokens per second of reading a prompt or writing an answer, by the clock and by what the CPU computed. No two
    prompts begin alike, so that nothing is remembered."""
    words = random.Random(seed).choices(WORDS, k=tokens)  # noqa: S311
    found = complete(page, " ".join(words), 1) if what == "prompt" else complete(page, words[0], tokens)
    count = found["read" if what == "prompt" else "written"]
    return {"clock": count / found["seconds"], "cpu": count / found["cpu"]}


def measured(
    folder: Path, all_sides: Sequence[Side], settings: Mapping[str, Any], sizes: Mapping[str, int], repeats: int
) -> list[dict[str, Any]]:
    """What was found for each side, on a device with so many threads."""
    requested: list[str] = []
    headers = ISOLATED if settings["threads"] > 1 else {}

    class Handler(FolderHandler):
        def end_headers(self) -> None:
            for name, value in headers.items():
                self.send_header(name, value)
            super().end_headers()

        def do_GET(self) -> None:  # noqa: N802
            requested.append(self.path.lstrip("/").partition("?")[0])
            super().do_GET()

    options = GPU_OPTIONS if settings["device"] == "webgpu" else ()
    found: dict[str, dict[str, Any]] = {}
    pages: dict[str, Page] = {}
    before: dict[str, dict[int, int]] = {}
    with ExitStack() as stack:
        address = stack.enter_context(served(partial(Handler, directory=str(folder))))

        @contextmanager
        def opened(profile: Path) -> Iterator[Page]:
            with chromium(*options, profile=profile) as page:
                page.patience = PATIENCE
                page.open(f"{address}/blank.html")
                yield page

        for side in all_sides:
            messages.print(f"{side.name} on {settings['device']}: load")
            profile = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
            own: dict[str, Any] = {"side": side.name, **settings}
            with opened(profile) as page:
                requested.clear()
                with peak(own_memory(page)) as most:
                    own["first"] = load(page, side, settings)
                own |= {"peak": most[0], "requested": sorted({*requested}), "code": code_bytes(folder, requested)}
            pages[side.name] = page = stack.enter_context(opened(profile))
            before[side.name] = own_memory(page)
            found[side.name] = {**own, "second": load(page, side, settings)}
        for side in all_sides:
            if side.same is not None:
                messages.print(f"{side.name} on {settings['device']}: words")
                found[side.name]["same"] = agreement(pages[side.same], pages[side.name])
        timed = {name: page for name, page in pages.items() if found[name].get("same", 1) >= AGREEING}
        messages.print(f"{', '.join(timed)} on {settings['device']}: time")
        for name, speeds in in_turns(timed, sizes, repeats).items():
            found[name] |= speeds
        for name, own in found.items():
            own["end"] = grown(before[name])
    return list(found.values())


def in_turns(
    pages: Mapping[str, Page], sizes: Mapping[str, int], repeats: int
) -> dict[str, dict[str, dict[str, float]]]:
    """The median rates of each side with prompts and answers of these sizes. The sides take turns."""
    found: dict[str, dict[str, dict[str, float]]] = {name: {} for name in pages}
    for what, size in sizes.items():
        turns = [{name: rates(page, what, size, turn) for name, page in pages.items()} for turn in range(repeats + 1)]
        for name in pages:
            found[name][what] = {
                clock: statistics.median(turn[name][clock] for turn in turns[1:]) for clock in ("clock", "cpu")
            }
    return found


def row(own: Mapping[str, Any]) -> list[str]:
    """The cells of a side."""
    speeds = [
        f"{own[what][clock]:.1f}" if what in own else "" for clock in ("clock", "cpu") for what in ("prompt", "answer")
    ]
    visits = [f"{own[visit]:.2f}" for visit in ("first", "second")]
    sizes = [f"{own[moment] / 1e6:.0f}" for moment in ("peak", "end")]
    same = f"{own['same']:.0%}" if "same" in own else ""
    return [own["side"], own["device"], str(own["threads"]), *speeds, *visits, *sizes, f"{own['code'] / 1e3:.0f}", same]


def compared(found: Sequence[Mapping[str, Any]], side: Side) -> Iterator[str]:
    """What is said of a peer and the side with the same file, for each device."""
    for peer in (own for own in found if own["side"] == side.name and "prompt" in own):
        place = (peer["device"], peer["threads"])
        ours = next(own for own in found if (own["side"], own["device"], own["threads"]) == (side.same, *place))
        read, written = (ours[what]["cpu"] / peer[what]["cpu"] for what in ("prompt", "answer"))
        times = f"reads {read:.1f} times and writes {written:.1f} times as fast as {side.name} (CPU)"
        yield f"{place[0]}, threads: {place[1]}: {side.same} {times}"


def _arguments() -> argparse.Namespace:
    def words(text: str) -> list[str]:
        return [word for word in text.split(",") if word]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--device", type=words, default=["wasm"])
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1])
    parser.add_argument("--peers", type=words, default=[], metavar="NAMES", help=", ".join(PEERS))
    parser.add_argument("--gguf", type=Path, metavar="FILE", help="wllama's model")
    parser.add_argument("--onnx", type=Path, metavar="FOLDER", help="the model of transformers.js")
    parser.add_argument("--prompt", type=int, default=PROMPTS[0], help="tokens of a prompt (default: 128)")
    parser.add_argument("--answer", type=int, default=ANSWER, help="tokens of an answer (default: 64)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("build/bench-language-web"), metavar="DIR")
    given = parser.parse_args()
    for peer, option in (("wllama", "gguf"), ("transformers", "onnx")):
        if peer in given.peers and getattr(given, option) is None:
            parser.error(f"--peers {peer} needs --{option}")
    if unknown := {*given.peers} - {*PEERS}:
        parser.error(f"no peer is called {', '.join(sorted(unknown))}: there are {', '.join(PEERS)}")
    return given


def main() -> int:
    given = _arguments()
    folder: Path = given.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE / "sides.mjs", folder / "sides.mjs")
    (folder / "blank.html").write_text("<!doctype html><title>bench</title>\n")
    all_sides = sides(given, folder)
    found: list[dict[str, Any]] = []
    sizes = {"prompt": given.prompt, "answer": given.answer}
    for device in given.device:
        for threads in given.threads:
            settings = {"device": device, "threads": threads}
            on_it = [side for side in all_sides if device in side.devices]
            found += measured(folder, on_it, settings, sizes, given.repeats)
    weights = read_manifest(given.folder).peak_memory.weights
    report = {"weights": weights, **sizes, "sides": found}
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    columns = ("side", "on", ">threads", ">prompt/s", ">answer/s", ">prompt/CPU s", ">answer/CPU s")
    more = (">first load s", ">second", ">MB peak", ">MB end", ">code kB", ">same words")
    shown = table(*columns, *more, title=f"{given.folder.name}, {weights / 1e6:.1f} MB of weights, in Chromium")
    for own in found:
        shown.add_row(*row(own))
    results.print(shown)
    for side in (side for side in all_sides if side.same is not None):
        for line in compared(found, side):
            results.print(line)
    for side in all_sides:
        requested = {name for own in found if own["side"] == side.name for name in own["requested"]}
        results.print(
            f"code of {side.name} for {', '.join(given.device)}: {code_bytes(folder, requested) / 1e3:.1f} kB"
        )
    return 1 if any(own.get("same", 1) < AGREEING for own in found) else 0


if __name__ == "__main__":
    sys.exit(main())
