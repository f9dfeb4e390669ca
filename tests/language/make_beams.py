"""Computes the golden of beam searches with transformers: `python -m tests.language.make_beams`.

It needs `pip install torch transformers`. The model is that of `tests.language.models`."""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.frontends.huggingface.seeds import GOLDENS, write_folder

GOLDEN = Path(__file__).with_name("beams.json")

PROMPTS = ([7, 4, 11, 11, 14], [0, 1, 2, 0, 1, 2], [36, 3])
COUNTS = (2, 4)
PENALTIES = (0.0, 1.0, 2.5, -1.0)
ENDS = ([45], [2, 41], [12, 21, 45, 49])


def main() -> None:
    facts = json.loads((GOLDENS / "llama.json").read_text())
    with tempfile.TemporaryDirectory() as place:
        write_folder(Path(place), facts["config"], facts["shapes"])
        model = transformers.LlamaForCausalLM.from_pretrained(place, attn_implementation="eager").eval()
    cases: list[dict[str, Any]] = []
    for prompt, count, penalty, ends in itertools.product(PROMPTS, COUNTS, PENALTIES, ENDS):
        with torch.no_grad():
            found = model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones((1, len(prompt)), dtype=torch.int64),
                num_beams=count,
                num_return_sequences=count,
                max_new_tokens=9,
                length_penalty=penalty,
                early_stopping=False,
                eos_token_id=ends,
                pad_token_id=0,
                do_sample=False,
                output_scores=True,
                return_dict_in_generate=True,
            )
        beams = []
        for tokens, score in zip(found.sequences.tolist(), found.sequences_scores.tolist(), strict=True):
            answer = tokens[len(prompt) :]
            first = next((place for place, token in enumerate(answer) if token in ends), len(answer))
            beams.append({"tokens": answer[:first], "score": round(score, 5), "ended": first < len(answer)})
        cases.append({"prompt": prompt, "count": count, "penalty": penalty, "ends": ends, "beams": beams})
    lines = ",\n".join(json.dumps(case) for case in cases)
    GOLDEN.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
