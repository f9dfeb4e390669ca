"""Packages of dynamic models: in node, from Python, their types, and their demo."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.dynamic.policies import POLICIES
from deploykit.engines.web.chromium import find_chromium
from deploykit.errors import DataError, ShapeError, UsageError
from deploykit.runtime import JS_RUNNER
from deploykit.targets.webgpu import WebTarget
from tests.conftest import Golden
from tests.web.dynamic_models import Leaf, Marks, Node, Span, Spans, Tree, TreeLSTM
from tests.web.test_browser import used_demo
from tests.web.test_ragged import evaluated, in_node
from tests.web.test_snippets import SNIPPETS
from tests.web.test_texts import text_of
from tests.web.test_types import complaints

MODELS = Path(__file__).with_name("dynamic_models.py")


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trees") / "small"
    deploykit.build(f"{MODELS}:TreeLSTM", "webgpu", output=folder)
    return folder


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spans") / "spans"
    deploykit.build(f"{MODELS}:Spans", "webgpu", output=folder)
    return folder


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marks") / "marks"
    deploykit.build(f"{MODELS}:Marks", "webgpu", output=folder)
    return folder


def tree(source: random.Random, leaves: int) -> Tree:
    if leaves == 1:
        return Leaf(source.randrange(20))
    left = source.randint(1, leaves - 1)
    return Node(tree(source, left), tree(source, leaves - left))


def as_json(value: Tree) -> dict[str, Any]:
    if isinstance(value, Leaf):
        return {"type": "Leaf", "word": value.word}
    return {"type": "Node", "left": as_json(value.left), "right": as_json(value.right)}


def some_trees() -> list[Tree]:
    source = random.Random(0)
    return [tree(source, source.randint(1, 12)) for _ in range(9)]


@pytest.mark.parametrize("threads", [1, 2])
def test_python_runs_every_policy_in_node(trees: Path, threads: int) -> None:
    model, instances = TreeLSTM(), some_trees()
    expected = [model.main(each) for each in instances]
    with deploykit.open(trees, threads=threads) as session:
        for policy in POLICIES:
            session.policy = policy
            np.testing.assert_allclose(session(instances), expected, atol=1e-5)
        assert session([]) == []
        with pytest.raises(ShapeError, match="instance 1: expected Tree"):
            session([Leaf(1), 5])
        with pytest.raises(DataError):
            session([Leaf(20)])
        np.testing.assert_allclose(session(instances[:1]), expected[:1], atol=1e-5)


def test_javascript_runs_every_policy(trees: Path) -> None:
    model, instances = TreeLSTM(), some_trees()
    expected = [model.main(each) for each in instances]
    given = json.dumps([as_json(each) for each in instances])
    script = f"""(async () => {{
      const found = {{}};
      for (const policy of {json.dumps(list(POLICIES))}) {{
        const results = await model.run({given}, {{ policy }});
        found[policy] = [results.map((result) => Array.from(result)), model.launches];
      }}
      return found;
    }})()"""
    for policy, (results, launches) in evaluated(trees, script).items():
        np.testing.assert_allclose(results, expected, atol=1e-5)
        cells = sum(count for _, count in launches)
        assert cells > 50 if policy == "alone" else cells < 30


@pytest.mark.parametrize("policy", POLICIES)
def test_the_trace_of_a_run(trees: Path, policy: str) -> None:
    """Each object is the one that was given, and runs behind those that it consists of."""
    given = json.dumps([as_json(each) for each in some_trees()])
    script = f"""(async () => {{
      const given = {given};
      const plain = await model.run(given, {{ policy: '{policy}' }});
      const before = model.trace;
      const results = await model.run(given, {{ policy: '{policy}', trace: true }});
      const launches = new Map(model.trace.flatMap(({{ nodes }}, launch) =>
        nodes.map(({{ object, instance }}) => [object, {{ launch, instance }}])));
      const late = [];
      const visit = (tree, number) => {{
        const found = launches.get(tree);
        if (found?.instance !== number) late.push(tree);
        for (const part of tree.type === 'Node' ? [tree.left, tree.right] : []) {{
          visit(part, number);
          if (launches.get(part).launch >= found.launch) late.push(tree);
        }}
      }};
      given.forEach(visit);
      const same = JSON.stringify(plain) === JSON.stringify(results);
      const sizes = model.trace.map(({{ cell, nodes }}) => [cell, nodes.length]);
      return [late.length, same, before, sizes, model.launches];
    }})()"""
    late, same, before, sizes, launches = evaluated(trees, script)
    assert (late, same, before) == (0, True, [])
    for cell, count in launches:
        assert sum(name == cell for name, _ in sizes) == count
    nodes = sum(nodes for _, nodes in sizes)
    assert nodes == sum(2 * leaves_of(each) for each in some_trees())
    assert policy != "alone" or len(sizes) == nodes


def leaves_of(value: Tree) -> int:
    return 1 if isinstance(value, Leaf) else leaves_of(value.left) + leaves_of(value.right)


def test_runs_wait_for_each_other_and_take_their_instances_at_once(trees: Path) -> None:
    script = """(async () => {
      const leaf = { type: 'Leaf', word: 1 };
      const first = model.run([leaf]);
      const second = model.run([leaf, { type: 'Node', left: leaf, right: leaf }]);
      leaf.word = 2;
      const [[a], [b, c]] = [await first, await second];
      const none = await model.run([]);
      return [Array.from(a), Array.from(b), Array.from(c), none];
    })()"""
    a, b, c, none = evaluated(trees, script)
    expected = TreeLSTM().main(Node(Leaf(1), Leaf(1)))
    assert none == []
    np.testing.assert_allclose(a, b, atol=1e-6)
    np.testing.assert_allclose(c, expected, atol=1e-5)


def test_instances_may_be_deep_and_shared(trees: Path) -> None:
    script = """(async () => {
      let deep = { type: 'Leaf', word: 3 };
      for (let i = 0; i < 20000; i += 1) deep = { type: 'Node', left: deep, right: { type: 'Leaf', word: i % 20 } };
      let wide = { type: 'Leaf', word: 3 };
      for (let i = 0; i < 8; i += 1) wide = { type: 'Node', left: wide, right: wide };
      const results = await model.run([deep, wide]);
      return results.map((result) => Array.from(result));
    })()"""
    wide: Tree = Leaf(3)
    for _ in range(8):
        wide = Node(wide, wide)
    deep, found = evaluated(trees, script)
    assert np.isfinite(deep).all()
    np.testing.assert_allclose(found, TreeLSTM().main(wide), atol=1e-5)


SPANS = [
    (
        0.5,
        [Span(1, 0.25, np.arange(4), np.ones((2, 4)), [False]), Span(-2, 1e-9, -np.ones(4), np.eye(2, 4), [])],
        (7, [1, 2, 3, 4]),
    ),
    (2.0, [], (0, [0, 0, 0, 0])),
    (1.0, [Span(3, 3.5, np.zeros(4), np.zeros((2, 4)), [False, True])], (-1, [0.5, 0, 0, 0])),
]
GIVEN = """[
  [0.5, [
    { type: 'Span', start: 1, weight: 0.25, vector: Float32Array.of(0, 1, 2, 3), matrix: [[1, 1, 1, 1], [1, 1, 1, 1]], flags: [false] },
    { start: -2, weight: 1e-9, vector: [-1, -1, -1, -1], matrix: Float32Array.of(1, 0, 0, 0, 0, 1, 0, 0), flags: [] },
  ], [7, [1, 2, 3, 4]]],
  [2, [], [0, new Float32Array(4)]],
  [1, [{ start: 3, weight: 3.5, vector: [0, 0, 0, 0], matrix: [new Float32Array(4), [0, 0, 0, 0]], flags: [false, true] }], [-1, [0.5, 0, 0, 0]]],
]"""  # noqa: E501


def arrays(instance: Any) -> Any:
    """The instance with float32 arrays, as the model takes it in Python."""
    scale, items, (offset, start) = instance
    single = np.float32
    found = [
        Span(each.start, each.weight, single(each.vector), single(each.matrix), each.flags)  # type: ignore[arg-type]
        for each in items
    ]
    return scale, found, (offset, np.array(start, np.float32))


def test_values_of_every_type(spans: Path) -> None:
    model = Spans()
    script = f"model.run({GIVEN}).then((found) => found.map(([a, b, c, d]) => [a.map((v) => [...v]), b, c, [...d]]))"
    with deploykit.open(spans) as session:
        of_python = session([arrays(each) for each in SPANS])
    for instance, found, other in zip(SPANS, evaluated(spans, script), of_python, strict=True):
        vectors, numbers, starts, matrix = model.main(*arrays(instance))
        assert (tuple(found[1]), found[2]) == (other[1], other[2]) == (numbers, starts)
        assert len(found[0]) == len(other[0]) == len(vectors)
        for own in zip(found[0], other[0], vectors, strict=True):
            np.testing.assert_allclose(own[0], own[2], atol=1e-5)
            np.testing.assert_allclose(own[1], own[2], atol=1e-5)
        np.testing.assert_allclose(np.reshape(found[3], (2, 2)), matrix, atol=1e-5)
        np.testing.assert_allclose(other[3], matrix, atol=1e-5)


def plain(value: Any) -> Any:
    """Objects and arrays as JSON, numbers of arrays with few digits."""
    if isinstance(value, np.ndarray):
        return [round(float(x), 4) for x in value]
    if hasattr(value, "__dict__"):
        return {"type": type(value).__name__} | {name: plain(each) for name, each in vars(value).items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def test_results_may_be_objects(marks: Path) -> None:
    instances = some_trees()
    expected = [plain(Marks().main(each)) for each in instances]
    given = json.dumps([as_json(each) for each in instances])
    rounded = "(key, v) => v instanceof Float32Array ? Array.from(v, (x) => Number(x.toFixed(4)) + 0) : v"
    script = f"model.run({given}).then((found) => JSON.parse(JSON.stringify(found, {rounded})))"
    assert evaluated(marks, script) == expected
    with deploykit.open(marks) as session:
        assert plain(session(instances)) == expected
    declared = (marks / "index.d.mts").read_text()
    assert "{ type: 'Pair'; first: MarkedResult; second: MarkedResult; even: boolean }" in declared
    assert "{ type: 'Known'; vector: Own<Float32Array> /* Tensor[16] */; parts: [number, number][] }" in declared


def test_types_of_objects_in_results(marks: Path, tmp_path: Path) -> None:
    shutil.copytree(marks, tmp_path / "marks")
    program = """import { load, type MarkedResult } from './marks/index.mjs';
    const model = await load();
    const depth = (marked: MarkedResult): number =>
      marked.type === 'Known' ? marked.vector[0] + marked.parts[0][1] : depth(marked.first) + Number(marked.even);
    const [[marked, leaves]] = await model.run([{ type: 'Leaf', word: 1 }]);
    console.log(depth(marked) + leaves);
    """
    assert complaints(tmp_path, program) == []


LEAF = "{ type: 'Leaf', word: 1 }"


@pytest.mark.parametrize(
    ("instances", "message"),
    [
        (f"[{LEAF}, 5]", "instance 1: expected Tree: Leaf(word) or Node(left, right), found number 5"),
        (f"[{{ type: 'Fork', left: {LEAF} }}]", "found an object of type 'Fork' with left"),
        (f"[{{ left: {LEAF}, right: {LEAF} }}]", "found an object with left, right"),
        (f"[{{ type: 'Node', left: {LEAF} }}]", "instance 0: 'Node' needs a field 'right'"),
        (f"[{{ type: 'Node', left: {LEAF}, right: null }}]", "found null"),
        ("[{ type: 'Leaf', word: 1.5 }]", "instance 0: expected int, found number 1.5"),
        ("[{ type: 'Leaf', word: '1' }]", "expected int, found '1'"),
        ("[{ type: 'Leaf', word: 2 ** 31 }]", "instance 0: integers have 32 bits, found 2147483648"),
        ("[((a) => Object.assign(a, { left: a, right: a }))({ type: 'Node' })]", "instance 0: a Tree contains itself"),
        (LEAF, "expected an array of instances, found an object of type 'Leaf' with word"),
        ("undefined", "expected an array of instances, found undefined"),
    ],
)
def test_what_is_no_tree_is_refused(trees: Path, instances: str, message: str) -> None:
    found = in_node(trees, f"model.run({instances})")
    assert found["error"] in ("ShapeError", "DataError")
    assert found["known"]
    assert message in found["message"]


SPAN = "start: 1, weight: 1, vector: [0, 0, 0, 0], matrix: new Float32Array(8), flags: [], "


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        ("[1, []]", "expected tuple[float, list[Span], tuple[int, Tensor[4]]] as an array, found Array of length 2"),
        ("[true, [], [0, [0, 0, 0, 0]]]", "expected float, found boolean true"),
        ("[1, 'none', [0, [0, 0, 0, 0]]]", "expected list[Span] as an array, found 'none'"),
        ("[1, [], [0, [0, 0, 0]]]", "expected Tensor[4] as Float32Array of 4 or nested arrays of numbers, found"),
        ("[1, [], [0, new Float64Array(4)]]", "found Float64Array of length 4"),
        (f"[1, [{{ {SPAN} matrix: [1, 2] }}], [0, [0, 0, 0, 0]]]", "expected Tensor[2, 4]"),
        (f"[1, [{{ {SPAN} flags: [1] }}], [0, [0, 0, 0, 0]]]", "expected bool, found number 1"),
        ("[1, [{ start: 1 }], [0, [0, 0, 0, 0]]]", "'Span' needs a field 'weight'"),
    ],
)
def test_values_of_other_types_are_refused(spans: Path, instance: str, message: str) -> None:
    found = in_node(spans, f"model.run([{instance}])")
    assert (found["error"], found["known"]) == ("ShapeError", True)
    assert found["message"].startswith("instance 0: ")
    assert message in found["message"]


def test_a_run_goes_on_after_a_refusal(trees: Path) -> None:
    script = f"""(async () => {{
      const texts = [];
      for (const word of [20, -21]) {{
        texts.push(await model.run([{LEAF}, {{ type: 'Leaf', word }}]).catch(({{ name }}) => name));
      }}
      const [result] = await model.run([{LEAF}]);
      return [...texts, Array.from(result)];
    }})()"""
    first, second, result = evaluated(trees, script)
    assert (first, second) == ("DataError", "DataError")
    np.testing.assert_allclose(result, TreeLSTM().main(Leaf(1)), atol=1e-5)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"model.run([{LEAF}], {{ policy: 'best' }})", "there is no policy 'best': there are depth, fsm"),
        (f"model.run([{LEAF}], {{ outputs: {{}} }})", "run has no option 'outputs'"),
        ("load({ sample: [] })", "load has no option 'sample'"),
        ("model.profile([])", "a dynamic model has no profile"),
    ],
)
def test_options(trees: Path, script: str, message: str) -> None:
    found = in_node(trees, script)
    assert found["error"] == "UsageError"
    assert message in found["message"]


def test_javascript_knows_every_policy(trees: Path) -> None:
    script = f"import('{(JS_RUNNER.parent / 'instances.mjs').as_uri()}').then(({{ POLICIES }}) => POLICIES)"
    assert evaluated(trees, script) == POLICIES


JOINED = """
from deploykit.dynamic import Model, Tensor, concat


