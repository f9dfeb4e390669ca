"""Packages of dynamic models on WebGPU in a page: what a run submits, the choice of a device, and failures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from bench.browser import FolderHandler, find_chromium, served
from deploykit.targets.webgpu import WebTarget
from tests.apps.devtools import chromium
from tests.dynamic.on_gpu import H, Halting

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")

MODELS = Path(__file__).parents[1] / "dynamic" / "on_gpu.py"

OPTIONS = ["--enable-unsafe-webgpu"]

COUNTED = """
  const { load } = await import('./index.mjs');
  const counts = { submit: 0, writeBuffer: 0, dispatchWorkgroups: 0 };
  const count = (type, name) => {
    const before = type.prototype[name];
    type.prototype[name] = function (...given) {
      counts[name] += 1;
      return before.apply(this, given);
    };
  };
  count(GPUQueue, 'submit');
  count(GPUQueue, 'writeBuffer');
  count(GPUComputePassEncoder, 'dispatchWorkgroups');
  const request = GPUAdapter.prototype.requestDevice;
  let device;
  GPUAdapter.prototype.requestDevice = async function (...given) {
    return (device = await request.apply(this, given));
  };
  const plain = (results) => results.map(([h, taken]) => [Array.from(h), taken]);
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`page(script)`: what an async function with this body returns in a page of the package of `Halting`."""
    folder = tmp_path_factory.mktemp("pages") / "halting"
    deploykit.build(f"{MODELS}:Halting", WebTarget(), output=folder)

    def run(script: str) -> Any:
        with served(partial(FolderHandler, directory=str(folder))) as address, chromium(*OPTIONS) as shown:
            shown.open(f"{address}/README.md")
            return shown.evaluate(f"(async () => {{ {COUNTED} {script} }})()")

    return run


def given(count: int, steps: int) -> tuple[list[tuple[np.ndarray, int]], str]:
    """Instances, and the same in JavaScript."""
    random = np.random.default_rng(count)
    found = [(random.standard_normal(H).astype(np.float32), steps) for _ in range(count)]
    return found, str([[x.tolist(), n] for x, n in found])


def compare(found: Any, instances: list[tuple[np.ndarray, int]]) -> None:
    model = Halting()
    for (state, taken), instance in zip(found, instances, strict=True):
        expected, steps = model.main(*instance)
        assert taken == steps
        np.testing.assert_allclose(state, expected, atol=1e-5)


def test_a_run_submits_once_between_two_waits(page: Any) -> None:
    instances, text = given(9, steps=4)
    found = page(f"""
      const model = await load({{ device: 'webgpu' }});
      Object.keys(counts).forEach((name) => (counts[name] = 0));
      const results = await model.run({text});
      const own = {{ ...counts }};
      const none = await model.run([]);
      return {{ results: plain(results), own, none, after: counts.submit, launches: model.launches.map(([, n]) => n) }};
    """)
    compare(found["results"], instances)
    # All instances ask four times and take four steps; the last step comes with the results.
    assert found["own"]["submit"] == 5
    # The tensors of the instances; for each flush its indices, and the sizes that its dispatches take.
    assert found["own"]["writeBuffer"] == 1 + 2 * 5
    assert found["own"]["dispatchWorkgroups"] >= 8
    assert (found["none"], found["after"]) == ([], 5)


def test_auto_measures_a_gpu_with_the_instances_of_the_first_run(page: Any) -> None:
    instances, text = given(5, steps=3)
    found = page(f"""
      const model = await load({{ cache: false }});
      const first = await model.run({text});
      const began = model.device;
      const chosen = await model.chosen;
      const last = await model.run({text});
      const where = [began, chosen, model.device, model.deviceReason];
      return {{ first: plain(first), last: plain(last), where }};
    """)
    compare(found["first"], instances)
    compare(found["last"], instances)
    began, chosen, device, reason = found["where"]
    assert (began, device) == ("wasm", chosen)
    assert reason.startswith("measured with ")


ENDS = {
    "lost in the middle": ("device.destroy()", "DeviceLostError: the GPU device is lost, load the model again: "),
    "disposed of": ("model.dispose()", "UsageError: the model 'Halting' is disposed of: load it again"),
}


@pytest.mark.parametrize("what", ENDS)
def test_what_ends_in_the_middle_of_a_run(page: Any, what: str) -> None:
    end, message = ENDS[what]
    found = page(f"""
      const model = await load({{ device: 'webgpu', cache: false }});
      const run = model.run({given(3, steps=5)[1]});
      {end};
      return run.then(() => 'done', String);
    """)
    assert found.startswith(message)


def test_a_gpu_without_memory(page: Any) -> None:
    instances, text = given(2, steps=2)
    found = page(f"""
      const most = {{ get: () => 1 << 18 }};
      Object.defineProperty(GPUSupportedLimits.prototype, 'maxBufferSize', most);
      const model = await load({{ device: 'webgpu', cache: false }});
      const small = await model.run({text}).then(plain);
      const large = Array.from({{ length: 9000 }}, () => [new Array({H}).fill(1), 1]);
      const error = await model.run(large).catch(String);
      return {{ small, error, again: await model.run({text}).then(plain, String) }};
    """)
    compare(found["small"], instances)
    assert found["error"].startswith("MemoryError: ")
    assert "of the GPU, which gives at most 262144: load with device 'wasm'" in found["error"]
    compare(found["again"], instances)


def test_more_tensors_than_a_gpu_binds(page: Any) -> None:
    instances, text = given(2, steps=2)
    found = page(f"""
      const most = {{ get: () => 1 << 16 }};
      Object.defineProperty(GPUSupportedLimits.prototype, 'maxStorageBufferBindingSize', most);
      const model = await load({{ device: 'webgpu', cache: false }});
      const large = Array.from({{ length: 9000 }}, () => [new Array({H}).fill(1), 1]);
      const error = await model.run(large).catch(String);
      return {{ error, again: await model.run({text}).then(plain, String) }};
    """)
    assert found["error"].startswith("MemoryError: ")
    advice = "that this GPU binds at once: use smaller inputs, build with bounds of dims, or run without the GPU"
    assert advice in found["error"]
    compare(found["again"], instances)
