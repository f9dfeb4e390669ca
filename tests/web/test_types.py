"""Types: of the modules that ship, from their comments, and of a model, from the declarations in its package."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.web.tools import ROOT, run_tool

OPTIONS = {"strict": True, "noEmit": True, "target": "es2023", "module": "nodenext", "lib": ["es2023", "dom"]}
CHECKED = {"allowJs": True, "checkJs": True, "skipLibCheck": True, "types": ["node", "types"]}


def check(folder: Path) -> list[str]:
    """The errors of the TypeScript compiler, one line each."""
    result = run_tool("tsc", "-p", ".", "--pretty", "false", folder=folder)
    return [line for line in result.stdout.splitlines() if "error TS" in line]


def test_the_modules_have_no_type_errors() -> None:
    assert check(ROOT) == []


@pytest.fixture
def project(package: Path, tmp_path: Path) -> Path:
    """A folder with the package, for programs that use it."""
    shutil.copytree(package, tmp_path / "small")
    return tmp_path


def complaints(project: Path, program: str, **options: object) -> list[str]:
    """The errors in a TypeScript program that is next to the package."""
    (project / "app.mts").write_text(program)
    settings = {"compilerOptions": {**OPTIONS, "types": [], **options}, "include": ["app.mts"]}
    (project / "tsconfig.json").write_text(json.dumps(settings))
    return check(project)


LOADED = """import * as dk from './small/index.mjs';
const model = await dk.load();
const x = { data: new Float32Array(60), shape: [1, 3, 1, 20] as const };
"""

RIGHT = """
const { y, moved } = await model.run({ x, shift: new BigInt64Array(1) });
const shape: [number, 10] = y.shape;
const first: number = y.data[0];
const sum: bigint = moved.data[0] + 1n;
const why: string = `${model.device}, ${model.deviceReason}`;
const blob: Blob = new Blob([y.data, moved.data]);
const into = { y: new Float32Array(10) };
const filled = await model.run({ x, shift: new BigInt64Array(1) }, { outputs: into });
new Blob([filled.y.data, filled.moved.data]);
const shared: { y: Float32Array<SharedArrayBuffer> } = { y: new Float32Array(new SharedArrayBuffer(40)) };
const inShared = await model.run({ x, shift: new BigInt64Array(1) }, { outputs: shared });
const there: SharedArrayBuffer = inShared.y.data.buffer;
const device: 'webgpu' | 'wasm' = await model.chosen;
const { runs, clock, steps } = await model.profile({ x, shift: new BigInt64Array(1) }, { seconds: 1 });
for (const { name, ms } of steps) console.log(name, ms / runs, clock);
const bytes: number = model.memory({ n: 1, h: 2 }).total;
const sizes: number[] = [1, 3, 1, 20];
await model.run({ x: { data: Array<number>(60).fill(0), shape: sizes }, shift: [1n] });
await model.run({ x: { data: x.data, shape: sizes }, shift: Int32Array.of(1) });
await model.run({ x, shift: { data: [1], shape: [1] } });
const image = await model.picture(new Image(), { height: 2 });
const made: [Float32Array, [number, number, number, number]] = [image.data, image.shape];
const both = await model.picture([new ImageData(2, 2), new OffscreenCanvas(2, 2)], { mean: [0, 0, 0] });
await model.run({ x: both, shift: [1, 2] });
const kept = (await model.run({ x: image, shift: [1] }, { keep: ['y'] })).y;
const { gpuBuffer } = kept;
if (gpuBuffer && model.gpuDevice) await model.run({ x: { gpuBuffer, shape: [1, 3, 1, 20] }, shift: [1] });
const names: ('x' | 'shift')[] = model.inputs.map(({ name }) => name);
const most: number | null = model.dims[0].maximum;
console.log(names, most, model.outputs[0].shape);
{
  using again = await dk.load();
  using kept = (await again.run({ x, shift: [1] }, { keep: ['y'] })).y;
  console.log(kept.shape);
}
try {
  await dk.load({ sample: { x, shift: new BigInt64Array(1) } });
  await dk.load({ folder: new URL('https://example.org/small/') });
  const remote: dk.RemoteModel = await dk.load({ worker: true });
  const later: number = (await remote.memory({ n: 1, h: 2 })).total;
  const same: [number, 10] = (await remote.run({ x, shift: new BigInt64Array(1) })).y.shape;
  console.log(later, same, remote.threadsReason);
  await dk.load({ device: 'wasm', onProgress: ({ loaded, total }) => console.log(loaded / total), cache: false });
} catch (error) {
  if (error instanceof dk.MemoryError) console.log(error.bytes);
  if (error instanceof dk.NetworkError) console.log(error.status);
}
console.log(made, shape, first, sum, bytes, why, blob, there, device);
"""


def test_right_use_of_a_model_is_accepted(project: Path) -> None:
    assert complaints(project, LOADED + RIGHT) == []


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("await model.run({ z: x, shift: new BigInt64Array(1) });", "'z' does not exist"),
        ("await model.run({ x });", '"shift"\' is missing'),
        ("await model.run({ x, shift: new Int16Array(1) });", "Int16Array"),
        ("await model.run({ x, shift: ['1'] });", "'string'"),
        ("await model.run({ x: [1n], shift: [1] });", "'bigint'"),
        ("model.inputs[0].name = 'x';", "read-only"),
        ("const { z } = await model.run({ x, shift: new BigInt64Array(1) });", "'z' does not exist"),
        (
            "await model.run({ x, shift: new BigInt64Array(1) }, { outputs: { y: new BigInt64Array(1) } });",
            "BigInt64Array",
        ),
        ("model.memory({ n: 1 });", '"h"\' is missing'),
        ("await model.picture(new Image(), { input: 'shift' });", '"shift"'),
        ("await model.picture(new Image(), { fit: 'stretch' });", '"stretch"'),
        ("await model.picture('image.png');", "'string'"),
        ("await model.run({ x: { gpuBuffer: x, shape: [1] }, shift: [1] });", "GPUBuffer"),
        ("await dk.load({ device: 'gpu' });", '"gpu"'),
        ("await dk.load({ devices: 'wasm' });", "'devices' does not exist"),
        ("await dk.load({ sample: { x } });", '"shift"\' is missing'),
    ],
)
def test_wrong_use_of_a_model_is_refused(project: Path, program: str, words: str) -> None:
    (complaint,) = complaints(project, LOADED + program)
    assert words in complaint


ON_GPU = """
const device: GPUDevice | null = model.gpuDevice;
const gpuBuffer: GPUBuffer = device!.createBuffer({ size: 240, usage: 132 });
const { y } = await model.run({ x: { gpuBuffer, shape: [1, 3, 1, 20] }, shift: [1] }, { keep: ['y'] });
const mine: GPUBuffer | null = y.gpuBuffer;
await dk.load({ gpuDevice: device! });
console.log(mine);
"""


def test_declarations_of_webgpu_are_used(project: Path) -> None:
    assert complaints(project, LOADED + ON_GPU) == []


SAME = """
import { load, LoadOptions } from './small/index.mjs';
import * as modules from '%s';

// Of a sample, only this model's declarations know the names; of a GPU device, they know no more than its members.
const options = {} as Omit<LoadOptions, 'sample' | 'gpuDevice'> satisfies modules.LoadOptions;
const back = {} as Omit<modules.LoadOptions, 'sample'> satisfies LoadOptions;
const names = {} as keyof modules.LoadOptions satisfies keyof LoadOptions;
type Model = Awaited<ReturnType<typeof load>>;
const members = {} as keyof Model satisfies keyof modules.Model;
"""


def test_the_declarations_agree_with_the_modules(project: Path) -> None:
    roots = [str(ROOT / "node_modules" / scope) for scope in ("@types", "@webgpu")]
    program = SAME % (ROOT / "deploykit" / "runtime" / "js" / "model.mjs")
    assert complaints(project, program, **CHECKED, typeRoots=roots) == []
