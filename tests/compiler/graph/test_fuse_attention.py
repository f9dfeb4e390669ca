"""Attention in graphs becomes one kernel without a matrix of scores, with the values of the unfused graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import ml_dtypes
import numpy as np
import onnx
import pytest
from tvm import tirx

import deploykit
from deploykit.compiler.schedules import DEVICES, Device, explain
from deploykit.pipeline import graph, kernels
from deploykit.targets.webgpu.devices import WASM_SIMD128
from tests.frontends.onnx.harness import numbers, parse

HEADS = 3
SPLIT = f"""
    parts = Constant<value_ints = [0, 0, {HEADS}, -1]>()  c = Constant<value_float = 0.3>()
    least = Constant<value_float = -3.4e38>()  whole = Constant<value_ints = [0, 0, -1]>()
    q4 = Reshape(q, parts)  k4 = Reshape(k, parts)  v4 = Reshape(v, parts)
    Q = Transpose<perm = [0, 2, 1, 3]>(q4)
    K = Transpose<perm = [0, 2, 3, 1]>(k4)  V = Transpose<perm = [0, 2, 1, 3]>(v4)
"""

FORMS = {
    "plain": "p_ = MatMul(Q, K)  s_ = Div(p_, c)",
    "scaled": "q_ = Mul(Q, c)  k_ = Mul(K, c)  s_ = MatMul(q_, k_)",
    "keys": "p_ = MatMul(Q, K)  r_ = Mul(p_, c)  s_ = Add(r_, m1)",
    "mask": "p_ = MatMul(Q, K)  r_ = Mul(p_, c)  s_ = Add(m2, r_)",
    "capped": "p_ = MatMul(Q, K)  r_ = Tanh(p_)  t_ = Mul(r_, c)  s_ = Add(t_, m2)",
    "chosen": "p_ = MatMul(Q, K)  s_ = Where(n, p_, least)",
}
"""Graphs from queries, transposed keys and masks to scores."""

MASKS = ", float[b, 1, 1, t] m1, float[s, t] m2, bool[s, t] n"

Feeds = dict[str, np.ndarray]


def model_of(size: int, *forms: str) -> onnx.ModelProto:
    """One output for each form."""
    width = HEADS * size
    text = SPLIT
    for form in forms:
        text += (
            f"""{FORMS[form]}  w_ = Softmax<axis = -1>(s_)  o_ = MatMul(w_, V)
            x_ = Transpose<perm = [0, 2, 1, 3]>(o_)  {form} = Reshape(x_, whole) """.replace("_ ", f"_{form} ")
            .replace("_)", f"_{form})")
            .replace("_,", f"_{form},")
        )
    inputs = f"float[b, s, {width}] q, float[b, t, {width}] k, float[b, t, {width}] v{MASKS}"
    outputs = ", ".join(f"float[b, s, {width}] {form}" for form in forms)
    return parse(f"({inputs}) => ({outputs}) {{ {text} }}")


def feeds_of(size: int, batch: int, rows: int, keys: int) -> Feeds:
    width = HEADS * size
    shapes = {"q": (batch, rows, width), "k": (batch, keys, width), "v": (batch, keys, width)}
    shapes |= {"m1": (batch, 1, 1, keys), "m2": (rows, keys), "n": (rows, keys)}
    feeds = {name: numbers(*shape, seed=seed) / 4 for seed, (name, shape) in enumerate(shapes.items())}
    return {**feeds, "n": feeds["n"] > 0}


def expected(form: str, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    """The result in double precision."""
    q, k, v = (
        feeds[name].astype("float64").reshape(*feeds[name].shape[:2], HEADS, -1).transpose(0, 2, 1, 3) for name in "qkv"
    )
    p, c = q @ k.transpose(0, 1, 3, 2), np.float32(0.3)
    s = {
        "plain": lambda: p / c,
        "scaled": lambda: p * c * c,
        "keys": lambda: p * c + feeds["m1"],
        "mask": lambda: p * c + feeds["m2"],
        "capped": lambda: np.tanh(p) * c + feeds["m2"],
        "chosen": lambda: np.where(feeds["n"], p, np.float32(-3.4e38)),
    }[form]()
    with np.errstate(invalid="ignore"):
        powers = np.exp(s - s.max(-1, keepdims=True))
    mixed = powers / powers.sum(-1, keepdims=True) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(feeds["q"].shape)


def compare(session: deploykit.Session, size: int, sizes: Sequence[tuple[int, int, int]]) -> None:
    for shape in sizes:
        feeds = feeds_of(size, *shape)
        for form, got in session.run(feeds).items():
            np.testing.assert_allclose(got, expected(form, feeds), rtol=2e-5, atol=1e-5, err_msg=f"{form} {shape}")


def names(model: onnx.ModelProto, device: Device) -> list[str]:
    """The names of a model's kernels, except copies."""
    module = kernels(graph(deploykit.load(model), device), device).module
    return [name.name_hint for name, func in module.functions.items() if isinstance(func, tirx.PrimFunc)]