class Joined(Model):
    def main(self, xs: list[Tensor[2]]) -> Tensor[18]:
        return concat(xs[0], xs[1], xs[2], xs[3], xs[4], xs[5], xs[6], xs[7], xs[8])
"""


def test_a_model_with_a_kernel_that_is_no_shader(tmp_path: Path) -> None:
    (tmp_path / "joined.py").write_text(JOINED)
    folder = tmp_path / "dist"
    deploykit.build(f"{tmp_path / 'joined.py'}:Joined", "webgpu", output=folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    first, second = manifest["notes"]
    assert first == "the model does not run on the device 'webgpu', which cannot run all kernels"
    assert "1 of 2 kernels run on the CPU: it reads and writes 10 tensors at once, more than 8 (concat)" in second
    names = {file["name"] for file in manifest["files"]}
    assert names >= {"model.wasm", "model-relaxed.wasm", "runtime/instances.mjs"}
    assert not names & {"model-gpu.wasm", "shaders.wgsl"}
    with pytest.raises(UsageError, match="has no kernels for a GPU: open it with the device 'wasm'"):
        deploykit.open(folder, device="webgpu")
    found = in_node(folder, "load({ device: 'webgpu' })")
    assert found["error"] == "UnsupportedError"
    with pytest.raises(UsageError, match="build one of the modules model, model-relaxed"):
        deploykit.build(f"{tmp_path / 'joined.py'}:Joined", WebTarget(["model-gpu"]), output=tmp_path / "gpu")


def test_a_package_of_another_model_has_nothing_of_it(package: Path) -> None:
    assert not (package / "runtime" / "instances.mjs").exists()
    assert "dynamic" not in (package / "index.mjs").read_text()


def test_a_field_that_hides_the_name_of_its_dataclass(tmp_path: Path) -> None:
    source = MODELS.read_text().replace("    word: int", "    type: int").replace("case Leaf(word)", "case Leaf(type)")
    (tmp_path / "models.py").write_text(source.replace("self.embedding[word]", "self.embedding[type]"))
    with pytest.raises(UsageError, match="'Leaf' has a field 'type', which names the dataclass in JavaScript"):
        deploykit.build(f"{tmp_path / 'models.py'}:TreeLSTM", "webgpu", output=tmp_path / "dist")


RIGHT = f"""
import {{ load, DataError, type Instance, type Result, type Tree }} from './small/index.mjs';
import {{ load as other, type Span }} from './spans/index.mjs';
const model = await load({{ device: 'wasm', threads: 2 }});
const leaf: Tree = {{ type: 'Leaf', word: 1 }};
const instances: Instance[] = [leaf, {{ type: 'Node', left: leaf, right: {{ type: 'Leaf', word: 2 }} }}];
const [result]: Result[] = await model.run(instances, {{ policy: 'agenda', signal: new AbortController().signal }});
const blob = new Blob([result]);
await model.run(instances, {{ trace: true }});
for (const {{ cell, nodes }} of model.trace) console.log(cell, nodes[0].instance + 1, nodes[0].object);
for (const [cell, count] of model.launches) console.log(cell.length, count + 1, blob.size);
const second = await other();
const span: Span = {{ {SPAN} }};
const [vectors, [total, set], starts, matrix] = (await second.run([[1, [span], [2, [1, 2, 3, 4]]]]))[0];
const numbers: number = vectors[0][0] + total + starts[0] + matrix[0];
const flag: boolean = set;
console.log(numbers, flag, DataError.name);
"""


@pytest.fixture
def project(trees: Path, spans: Path, tmp_path: Path) -> Path:
    shutil.copytree(trees, tmp_path / "small")
    shutil.copytree(spans, tmp_path / "spans")
    return tmp_path


def test_types(project: Path) -> None:
    assert complaints(project, RIGHT) == []


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("await model.run([{ type: 'Leaf' }]);", "to type 'Tree'"),
        ("await model.run([{ type: 'Fork', word: 1 }]);", "Fork"),
        ("await model.run([{ type: 'Node', left: leaf }]);", "to type 'Tree'"),
        ("await model.run([], { policy: 'best' });", "best"),
        ("await load({ device: 'cpu' });", "cpu"),
        ("await second.run([[1, [span]]]);", "to type 'Instance'"),
    ],
)
def test_types_refuse_other_instances(project: Path, program: str, words: str) -> None:
    (complaint,) = complaints(project, RIGHT + program)
    assert words in complaint


def test_the_declarations_agree_with_the_module(project: Path) -> None:
    program = """import { type LoadOptions, load } from './small/index.mjs';
    import * as modules from './small/runtime/model.mjs';
    type Members = Exclude<keyof Awaited<ReturnType<typeof load>>, 'launches' | 'trace'>;
    const members = {} as Members satisfies keyof modules.Model;
    const options = {} as keyof LoadOptions satisfies keyof modules.LoadOptions;
    """
    source = Path(JS_RUNNER).parent / "model.mjs"
    roots = [str(Path(__file__).parents[2] / "node_modules" / scope) for scope in ("@types", "@webgpu")]
    settings = {"allowJs": True, "checkJs": True, "skipLibCheck": True, "types": ["node", "types"], "typeRoots": roots}
    assert complaints(project, program.replace("./small/runtime/model.mjs", str(source)), **settings) == []


@pytest.mark.parametrize("name", ["index.mjs", "index.d.mts", "README.md"])
def test_texts(name: str, spans: Path, golden: Golden) -> None:
    golden(text_of(spans / name), name)


def test_the_program_of_the_document(trees: Path, tmp_path: Path) -> None:
    shutil.copytree(trees, tmp_path / "trees")
    (tmp_path / "trees.mjs").write_text(SNIPPETS["trees.mjs"])
    call = ["node", str(tmp_path / "trees.mjs")]
    found = json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
    model = TreeLSTM()
    for result, instance in zip(found, [Leaf(3), Node(Leaf(3), Leaf(5))], strict=False):
        np.testing.assert_allclose(result, model.main(instance), atol=1e-5)
    assert found[2] == [["encode", 1], ["encode_2", 1], ["main", 1]]


@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_the_demo(trees: Path, spans: Path, tmp_path: Path) -> None:
    shutil.copytree(trees, tmp_path / "small")
    found = used_demo(tmp_path / "small", "instances.html")
    assert (found["errors"], found["error"], len(found["first"])) == ([], "", 2)
    assert found["cells"][::2] == ["0", "1"]
    np.testing.assert_allclose(json.loads(found["cells"][3]), TreeLSTM().main(Leaf(4)), rtol=1e-3)
    assert found["launches"] == ["encode", "1", "encode_2", "0", "main", "1"]
    assert found["refused"].startswith("ShapeError: instance 0: 'Leaf' needs a field 'word'")
    assert not found["wide"]
    shutil.copytree(spans, tmp_path / "spans")
    found = used_demo(tmp_path / "spans", "instances.html")
    assert (found["errors"], found["error"], found["first"][0]) == ([], "", "0")
    assert not found["wide"]
