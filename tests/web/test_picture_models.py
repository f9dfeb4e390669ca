"""Models of pictures in node: pictures have the bits that Python has, and answers are those of sessions in Python."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.pictures import Edges, Filter, Picture, rgb
from deploykit.runtime import JS_MODULES
from deploykit.sessions.tasks.segments import best_classes
from tests.frontends.huggingface.answer_cases import LEAST_SCORE
from tests.frontends.huggingface.match_cases import TEXTS
from tests.frontends.huggingface.picture_cases import pixels as points_of
from tests.frontends.huggingface.test_matches import folder_of as matches_of
from tests.frontends.huggingface.test_matches import require_matches
from tests.frontends.huggingface.test_picture_answers import folder_of
from tests.web.test_ragged import evaluated, in_node
from tests.web.test_types import OPTIONS, check

(FOLDER,) = {path.parent for path in JS_MODULES}

HASHED = """
import {{ createHash }} from 'node:crypto';
import {{ readFileSync }} from 'node:fs';
import {{ prepared }} from '{folder}/pixels.mjs';
const hash = createHash('sha256');
for (const [name, width, height, steps] of JSON.parse(readFileSync('cases.json', 'utf8'))) {{
  const {{ data, shape }} = prepared({{ data: readFileSync(name), width, height }}, steps);
  hash.update(JSON.stringify(shape)).update(Buffer.from(data.buffer));
}}
console.log(hash.digest('hex'));
"""


def pictures(count: int) -> list[tuple[np.ndarray, Picture]]:
    """Pictures of many sizes, and how they are prepared."""
    random, made = np.random.default_rng(0), []
    for number in range(count):
        height, width, *size = (int(n) for n in random.integers(2, 90, 4))
        edges = Edges(size[0], None if number % 3 else size[0] + 20)
        sides: Any = [None, (size[0], size[1]), edges, edges][number % 4]
        pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        pixels = np.where(pixels > 127, 255, 0).astype(np.uint8) if number % 2 else pixels
        crop = (size[1], int(random.integers(1, 90))) if number % 5 > 2 else None
        mean, deviation = (tuple(random.uniform(0.1, 0.9, 3).tolist()) for _ in range(2))
        values = [(None, None, None), (1 / 255, None, None), (1 / 255, mean, deviation)][number % 3]
        by: Filter = "bicubic" if number % 7 > 3 else "bilinear"
        made.append((pixels, Picture(sides, by, crop, *values, bgr=number % 11 > 7)))
    return made


def test_pictures_have_the_same_bits(tmp_path: Path) -> None:
    from hashlib import sha256

    from pydantic import TypeAdapter

    expected, cases = sha256(), []
    for number, (pixels, picture) in enumerate(pictures(150)):
        found = picture.prepared(pixels)[None]
        expected.update(json.dumps(found.shape, separators=(",", ":")).encode() + found.tobytes())
        (tmp_path / f"{number}.bin").write_bytes(pixels.tobytes())
        steps = TypeAdapter(Picture).dump_python(picture, mode="json")
        cases.append((f"{number}.bin", pixels.shape[1], pixels.shape[0], steps))
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    call = ["node", "--input-type=module", "-e", HASHED.format(folder=FOLDER.as_uri())]
    found = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
    assert found.stdout.strip() == expected.hexdigest(), found.stderr


def test_segments_are_the_same() -> None:
    random = np.random.default_rng(0)
    for height, width, shape in ((40, 31, (5, 9, 7)), (3, 4, (300, 2, 9)), (1, 1, (2, 3, 3))):
        scores = random.standard_normal(shape).astype(np.float32)
        program = (
            f"import {{ bestClasses }} from '{FOLDER.as_uri()}/segments.mjs';"
            f"const data = Float32Array.from({scores.reshape(-1).tolist()});"
            f"console.log(JSON.stringify([...bestClasses({{ data, shape: {[1, *shape]} }}, {height}, {width})]));"
        )
        call = ["node", "--input-type=module", "-e", program]
        found = subprocess.run(call, capture_output=True, text=True, check=True, timeout=120).stdout
        assert json.loads(found) == best_classes(scores, (height, width)).reshape(-1).tolist()


def script(method: str, given: np.ndarray, options: str = "") -> str:
    data = f"Uint8ClampedArray.from({given.reshape(-1).tolist()})"
    picture = f"{{ data: {data}, width: {given.shape[1]}, height: {given.shape[0]} }}"
    return f"await model.{method}({picture}{options})"


CALLS = {
    "classify": (r'label: "cat" | "dog";', "classify(picture: Picture, options?: CallOptions): Promise<Label[]>;"),
    "embed": ("embed(pictures: readonly Picture[], options?: CallOptions): Promise<Float32Array[]>;",),
    "detect": ("overlap?: number }): Promise<Detection[]>;", 'label: "LABEL_0" | "LABEL_1";'),
    "segment": ('labels: readonly ("LABEL_0" | "LABEL_1" | "LABEL_2")[];',),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CALLS)
def test_answers(tmp_path: Path, kind: str) -> None:
    folder = folder_of(tmp_path / "model", kind)
    deploykit.build(folder, "webgpu", output=tmp_path / "web")
    deploykit.build(folder, output=tmp_path / "host")
    given = np.random.default_rng(3).integers(0, 256, (31, 22, 4), dtype=np.uint8)
    with deploykit.open(tmp_path / "host") as session:
        options = f", {{ least: {LEAST_SCORE} }}" if kind == "detect" else ""
        found = evaluated(tmp_path / "web", script(kind, given, options))
        match kind:
            case "classify":
                labels = session.classify(given)
                assert [each["label"] for each in found] == [each.name for each in labels]
                np.testing.assert_allclose([x["score"] for x in found], [x.score for x in labels], rtol=1e-4)
            case "embed":
                np.testing.assert_allclose([*found.values()], session.embed(given), atol=1e-4)
            case "detect":
                objects = session.detect(given, LEAST_SCORE)
                assert len(found) == len(objects)
                for one, expected in zip(found, objects, strict=True):
                    assert one.pop("label") == expected.label
                    edges = {name: value for name, value in vars(expected).items() if name != "label"}
                    assert one == pytest.approx(edges, rel=1e-3)
            case "segment":
                assert [*found["classes"].values()] == session.segment(given).classes.reshape(-1).tolist()
    types = (tmp_path / "web" / "index.d.mts").read_text()
    assert all(text in types for text in CALLS[kind])
    if kind == "classify":
        refused(tmp_path / "web")
    typed(tmp_path, kind)


def refused(package: Path) -> None:
    for given in ("'cat.jpg'", "undefined", "{ data: [1, 2], width: 1, height: 1 }", "{ width: 0, height: 3 }"):
        assert in_node(package, f"await model.classify({given})")["error"] == "ShapeError"


def typed(place: Path, kind: str) -> None:
    """A program that calls the method has no type errors."""
    (place / "app.mts").write_text(
        "import { load } from './web/index.mjs';\nconst model = await load();\n"
        "const image = new ImageData(3, 4);\nconst bitmap = await createImageBitmap(image);\n"
        f"const one = await model.{kind}(image);\nconst several = await model.{kind}([bitmap, new Image()]);\n"
        "const first: typeof one = several[0];\n"
    )
    settings = {"compilerOptions": {**OPTIONS, "types": []}, "include": ["app.mts"]}
    (place / "tsconfig.json").write_text(json.dumps(settings))
    assert check(place) == []


def test_pictures_with_transparency_are_on_white() -> None:
    """All values of a point and of its transparency, as in Python."""
    values = np.stack(np.meshgrid(np.arange(256), np.arange(256)), axis=2).astype(np.uint8)
    given = values[:, :, [0, 0, 0, 1]]
    program = (
        f"import {{ pixelsOf }} from '{FOLDER.as_uri()}/canvas.mjs';"
        "const data = Uint8Array.from({ length: 1 << 18 }, (_, n) => (n % 4 === 3 ? n >> 10 : n >> 2));"
        "console.log(JSON.stringify([...pixelsOf({ data, width: 256, height: 256 }).data]));"
    )
    call = ["node", "--input-type=module", "-e", program]
    found = subprocess.run(call, capture_output=True, text=True, check=True, timeout=60).stdout
    assert json.loads(found) == rgb(given).reshape(-1).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_texts_that_fit(tmp_path: Path, name: str) -> None:
    deploykit.build(matches_of(tmp_path / "model", name), "webgpu", output=tmp_path / "web")
    points = points_of(0)
    height, width, _ = points.shape
    picture = f"{{ data: [{', '.join(map(str, points.reshape(-1)))}], width: {width}, height: {height} }}"
    found = evaluated(tmp_path / "web", f"await model.match({picture}, {json.dumps(TEXTS)})")
    require_matches(name, [(each["label"], each["score"]) for each in found])
    for texts in ("'a cat'", "[]", "[1]"):
        assert in_node(tmp_path / "web", f"await model.match({picture}, {texts})")["error"] == "ShapeError"
    assert "match(picture: Picture, texts: readonly string[], options?: CallOptions): Promise<Label[]>;" in (
        (tmp_path / "web" / "index.d.mts").read_text()
    )
