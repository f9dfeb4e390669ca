"""In JavaScript, conversations become the texts that they become in C."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest

from deploykit import runtime
from deploykit.engines.web.node import find_node
from deploykit.errors import ToolchainError
from deploykit.targets.webgpu.linking import link_language
from tests.language.test_templates import GIVEN, TEMPLATES, compiled, found_of

SCRIPT = """
import { readFileSync } from 'node:fs';
import { Conversations } from '%s';
const code = readFileSync(process.argv[2]);
const cases = JSON.parse(readFileSync(process.argv[3], 'utf-8'));
const texts = [];
for (const { program, messages, tools } of cases) {
  const { instance } = await WebAssembly.instantiate(code);
  const conversations = new Conversations(instance.exports, program);
  try {
    texts.push(conversations.text(messages, tools));
  } catch (error) {
    texts.push(error.name === 'UsageError' ? null : String(error));
  }
}
console.log(JSON.stringify(texts));
"""


def test_texts_are_those_of_c(tmp_path: Path) -> None:
    try:
        node = find_node()
        link_language(tmp_path / "language.wasm")
    except ToolchainError as missing:
        pytest.skip(str(missing))
    (tmp_path / "script.mjs").write_text(SCRIPT % (runtime.JS_RUNNER.parent / "conversations.mjs").as_uri())
    asked = [{"messages": given["messages"], "tools": given.get("tools")} for given in GIVEN]
    asked.append({"messages": [{"role": "user", "content": "é" * 200_000}], "tools": None})
    names = [name for name in TEMPLATES if name != "dated"]
    cases = [
        {"program": base64.b64encode(compiled(TEMPLATES[name]).steps).decode(), **given}
        for name in names
        for given in asked
    ]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    command = [str(node), "script.mjs", "language.wasm", "cases.json"]
    call = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert call.returncode == 0, call.stderr.decode()
    assert json.loads(call.stdout) == [found_of(TEMPLATES[name], given) for name in names for given in asked]
