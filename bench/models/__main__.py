"""Writes one of the models to a file."""

from __future__ import annotations

import argparse

import onnx

from bench.models import MODELS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__)
    parser.add_argument("name", choices=sorted(MODELS))
    parser.add_argument("file")
    arguments = parser.parse_args()
    onnx.save(MODELS[arguments.name](), arguments.file)


main()
