"""Crates for Rust: two in one program, all dtypes, and calls that are refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.errors import UsageError
from tests.forms.conftest import Pair
from tests.frontends.onnx.harness import parse
from tests.frontends.running_mean import running_mean, weights
from tests.runtime.two_models import printed


@cache
def reason() -> str | None:
    """Why crates are not built here."""
    if not shutil.which("cargo"):
        return "needs cargo"
    found = subprocess.run(["cargo", "info", "--quiet", "cc"], check=False, capture_output=True)
    return "needs the crate cc" if found.returncode else None


needs_cargo = pytest.mark.skipif("reason() is not None", reason="needs cargo and the crate cc")


Built = Callable[..., Path]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Builds a program that depends on crates, which `deploykit.build` wrote; what they depend on is compiled once."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(tmp_path_factory.mktemp("target"))}

    def build(place: Path, main: str, *crates: Path, options: tuple[str, ...] = ()) -> Path:
        (place / "src").mkdir(parents=True)
        (place / "src" / "main.rs").write_text(f"#![deny(warnings)]\n{main}")
        lines = ["[package]", 'name = "app"', 'version = "0.1.0"', 'edition = "2021"', "[dependencies]"]
        lines += [f'{crate.name} = {{ path = "{crate}" }}' for crate in crates]
        (place / "Cargo.toml").write_text("\n".join([*lines, "[workspace]", ""]))
        call = ["cargo", "build", "--quiet", *options]
        made = subprocess.run(call, cwd=place, env=environment, check=False, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        assert "warning" not in made.stderr
        return shutil.copy(Path(environment["CARGO_TARGET_DIR"]) / "debug" / "app", place / "program")

    return build


TWO = """
static mut FIRST: tanh_net::Memory = tanh_net::Memory::new();

fn main() {
    let x = [1., 2., 3., 4., 5., 6., 7., 8., -1., -2., -3., -4., -5., -6., -7., -8.];
    let (mut y, mut z) = ([0f32; 6], [0f32; 7]);
    #[allow(static_mut_refs)]
    let mut first = tanh_net::Model::new(unsafe { &mut FIRST }).unwrap();
    let mut memory = Box::new(sine_net::Memory::new());
    let mut second = sine_net::Model::new(&mut memory).unwrap();
    let shapes = first.run(tanh_net::Tensor::new(&x, [2, 8]), &mut y).unwrap();
    assert_eq!(shapes.y, [2, 3]);
    let shapes = second.run(sine_net::Tensor::new(&x[..8], [1, 8]), &mut z).unwrap();
    assert_eq!(shapes, sine_net::Shapes { y: [1, 3] });
    second.run(sine_net::Tensor::new(&x, [2, 8]), &mut z).unwrap();
    for (a, b) in y.iter().zip(z) {
        println!("{a} {b}");
    }
}
"""


@needs_cargo
@pytest.mark.slow
def test_two_crates_in_one_program(built: Built, pair: Callable[[str], Pair], tmp_path: Path) -> None:
    both = pair("rust")
    program = built(tmp_path / "app", TWO, *both.places)
    np.testing.assert_allclose(printed(program), both.expected, rtol=1e-5, atol=1e-6)


REFUSED = """
use tanh_net::{Error, Memory, Model, Status, Tensor};

