"""A model that takes texts, pictures or sound fetches each of its files once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import deploykit
from tests.frontends.huggingface.sound_cases import sound
from tests.frontends.huggingface.test_picture_answers import folder_of as folder_of_pictures
from tests.frontends.huggingface.test_sound_answers import folder_of as folder_of_sound
from tests.frontends.huggingface.test_texts import folder_of as folder_of_texts
from tests.web.test_picture_models import script
from tests.web.test_sound_models import array

PROGRAM = """
import {{ createServer }} from 'node:http';
import {{ readFile }} from 'node:fs/promises';
const asked = [];
const server = createServer(async ({{ url }}, reply) => {{
    asked.push(url);
    reply.end(await readFile('{folder}' + url));
}}).listen(0, 'localhost', async () => {{
    const {{ load }} = await import('{address}/index.mjs');
    const model = await load({{ folder: `http://localhost:${{server.address().port}}/`, threads: 1 }});
    const found = {call};
    console.log(JSON.stringify([asked.sort(), found.length]));
    process.exit(0);
}});"""

PICTURE = np.zeros((31, 22, 3), np.uint8)

CASES: dict[str, tuple[Callable[[Path], Path], str, set[str], int | None]] = {
    "texts": (
        lambda place: folder_of_texts(place, "bert-classes"),
        "await model.classify('the cat')",
        {"/text.wasm", "/tokenizer.bin"},
        2,
    ),
    "pictures": (lambda place: folder_of_pictures(place, "classify"), script("classify", PICTURE), set(), 2),
    "sound": (folder_of_sound, f"await model.transcribe({array(sound(700))}, 16000)", set(), None),
}
"""A folder, a call, files that are fetched, and how many things the call gives."""


@pytest.mark.parametrize("takes", CASES)
def test_each_file_is_fetched_once(tmp_path: Path, takes: str) -> None:
    make, call, files, count = CASES[takes]
    deploykit.build(make(tmp_path / "model"), "webgpu", output=tmp_path / "web")
    program = PROGRAM.format(folder=tmp_path / "web", address=(tmp_path / "web").as_uri(), call=call)
    run = ["node", "--input-type=module", "-e", program]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120)
    asked, found = json.loads(done.stdout)
    assert {"/manifest.json", *files} < set(asked)
    assert len(asked) == len(set(asked))
    assert count is None or found == count
