"""A tab in the background, behind another one, loads and runs a model."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from bench.browser import FolderHandler, find_chromium, served
from tests.apps.devtools import chromium

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")

WORK = """import('./index.mjs').then(async ({{ load }}) => {{
  const model = await load({{ device: '{}', cache: false }});
  const x = {{ data: new Float32Array(60), shape: [1, 3, 1, 20] }};
  const feeds = (n) => ({{ x, shift: new BigInt64Array([BigInt(n)]) }});
  const runs = await Promise.all(Array.from({{ length: 20 }}, (_, n) => model.run(feeds(n))));
  const {{ runs: profiled }} = await model.profile(feeds(1), {{ seconds: 0.1 }});
  return [document.visibilityState, model.device, profiled > 0, runs.map(({{ moved }}) => Number(moved.data[0]))];
}})"""


@pytest.mark.parametrize("device", ["wasm", "webgpu"])
def test_a_tab_in_the_background_loads_and_runs(package: Path, device: str) -> None:
    handler = partial(FolderHandler, directory=str(package))
    with served(handler) as address, chromium("--enable-unsafe-webgpu") as page:
        page.open(f"{address}/README.md")
        assert page.evaluate("document.visibilityState") == "visible"
        page.call("Target.createTarget", url="about:blank")
        page.wait("document.visibilityState === 'hidden'")
        assert page.evaluate(WORK.format(device)) == ["hidden", device, True, [2 * n for n in range(20)]]
        assert page.errors() == []