precisions = pytest.mark.parametrize("precision", ["float32", "bf16"])
"""With AMX, the second one multiplies rounded factors. Else both are the same."""


def rounded(feeds: Mapping[str, np.ndarray], precision: str) -> Feeds:
    """Queries, keys and values that are not changed when a product rounds them."""
    if precision == "float32":
        return dict(feeds)
    return {n: x.astype(ml_dtypes.bfloat16).astype(np.float32) if n in "qkv" else x for n, x in feeds.items()}


def near(found: np.ndarray, wanted: np.ndarray, values: np.ndarray, precision: str) -> None:
    """Powers are rounded, too, in bfloat16: each term has an error of up to 2^-9 of the value."""
    error = 1e-5 if precision == "float32" else 2.0**-8 * float(np.nanmax(np.abs(values)))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=error)


SIZES = [(1, 1, 1), (2, 3, 9), (1, 16, 16), (2, 37, 70), (1, 1, 130), (1, 70, 131)]
"""Numbers of batches, query rows and keys: around the widths of vectors, tiles and blocks."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpu", "forms"), [("native", FORMS), ("x86-64-v2", ("scaled", "chosen")), ("x86-64-v3", ("mask",))]
)
def test_forms_on_host(cpu: str, forms: Iterable[str], tmp_path: Path) -> None:
    model = model_of(20, *forms)
    kinds = {name.rstrip("0123456789") for name in names(model, DEVICES["x86-64-v3"])}
    assert kinds == {"attention"}
    deploykit.build(model, output=tmp_path / "d", cpu=cpu)
    with deploykit.open(tmp_path / "d") as session:
        compare(session, 20, SIZES)


def test_forms_in_c(tmp_path: Path) -> None:
    bounds = {"b": (1, 2), "s": (1, 64), "t": (1, 128)}
    model = model_of(5, "scaled", "mask")
    deploykit.build(model, target="embedded", dims=bounds, output=tmp_path / "d")
    with deploykit.open(tmp_path / "d") as session:
        compare(session, 5, SIZES[:4])


@precisions
@pytest.mark.parametrize("size", [1, 7, 32, 80, 256])
def test_head_sizes(size: int, precision: Literal["float32", "bf16"], tmp_path: Path) -> None:
    forms = [form for form in FORMS if form != "scaled"] if precision == "bf16" else ["mask"]
    deploykit.build(model_of(size, *forms), output=tmp_path / "d", precision=precision, check=False)
    with deploykit.open(tmp_path / "d") as session:
        for shape in (*SIZES[1:], (1, 33, 64)):
            feeds = rounded(feeds_of(size, *shape), precision)
            for form, got in session.run(feeds).items():
                near(got, expected(form, feeds), feeds["v"], precision)


@precisions
def test_special_values(precision: Literal["float32", "bf16"], tmp_path: Path) -> None:
    """A NaN in a query, a key or a value is in the same results as in float64."""
    deploykit.build(model_of(16, "mask"), output=tmp_path / "d", precision=precision, check=False)
    with deploykit.open(tmp_path / "d") as session:
        for name, value in itertools.product("qkv", (np.nan, np.inf)):
            feeds = rounded(feeds_of(16, 1, 20, 70), precision)
            feeds[name][0, 3, 5] = value
            with np.errstate(invalid="ignore"):
                wanted = expected("mask", feeds)
            near(session.run(feeds)["mask"], wanted, np.where(np.isfinite(feeds["v"]), feeds["v"], 0), precision)


@precisions
def test_closed_keys(precision: Literal["float32", "bf16"], tmp_path: Path) -> None:
    """Masked keys: rows with every other key masked, with all but the last keys masked, and with all keys masked."""
    deploykit.build(model_of(8, "mask"), output=tmp_path / "d", precision=precision, check=False)
    with deploykit.open(tmp_path / "d") as session:
        for rows, closed in itertools.product((2, 40), (-np.inf, np.finfo("float32").min)):
            feeds = rounded(feeds_of(8, 1, rows, 150), precision)
            feeds["m2"][:, ::2] = closed
            feeds["m2"][0, :140] = closed
            feeds["m2"][1] = closed
            wanted = expected("mask", {**feeds, "m2": feeds["m2"].astype("float64")})
            if np.isfinite(closed):
                wanted[0, 1] = feeds["v"][0].mean(0)
            near(session.run(feeds)["mask"], wanted, feeds["v"], precision)


@precisions
def test_keys_that_lie_transposed(precision: Literal["float32", "bf16"], tmp_path: Path) -> None:
    text = f"""(float[b, {HEADS}, s, 24] q, float[b, {HEADS}, 24, t] k, float[b, {HEADS}, t, 8] v) =>
        (float[b, {HEADS}, s, 8] o) {{ s0 = MatMul(q, k) w = Softmax<axis = -1>(s0)  o = MatMul(w, v) }}"""
    deploykit.build(parse(text), output=tmp_path / "d", precision=precision, check=False)
    with deploykit.open(tmp_path / "d") as session:
        for batch, rows, keys in SIZES:
            shapes = {"q": (rows, 24), "k": (24, keys), "v": (keys, 8)}
            feeds = rounded({name: numbers(batch, HEADS, *n) / 4 for name, n in shapes.items()}, precision)
            q, k, v = feeds.values()
            powers = np.exp((q @ k).astype("float64"))
            wanted = powers / powers.sum(-1, keepdims=True) @ v
            near(session.run(feeds)["o"], wanted, v, precision)


def test_no_memory_for_scores(tmp_path: Path) -> None:
    artifact = deploykit.build(model_of(32, "mask"), output=tmp_path / "d", dims={"b": (1, 2)})
    assert artifact is not None
    formula = artifact.manifest.peak_memory.formula
    assert "s*t" not in formula
    assert "t*s" not in formula


def test_weights_that_are_used_stay_apart() -> None:
    text = """(float[b, s, 8] q, float[b, 8, t] k, float[b, t, 8] v) => (float[b, s, 8] o, float[b, s, t] w)
        { s = MatMul(q, k)  w = Softmax<axis = -1>(s)  o = MatMul(w, v) }"""
    assert not any("attention" in name for name in names(parse(text), DEVICES["x86-64-v3"]))


@pytest.mark.parametrize("device", [*DEVICES.values(), WASM_SIMD128], ids=lambda device: device.name)
def test_the_rule_takes_it(device: Device) -> None:
    module = graph(deploykit.load(model_of(32, "mask")), device)
    (kernel,) = [f for name, f in module.functions.items() if name.name_hint.startswith("attention")]
    assert list(map(str, explain(kernel, device))) == ["add: attention"]
