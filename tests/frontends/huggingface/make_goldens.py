"""Computes the goldens with transformers: `python -m tests.frontends.huggingface.make_goldens [CASE...]`.

It needs `pip install torch transformers pillow`. A golden has the configuration, the shapes of the weights, and the
results of transformers, in eager mode unless a case says otherwise, with weights from seeds. Texts are stored, too;
other inputs are from seeds.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image, ImageOps
from safetensors import safe_open
from transformers import pipeline
from transformers.image_transforms import convert_to_rgb

from tests.frontends.huggingface import sound_cases
from tests.frontends.huggingface.answer_cases import ANSWER_CASES, LEAST_SCORE, MAP_SIZES, maps, objects, write_pictures
from tests.frontends.huggingface.array_cases import ARRAY_CASES, ArrayCase
from tests.frontends.huggingface.cases import CASES, SIZES, Case
from tests.frontends.huggingface.mask_cases import COUNT, MASK_CASES, pieces
from tests.frontends.huggingface.match_cases import MATCH_CASES, SETTINGS, TEXTS, ending
from tests.frontends.huggingface.picture_cases import PICTURE_CASES, pixels
from tests.frontends.huggingface.picture_cases import SIZES as PICTURE_SIZES
from tests.frontends.huggingface.seeds import GOLDENS, write_folder
from tests.frontends.huggingface.sound_cases import LENGTHS, TOKENIZERS, numbers, sound

PICTURES, ANSWERS, SOUNDS, MASKS, MATCHES = "pictures", "answers", "sounds", "masks", "matches"
"""The names of the goldens of image processors and of pipelines, among those of models."""


def make(name: str, case: Case | ArrayCase) -> None:
    torch.manual_seed(0)
    kind = getattr(importlib.import_module(case.module), case.architecture)
    attention = case.attention if isinstance(case, Case) else "eager"
    config = kind.config_class(**case.settings, attn_implementation=attention)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        kind(config).save_pretrained(folder)
        entries = json.loads((folder / "config.json").read_text())
        with safe_open(folder / "model.safetensors", "np") as file:
            shapes = {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118 - not a mapping
        write_folder(folder, entries, shapes)
        model = kind.from_pretrained(folder, attn_implementation=attention).eval()
    facts = {"config": entries, "shapes": shapes}
    processor = None
    if isinstance(case, ArrayCase) and case.processor is not None:
        processor = transformers.WhisperFeatureExtractor(**case.processor)
        facts["preprocessor"] = {key: value for key, value in processor.to_dict().items() if key != "mel_filters"}
    arrays: dict[str, np.ndarray] = {}
    for index in range(len(SIZES)):
        inputs = text(case, *SIZES[index], model) if isinstance(case, Case) else case.inputs(index)
        with torch.no_grad():
            if processor is not None:
                heard = processor([*inputs["samples"]], sampling_rate=16000, return_tensors="np")
                inputs = {"input_features": heard["input_features"]}
            given = {key: torch.from_numpy(value) for key, value in inputs.items()}
            if "encoder_last_hidden_state" in case.outputs and "input_features" in given:
                given["decoder_input_ids"] = torch.zeros((len(given["input_features"]), 1), dtype=torch.int64)
            results = model(**given)
        if isinstance(case, Case):
            arrays |= {f"{index}/in/{key}": value for key, value in inputs.items()}
        arrays |= {f"{index}/out/{key}": results[key].numpy() for key in case.outputs}
    GOLDENS.mkdir(exist_ok=True)
    (GOLDENS / f"{name}.json").write_text(json.dumps(facts, sort_keys=True) + "\n")
    np.savez_compressed(GOLDENS / f"{name}.npz", **arrays)
    print(f"{name}: {sum(value.nbytes for value in arrays.values())} bytes of inputs and results")


def text(case: Case, batch: int, length: int, model: torch.nn.Module) -> dict[str, np.ndarray]:
    """A padded batch. No token is the padding token, so that families which look for it agree with the mask."""
    random = np.random.default_rng(length)
    padding = getattr(model.config, "pad_token_id", None) or 0
    ids = random.integers(2 + padding, case.settings.get("vocab_size", 50), (batch, length))
    lengths = np.array([length, *random.integers(1, length + 1, batch - 1)])
    mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
    inputs = {"input_ids": np.where(mask, ids, padding), "attention_mask": mask}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = (np.arange(length) >= lengths[:, None] // 2).astype(np.int64) * mask
    return inputs


def make_pictures() -> None:
    """What transformers' image processors make of pictures."""
    entries, results = {}, {}
    for name, (processor, settings) in PICTURE_CASES.items():
        made = getattr(transformers, f"{processor}Pil")(**settings)
        entries[name] = json.loads(made.to_json_string())
        for number in range(len(PICTURE_SIZES)):
            found = made(Image.fromarray(pixels(number)), return_tensors="np")["pixel_values"][0]
            results[f"{name}/{number}"] = np.asarray(found, np.float32)
    (GOLDENS / "pictures.json").write_text(json.dumps(entries, sort_keys=True) + "\n")
    np.savez_compressed(GOLDENS / "pictures.npz", **results)