fn main() {
    let mut memory = Box::new(Memory::new());
    let mut model = Model::new(&mut memory).unwrap();
    let (x, mut y) = ([1f32; 24], [0f32; 6]);
    let cases: [(Tensor<f32, 2>, usize); 6] = [
        (Tensor::new(&x[..16], [2, 8]), 6),
        (Tensor::new(&x[..21], [3, 7]), 6),
        (Tensor::new(&x, [3, 8]), 6),
        (Tensor::new(&x[..15], [2, 8]), 6),
        (Tensor::new(&x[..8], [usize::MAX, 8]), 6),
        (Tensor::new(&x[..16], [2, 8]), 5),
    ];
    for (input, room) in cases {
        match model.run(input, &mut y[..room]) {
            Ok(shapes) => println!("{:?}", shapes.y),
            Err(Error(status)) => println!("{status:?} {}", model.last_error()),
        }
    }
    assert_eq!(Error(Status::Shape).to_string(), "the model failed: Shape");
}
"""


@needs_cargo
@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--features", "tanh_net/no-error-text,tanh_net/contract")])
def test_wrong_calls_are_refused(
    options: tuple[str, ...], built: Built, pair: Callable[[str], Pair], tmp_path: Path
) -> None:
    """With a text of the error, if there are texts."""
    program = built(tmp_path / "app", REFUSED, pair("rust").places[0], options=options)
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    statuses = [line.split(" ", 1)[0] if line[0] != "[" else line for line in lines]
    assert statuses == ["[2, 3]", "Shape", "Shape", "Buffer", "Shape", "Capacity"]
    texts = [line.partition(" ")[2] for line in lines[1:]]
    if options:
        assert not any(texts)
    else:
        assert all("'x'" in text or "'y'" in text for text in texts)


DTYPES = """(
    float[n] self, double[n] Fn, float16[n] half, bfloat16[n] brain, int8[n] i, int16[n] j, int32[n] k, int64[n] l,
    uint8[n] shape, uint16[n] model, uint32[n] inputs, uint64[n] q, bool[n] r, float scalar) => (
    float[n] a, double[n] b, float16[n] c, bfloat16[n] d, int8[n] e, int16[n] f, int32[n] g, int64[n] h,
    uint8[n] s, uint16[n] t, uint32[n] u, uint64[n] v, bool[n] w, float z) {
    a = Identity(self)  b = Identity(Fn)  c = Identity(half)  d = Identity(brain)  e = Identity(i)  f = Identity(j)
    g = Identity(k)  h = Identity(l)  s = Identity(shape)  t = Identity(model)  u = Identity(inputs)  v = Identity(q)
    w = Identity(r)  z = Identity(scalar) }"""
TYPES = ["f32", "f64", "u16", "u16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "u8", "f32"]


@needs_cargo
@pytest.mark.slow
def test_every_dtype_has_a_type(built: Built, tmp_path: Path) -> None:
    """Also where names of inputs are words of Rust, or of the crate."""
    deploykit.build(parse(DTYPES), "embedded", {"n": (1, 4)}, tmp_path / "all_types", format="rust", name="all_types")
    counts = [3] * 13 + [1]
    given = [f"[{'1.5' if kind[0] == 'f' else '1'} as {kind}; {n}]" for kind, n in zip(TYPES, counts, strict=True)]
    shapes = ["[3]"] * 13 + ["[]"]
    lines = [f"let in_{index} = {values};" for index, values in enumerate(given)]
    lines += [f"let mut out_{index} = [0 as {kind}; 4];" for index, kind in enumerate(TYPES)]
    lines += ["let mut memory = Box::new(all_types::Memory::new());"]
    lines += ["let mut model = all_types::Model::new(&mut memory).unwrap();"]
    arguments = [f"all_types::Tensor::new(&in_{index}, {shape})" for index, shape in enumerate(shapes)]
    arguments += [f"&mut out_{index}" for index in range(14)]
    lines += [f"let shapes = model.run({', '.join(arguments)}).unwrap();", "assert_eq!(shapes.a, [3]);"]
    lines += [f"assert_eq!(in_{index}[..], out_{index}[..{n}]);" for index, n in enumerate(counts)]
    program = built(tmp_path / "app", "fn main() {\n" + "\n".join(lines) + "\n}\n", tmp_path / "all_types")
    subprocess.run([program], check=True)


@needs_cargo
@pytest.mark.slow
def test_the_example_runs(pair: Callable[[str], Pair], tmp_path: Path) -> None:
    folder = tmp_path / "tanh_net"
    shutil.copytree(pair("rust").places[0], folder)
    call = ["cargo", "run", "--quiet", "--example", "tanh_net"]
    found = subprocess.run(call, cwd=folder, check=True, capture_output=True, text=True)
    assert found.stdout == "Shapes { y: [2, 3] }\n"
    assert found.stderr == ""


NONZERO = "(float[n] x) => (int64[m, k] y, float[a] z) { y = NonZero(x)  e = Squeeze(y)  g = Gather(x, e)  z = Abs(g) }"


def test_models_that_a_crate_cannot_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"of tensors; this one has several functions.*--format c"):
        deploykit.build(running_mean(weights()), "embedded", {}, tmp_path / "dist", format="rust")
    expand = "(float[4, 1] x, int64[2] s, float[m, 4] w) => (float[a, b] y) { e = Expand(x, s)  y = MatMul(w, e) }"
    with pytest.raises(UsageError, match=r"has the capacity dim capacity_\w+, which a build can fix \(--dim capacity_"):
        deploykit.build(parse(expand), "embedded", {"m": (1, 4)}, tmp_path / "dist", format="rust")


@needs_cargo
@pytest.mark.slow
def test_an_output_whose_size_depends_on_data(built: Built, tmp_path: Path) -> None:
    deploykit.build(parse(NONZERO), "embedded", {"n": (1, 4)}, tmp_path / "places", format="rust", name="places")
    lines = ["let (mut memory, mut y, mut z) = (places::Memory::new(), [9i64; 4], [9f32; 4]);"]
    lines += ["let mut model = places::Model::new(&mut memory).unwrap();"]
    lines += ["let x = [0f32, -2., f32::NAN, 0.];"]
    lines += ["let shapes = model.run(places::Tensor::new(&x, [4]), &mut y, &mut z).unwrap();"]
    lines += ['println!("{:?} {y:?} {:?} {z:?}", shapes.y, shapes.z);']
    program = built(tmp_path / "app", "fn main() {\n" + "\n".join(lines) + "\n}\n", tmp_path / "places")
    found = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert found == "[1, 2] [1, 2, 9, 9] [2] [2.0, NaN, 9.0, 9.0]\n"
