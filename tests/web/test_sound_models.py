"""Models of sound in node: sounds are resampled as in Python, and answers are those of transformers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.runtime import JS_MODULES
from deploykit.sessions.tasks.sound_sources import resampled
from tests.frontends.huggingface.sound_cases import LENGTHS, sound
from tests.frontends.huggingface.test_sound_answers import SOUNDS, folder_of
from tests.web.test_ragged import evaluated, in_node
from tests.web.test_types import OPTIONS, check

(FOLDER,) = {path.parent for path in JS_MODULES}


@pytest.mark.parametrize(("rate", "wanted", "count"), [(44100, 16000, 700), (8000, 16000, 60), (11, 7, 50), (7, 11, 1)])
def test_rates(rate: int, wanted: int, count: int) -> None:
    samples = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    program = (
        f"import {{ resampled }} from '{FOLDER.as_uri()}/resampling.mjs';"
        f"const samples = Float32Array.from({samples.tolist()});"
        f"console.log(JSON.stringify([...resampled(samples, {rate}, {wanted})]));"
    )
    call = ["node", "--input-type=module", "-e", program]
    found = subprocess.run(call, capture_output=True, text=True, check=True, timeout=60).stdout
    np.testing.assert_allclose(json.loads(found), resampled(samples, rate, wanted), rtol=0, atol=1e-6)


def array(samples: np.ndarray) -> str:
    return f"Float32Array.from({samples.tolist()})"


@pytest.mark.slow
def test_transcripts(tmp_path: Path) -> None:
    deploykit.build(folder_of(tmp_path / "model"), "webgpu", output=tmp_path / "web")
    sounds = [array(sound(length)) for length in LENGTHS]
    assert evaluated(tmp_path / "web", f"await model.transcribe([{', '.join(sounds)}], 16000)") == SOUNDS["heard"]
    buffer = f"{{ numberOfChannels: 2, sampleRate: 16000, getChannelData: () => {sounds[1]} }}"
    assert evaluated(tmp_path / "web", f"await model.transcribe({buffer})") == SOUNDS["heard"][1]
    for given in (sounds[0], f"{sounds[0]}, 0.5", "[1, 2], 16000", "undefined", "new Float32Array(0), 16000"):
        assert in_node(tmp_path / "web", f"await model.transcribe({given})")["error"] == "ShapeError"
    (tmp_path / "app.mts").write_text(
        "import { load } from './web/index.mjs';\nconst model = await load();\nlet buffer!: AudioBuffer;\n"
        "const text: string = await model.transcribe(buffer);\n"
        "const texts: string[] = await model.transcribe([new Float32Array(9)], 16000);\n"
    )
    settings = {"compilerOptions": {**OPTIONS, "types": []}, "include": ["app.mts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings))
    assert check(tmp_path) == []