def make_answers() -> None:
    """What transformers' pipelines say of pictures."""
    results: dict[str, Any] = {}
    for name, case in ANSWER_CASES.items():
        facts = json.loads((GOLDENS / f"{case.golden}.json").read_text())
        processor = getattr(transformers, f"{case.processor}Pil")(**case.entries)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            write_folder(folder, facts["config"] | dict(case.settings), facts["shapes"])
            model = getattr(transformers, facts["config"]["architectures"][0]).from_pretrained(folder).eval()
            answers = [answer(name.partition("-")[0], model, processor, path) for path in write_pictures(folder)]
        results[name] = {"preprocessor": json.loads(processor.to_json_string()), "answers": answers}
    logits, places = map(torch.from_numpy, objects())
    results["objects"] = boxes(SimpleNamespace(logits=logits, pred_boxes=places), (30, 40))
    results["maps"] = [segments(torch.from_numpy(maps()), *size) for size in MAP_SIZES]
    (GOLDENS / "answers.json").write_text(json.dumps(results, sort_keys=True) + "\n")


def answer(kind: str, model: Any, processor: Any, path: Path) -> Any:
    picture = convert_to_rgb(ImageOps.exif_transpose(Image.open(path)))
    if kind == "classify":
        return pipeline("image-classification", model, image_processor=processor)(picture)
    if kind == "embed":
        return pipeline("image-feature-extraction", model, image_processor=processor, pool=True)(picture)[0]
    with torch.no_grad():
        results = model(**processor(picture, return_tensors="pt"))
    return segments(results.logits, *picture.size[::-1]) if kind == "segment" else boxes(results, picture.size[::-1])


def boxes(results: Any, size: tuple[int, int]) -> dict[str, Any]:
    (found,) = transformers.DetrImageProcessorPil().post_process_object_detection(results, LEAST_SCORE, [size])
    return {key: value.tolist() for key, value in found.items()}


def segments(logits: torch.Tensor, *size: int) -> Any:
    results = SimpleNamespace(logits=logits)
    return transformers.SegformerImageProcessorPil().post_process_semantic_segmentation(results, [size])[0].tolist()


def make_sounds() -> None:
    """What transformers' pipelines hear, and what its tokenizers make of letters."""
    results: dict[str, Any] = {}
    facts = json.loads((GOLDENS / "wav2vec2-letters.json").read_text())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        sound_cases.write_folder(folder, facts["config"], facts["shapes"])
        model = transformers.Wav2Vec2ForCTC.from_pretrained(folder).eval()
        for name, settings in TOKENIZERS.items():
            tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"), **settings)
            results[name] = [tokenizer.decode(each) for each in numbers()]
        tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
        extractor = transformers.Wav2Vec2FeatureExtractor()
        hear = pipeline("automatic-speech-recognition", model, tokenizer=tokenizer, feature_extractor=extractor)
        results["heard"] = [hear(sound(length))["text"] for length in LENGTHS]
    (GOLDENS / "sounds.json").write_text(json.dumps(results, sort_keys=True) + "\n")


def make_masks() -> None:
    """What transformers' pipeline fills in: for each text and each mask, tokens with their scores."""
    results: dict[str, Any] = {}
    for name, case in MASK_CASES.items():
        facts = json.loads((GOLDENS / f"{name}.json").read_text())
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            write_folder(folder, facts["config"], facts["shapes"])
            model = getattr(transformers, facts["config"]["architectures"][0]).from_pretrained(folder).eval()
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=case.tokenizer(), mask_token=case.mask)
        fill = pipeline("fill-mask", model, tokenizer=tokenizer, top_k=COUNT)
        found = [fill(text) for text in case.texts]
        # Of a text with one mask, the pipeline gives no list of masks.
        masks = [each if isinstance(each[0], list) else [each] for each in found]
        results[name] = [[[(t["token_str"], t["score"]) for t in tokens] for tokens in each] for each in masks]
    (GOLDENS / "masks.json").write_text(json.dumps(results, sort_keys=True) + "\n")


def make_matches() -> None:
    """How well transformers finds that texts fit a picture."""
    results: dict[str, Any] = {}
    for name, case in MATCH_CASES.items():
        facts = json.loads((GOLDENS / f"{name}.json").read_text())
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces(), **SETTINGS)
        processor = getattr(transformers, case.processor)(**case.entries)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            write_folder(folder, ending(facts["config"]), facts["shapes"])
            model = getattr(transformers, facts["config"]["architectures"][0]).from_pretrained(folder).eval()
            picture = Image.open(write_pictures(folder)[0])
            texts = tokenizer(list(TEXTS), padding=case.padding, return_tensors="pt")
            inputs = {key: texts[key] for key in case.inputs} | dict(processor(picture, return_tensors="pt"))
        with torch.no_grad():
            (logits,) = model(**inputs).logits_per_image
        scores = logits.sigmoid() if name == "siglip" else logits.softmax(-1)
        answer = sorted(zip(TEXTS, scores.tolist(), strict=True), key=lambda pair: -pair[1])
        results[name] = {"preprocessor": json.loads(processor.to_json_string()), "answer": answer}
    (GOLDENS / "matches.json").write_text(json.dumps(results, sort_keys=True) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or (*CASES, *ARRAY_CASES, PICTURES, ANSWERS, SOUNDS, MASKS, MATCHES):
        if name == PICTURES:
            make_pictures()
        elif name == ANSWERS:
            make_answers()
        elif name == SOUNDS:
            make_sounds()
        elif name == MASKS:
            make_masks()
        elif name == MATCHES:
            make_matches()
        else:
            make(name, {**CASES, **ARRAY_CASES}[name])
