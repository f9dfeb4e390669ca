"""Pictures of a page as inputs of any model: `model.picture` makes the tensors that Pillow and NumPy make."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

import deploykit
from bench.browser import find_chromium, in_chromium
from deploykit.compiler.model import Port
from deploykit.compiler.operators.building.context import Context, Site
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from deploykit.compiler.operators.layout import transpose
from deploykit.pictures import centre
from tests.web.test_types import complaints
from tests.web.tools import run

MODEL = """<ir_version: 9, opset_import: ["": 20]>
pictures (float[n, 3, h, w] a, uint8[m, 8, 12, 3] b, float16[1, 3, 8, 12] c, float[k, 1, 8, 12] d, float[p, q, r, s] e)
=> (float[n, 3, h, w] na, int32[m, 8, 12, 3] nb, float16[1, 3, 8, 12] nc, float[k, 1, 8, 12] nd, float[p, q, r, s] ne) {
    na = Neg(a)  ib = Cast<to = 6>(b)  nb = Neg(ib)  nc = Neg(c)  nd = Neg(d)  ne = Neg(e)
}"""
MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("any") / "model"
    deploykit.build(onnx.parser.parse_model(MODEL), "webgpu", output=folder)
    return folder


def tensor(found: dict[str, Any]) -> np.ndarray:
    data = np.array(found["data"])
    bits = found["kind"] == "Uint16Array"
    return np.reshape(data.astype(np.uint16).view(np.float16) if bits else data, found["shape"])


def scaled(pixels: np.ndarray, width: int, height: int, filter_: Image.Resampling = Image.Resampling.BILINEAR) -> Any:
    """The picture with values in 0..1, as float32 (3, height, width)."""
    small = np.asarray(Image.fromarray(pixels).resize((width, height), filter_))
    return (small * (1 / 255)).astype(np.float32).transpose(2, 0, 1)


@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
@pytest.mark.parametrize("query", ["", "?worker"])
def test_pictures_of_a_page(package: Path, tmp_path: Path, query: str) -> None:
    shutil.copytree(package, tmp_path / "model")
    shutil.copyfile(Path(__file__).with_name("any_pictures.html"), tmp_path / "page.html")
    pixels = np.random.default_rng(0).integers(0, 256, (18, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "plain.png")
    smooth = np.stack([np.linspace(20, 230, 18 * 24).reshape(18, 24)] * 3, axis=2).astype(np.uint8)
    Image.fromarray(smooth).save(tmp_path / "smooth.png")
    found = in_chromium(tmp_path, f"page.html{query}")
    assert "error" not in found, found["error"]
    small = scaled(pixels, 12, 8)
    for name, each in found["sources"].items():
        within = 2 / 255 if name == "frame" else 1e-6
        np.testing.assert_allclose(tensor(each)[0], small, rtol=0, atol=within, err_msg=name)
    assert len(found["sources"]) == 7
    options = {name: tensor(each) for name, each in found["options"].items()}

    def same(name: str, expected: np.ndarray, atol: float = 1e-6) -> None:
        np.testing.assert_allclose(options[name], expected[None], rtol=1e-6, atol=atol, err_msg=name)

    normal = (small - MEAN[:, None, None]) / STD[:, None, None]
    same("own", scaled(pixels, 24, 18))
    same("normal", normal)
    same("scaled", 2 * scaled(pixels, 5, 20, Image.Resampling.BICUBIC)[::-1] - 1)
    covering = np.asarray(Image.fromarray(pixels).resize((13, 10), Image.Resampling.BILINEAR))
    fitting = np.asarray(Image.fromarray(pixels).resize((10, 8), Image.Resampling.BILINEAR))
    for name, picture in (("cover", covering), ("contain", fitting)):
        same(name, scaled(centre(picture, (10, 10)), 10, 10))
    bytes_ = np.asarray(Image.fromarray(pixels).resize((12, 8), Image.Resampling.BILINEAR))
    same("bytes", bytes_, 0)
    np.testing.assert_array_equal(options["half"][0], normal.astype(np.float16))
    grey = np.asarray(Image.fromarray(pixels).convert("L").resize((12, 8), Image.Resampling.BILINEAR))
    same("grey", (grey * (1 / 255)).astype(np.float32)[None])
    tiny = scaled(pixels, 4, 3)
    same("first", tiny)
    same("last", tiny.transpose(1, 2, 0))
    np.testing.assert_array_equal(tensor(found["batch"]), np.stack([bytes_, bytes_]))
    kinds = [found["options"][name]["kind"] for name in ("own", "bytes", "half")]
    assert kinds == ["Float32Array", "Uint8Array", "Uint16Array"]
    results = {name: -tensor(each).astype(np.float32) for name, each in found["results"].items()}
    for name, given in {"na": "normal", "nb": "bytes", "nc": "half", "nd": "grey", "ne": "last"}.items():
        np.testing.assert_array_equal(results[name], options[given].astype(np.float32), err_msg=name)
    # What the browser resizes differs, but not by much, and is black at the same places.
    for fit in ("fill", "cover", "contain"):
        ours, theirs = options[f"{fit}-bilinear"], options[f"{fit}-canvas"]
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=0.05, err_msg=fit)
        np.testing.assert_array_equal(theirs == 0, ours == 0)
    assert found["ms"]["canvas"] < found["ms"]["bilinear"]
    check_refused(found["refused"])


def check_refused(refused: dict[str, str]) -> None:
    taken = "UsageError: the inputs that take pictures are 'a', 'b', 'c', 'd', 'e'"
    assert refused["several"] == f"{taken}: pass the name of one as input"
    assert refused["input"].startswith(f"{taken}: such an input has four axes")
    assert refused["layout"] == "UsageError: input 'e' is [p, q, r, s]: pass layout 'NCHW' or 'NHWC'"
    assert refused["option"] == "UsageError: picture has no option 'means': did you mean 'mean'?"
    assert refused["fit"] == "UsageError: fit must be one of fill, cover, contain, found 'stretch'"
    assert refused["mean"] == "UsageError: mean must be a number, or one for each of 3 channels, found [1,2]"
    assert refused["size"] == "ShapeError: input 'a': width must be a whole number of at least 1, found 0"
    sizes = "ShapeError: the pictures have several sizes, and a tensor has one: pass width and height"
    assert refused["sizes"] == sizes
    assert refused["none"].startswith("ShapeError: input 'a': width must be a whole number")
    for name in {"empty", "closed"} & set(refused):
        assert refused[name].startswith("ShapeError: a picture is an image that is loaded"), name
    assert refused["points"].startswith("UsageError: the filter 'canvas' is for what a canvas draws")


def test_points_in_node(package: Path) -> None:
    program = f"""
    import {{ load }} from '{package.as_uri()}/index.mjs';
    const model = await load({{ threads: 1 }});
    const data = Uint8Array.from({{ length: 96 }}, (_, at) => at);
    const {{ data: found }} = await model.picture({{ data, width: 12, height: 8 }}, {{ input: 'd' }});
    console.log(JSON.stringify(Array.from(found, (value) => Math.round(value * 255))));
    """
    result = run("node", "--input-type=module", "-e", program, folder=package)
    assert (json.loads(result.stdout), result.stderr) == (list(range(96)), "")


TYPED = """import { load } from './small/index.mjs';
const { seen, counted } = (await load()).functions;
const image = await seen.picture({ data: new Uint8Array(32), width: 4, height: 8 });
const { turned } = await seen.run({ image });
console.log(turned.shape, image.data.length);
%s
"""


def test_functions_that_take_pictures(tmp_path: Path) -> None:
    builder = ModelBuilder("two")
    batch = builder.dim("batch", 1, 4)

    def seen(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        ctx.site = Site("seen", "seen")
        return {"turned": transpose(ctx, given["image"], [0, 2, 1, 3])}, {}

    def counted(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        ctx.site = Site("counted", "counted")
        return {"turned": transpose(ctx, given["rows"], [1, 0])}, {}

    builder.function("seen", [Port("image", "uint8", (batch, 8, 4, 1))], seen)
    builder.function("counted", [Port("rows", "float32", (batch, 3))], counted)
    deploykit.build(builder.model(), "webgpu", output=tmp_path / "small")
    assert "`model.functions.seen.picture(canvas, options)`" in (tmp_path / "small" / "README.md").read_text()
    assert complaints(tmp_path, TYPED % "") == []
    (complaint,) = complaints(tmp_path, TYPED % "counted.picture(new Image());")
    assert "'picture' does not exist" in complaint
    program = (TYPED % "").replace("new Uint8Array(32)", "Uint8Array.from(Array(32).keys())")
    program = program.replace("console.log(", "console.log(Array.from(turned.data).join(), ")
    result = run("node", "--input-type=module", "-e", program, folder=tmp_path)
    rows = np.arange(32).reshape(8, 4).transpose(1, 0)
    assert result.stdout.split()[0] == ",".join(map(str, rows.ravel())), result.stderr
