"""DyNet and ED-Batch as peers: runs `dynet_models.cc` on a mini-batch, and times it if it is started as a program.

    python -m bench.dynamic.dynet [--peer NAME] [--model NAME] [--hidden N] [--batch N] [--strategy NAME] [--repeat N]
                                  [--clock CLOCK] [--program PATH]

A line of the table is a model with a hidden size and a number of structures in the mini-batch. The times are medians in
milliseconds, of making and of computing the graph, with each strategy of batching: `none`, `agenda` and `depth` of
DyNet, and the three automata of ED-Batch, `base`, `sorted` and `max`, which have learned from the same mini-batch. Both
compute with one thread. In brackets is the largest difference from the results of the source in Python, relative to the
largest result.

The program is built against an installed DyNet 2.1, with the options that DyNet was built with:

    g++ -std=c++14 -O3 -march=native -I DYNET -I EIGEN bench/dynamic/dynet_models.cc -L LIBRARY -ldynet -o dynet_models

ED-Batch (Chen et al., ICML 2023; github.com/gulang2019/ED-Batch) is a fork of DyNet, so the same program is built
against it a second time. There, each cell is a block (`dynet_blocks.h`):

    g++ -std=c++17 -DEDBATCH -O3 -march=native -I EDBATCH -I EDBATCH/src -I EIGEN bench/dynamic/dynet_models.cc
        -L LIBRARY -ldynet -lOoC -o edbatch_models

Its library must be a release build, since an assertion in it does not hold for MV-RNN. It has parts under the GPL: do
not distribute that program.

The option `--program` or the environment variables `DYNET_BENCH` and `EDBATCH_BENCH` say where they are.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.dynamic.cases import CASES, Prepared, prepare
from bench.dynamic.sides import error
from bench.dynamic.structures import Lattice, Leaf, Sentence, Tree
from deploykit.cli.console import results, table
from deploykit.errors import ToolchainError


@dataclass(frozen=True)
class Peer:
    """A library that `dynet_models.cc` can be built against. The environment variable says where the program is."""

    name: str
    variable: str
    strategies: tuple[str, ...]

    def program(self) -> Path | None:
        given = os.environ.get(self.variable)
        return Path(given) if given else None

    def missing(self, program: Path | None = None) -> str | None:
        """Why it cannot take part, or `None` if it can."""
        found = program or self.program()
        if found is not None and os.access(found, os.X_OK):
            return None
        return f"not installed: build it with bench/dynamic/dynet_models.cc, and say where it is in {self.variable}"


DYNET = Peer("DyNet", "DYNET_BENCH", ("none", "agenda", "depth"))
EDBATCH = Peer("ED-Batch", "EDBATCH_BENCH", ("base", "sorted", "max"))
PEERS = {"dynet": DYNET, "edbatch": EDBATCH}


@dataclass(frozen=True)
class Times:
    """The median seconds of making, computing and deleting the graph of a mini-batch."""

    construction: float
    forward: float
    release: float


@dataclass(frozen=True)
class Run:
    """`nodes` is the size of the graph of the mini-batch. `outputs` are those of all structures, flat."""

    times: Times
    nodes: int
    outputs: np.ndarray


def run(
    peer: Peer,
    prepared: Prepared,
    structures: Sequence[Any],
    strategy: str,
    repeat: int = 10,
    clock: str = "wall",
    program: Path | None = None,
) -> Run:
    """Run a mini-batch. Raises `ToolchainError` if the program is missing or fails."""
    reason = peer.missing(program)
    if reason is not None:
        raise ToolchainError(f"{peer.name} is {reason}")
    model = prepared.case.name
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / "weights", folder / "instances", folder / "outputs"]
        files[0].write_bytes(packed(prepared.weights))
        texts = [TEXTS[model](structure) for structure in structures]
        files[1].write_text("".join(f"{text}\n" for text in texts))
        memory = str(_megabytes(model, sum(len(text.split()) for text in texts), prepared.hidden))
        options = ["--strategy", strategy, "--repeat", str(repeat), "--clock", clock, "--memory", memory]
        command = [str(program or peer.program()), model, *map(str, files[:2]), *options, "--dump", str(files[2])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ToolchainError(f"{command[0]} failed with exit code {done.returncode}: {done.stderr.strip()}")
        construction, forward, release, nodes = done.stdout.split()
        outputs = np.fromfile(files[2], np.float32).astype(np.float64)
        times = Times(float(construction) / 1e3, float(forward) / 1e3, float(release) / 1e3)
        return Run(times, int(nodes), outputs)


def packed(weights: Mapping[str, np.ndarray]) -> bytes:
    """The file of weights. The first dim in DyNet is the innermost, so that the bytes of a matrix that vectors meet
    from the left are those of one that they meet from the right."""
    found = b""
    for name, array in weights.items():
        dims = array.shape[::-1]
        found += struct.pack(f"<I{len(name)}sI{len(dims)}I", len(name), name.encode(), len(dims), *dims)
        found += np.ascontiguousarray(array, "<f4").tobytes()
    return found


def _megabytes(model: str, tokens: int, hidden: int) -> int:
    """Memory for the results of all nodes, of which DyNet keeps copies for batches. A step of a model makes fewer than
    64 vectors of the hidden size, or 8 matrices."""
    elements = 64 * hidden + (8 * hidden**2 if model == "mvrnn" else 0)
    return 32 + (tokens * 4 * elements >> 20)


def tree_text(tree: Tree) -> str:
    return str(tree.word) if isinstance(tree, Leaf) else f"{tree_text(tree.left)} {tree_text(tree.right)} +"


def sentence_text(sentence: Sentence) -> str:
    return " ".join(map(str, sentence.words))


def lattice_text(lattice: Lattice) -> str:
    words = (f"{arc.start}:{arc.end}:{arc.label}" for arc in lattice.words)
    return " ".join([*map(str, lattice.characters), "|", *words])


TEXTS: Mapping[str, Callable[[Any], str]] = {
    "tree": tree_text,
    "treegru": tree_text,
    "mvrnn": tree_text,
    "tagger": sentence_text,
    "lattice": lattice_text,
    "latticegru": lattice_text,
}
"""The models that the program has, with what it takes for a structure."""


def main() -> int:
    given = _arguments()
    peer = PEERS[given.peer]
    reason = peer.missing(given.program)
    if reason is not None:
        results.print(f"{peer.name} is {reason}")
        return 1
    strategies = [name for name in peer.strategies if name in (given.strategy or peer.strategies)]
    shown = table("model", ">hidden", ">batch", ">nodes", *(f">{name}" for name in strategies))
    with tempfile.TemporaryDirectory() as folder:
        for name in given.model or TEXTS:
            for hidden in given.hidden or (128,):
                prepared = prepare(CASES[name], hidden, Path(folder))
                for batch in given.batch or (32,):
                    shown.add_row(*_row(peer, prepared, batch, strategies, given))
    results.print(shown)
    return 0


def _row(peer: Peer, prepared: Prepared, batch: int, strategies: Sequence[str], given: argparse.Namespace) -> list[str]:
    structures = prepared.structures(batch)
    expected = prepared.expected(prepared.instances(structures))
    nodes, cells = 0, []
    for strategy in strategies:
        found = run(peer, prepared, structures, strategy, given.repeat, given.clock, given.program)
        difference = error(found.outputs, expected)
        cells.append(f"{found.times.construction * 1e3:.2f} + {found.times.forward * 1e3:.2f} ({difference:.0e})")
        nodes = found.nodes
    return [prepared.case.name, str(prepared.hidden), str(batch), str(nodes), *cells]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.dynamic.dynet", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add: Any = parser.add_argument
    add("--peer", choices=tuple(PEERS), default="dynet", help="default: dynet")
    add("--model", action="append", choices=tuple(TEXTS), help="default: all")
    add("--hidden", type=int, action="append", metavar="N", help="default: 128")
    add("--batch", type=int, action="append", metavar="N", help="default: 32")
    add("--strategy", action="append", choices=(*DYNET.strategies, *EDBATCH.strategies), help="default: all")
    add("--repeat", type=int, default=10, metavar="N", help="runs of each (default: 10)")
    add("--clock", choices=("wall", "cpu"), default="wall", help="cpu: computing time, for a busy machine")
    add("--program", type=Path, metavar="PATH", help="default: the environment variable of the peer")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
