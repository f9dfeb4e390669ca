"""The picture of a memory plan: its contents, and what is refused."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from tvm import tirx

from deploykit.compiler.lowering.kernel import Kernel
from deploykit.compiler.model import Dim
from deploykit.compiler.program.arena import SlotRequest, plan
from deploykit.compiler.program.ir import ArenaStorage, Function, Launch, Program, Tensor
from deploykit.compiler.program.plan import plan_of
from deploykit.errors import UsageError
from deploykit.inspection.plan_picture import draw

BATCH = Dim("batch", tirx.Var("batch", "int64"), 1, 64)
WRITTEN = Tensor("y", "float32", (BATCH.var,), ArenaStorage(0))


def planned(slots, name="mlp"):
    """The plan of a chain: step `i` writes slot `i`, and the next step reads it."""
    requests = [SlotRequest(f"hidden{i}", BATCH.var * size, i, i + 1) for i, size in enumerate(slots)]
    kernels = tuple(Kernel(f"matmul_{i}", None) for i in range(len(slots) + 1))
    steps = tuple(Launch(i, (0,), ()) for i in range(len(slots) + 1))
    function = Function("main", (BATCH,), (), (), (WRITTEN,), steps, plan(requests, [BATCH]))
    return plan_of(Program(name, (function,), (), kernels), function)


def words(path):
    """All text of an SVG. matplotlib draws letters as outlines and writes the text into comments."""
    return "\n".join(re.findall(r"<!-- (.*?) -->", path.read_text(), re.DOTALL))


def test_the_picture_states_model_dims_peak_slots_and_steps(tmp_path):
    path = tmp_path / "plan.svg"
    draw(planned([1024, 512, 512, 256]), {"batch": 8}, path)
    ET.parse(path)
    for text in ("mlp  batch=8", "12.3 kB", "1536*batch", "hidden0", "8.19 kB", "hidden3", "matmul_4"):
        assert text in words(path)


def test_a_plan_of_hundreds_of_slots_is_drawn(tmp_path):
    path = tmp_path / "plan.png"
    draw(planned([64 * (1 + i % 7) for i in range(300)]), {"batch": 3}, path)
    header = path.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    width, height = (int.from_bytes(header[i : i + 4], "big") for i in (16, 20))
    assert 2000 < width < 4000
    assert 800 < height < 2000


def test_a_model_without_an_arena_is_drawn(tmp_path):
    draw(planned([]), {"batch": 1}, tmp_path / "plan.svg")
    assert "this model needs no arena" in words(tmp_path / "plan.svg")


def test_names_are_shown_as_they_are(tmp_path):
    draw(planned([64], name="cost_$a$\x00"), {"batch": 1}, tmp_path / "plan.svg")
    ET.parse(tmp_path / "plan.svg")
    assert "cost_$a$?" in words(tmp_path / "plan.svg")


def test_the_same_plan_gives_the_same_file(tmp_path):
    for name in ("a.svg", "b.svg"):
        draw(planned([64, 128]), {"batch": 2}, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize(
    ("at", "name", "words"),
    [
        ({"batch": 1}, "plan.jpg", "must end in .png or .svg"),
        ({}, "plan.svg", "dim 'batch' has no value"),
        ({"batch": 65}, "plan.svg", "dim 'batch' is 65, outside of 1..64"),
        ({"batch": 1, "seq": 2}, "plan.svg", "no dim 'seq'; its dims are: batch"),
        ({"batch": 1}, "missing/plan.svg", "No such file or directory"),
    ],
)
def test_a_wrong_call_is_refused_with_its_reason(tmp_path, at, name, words):
    with pytest.raises(UsageError) as error:
        draw(planned([64]), at, tmp_path / name)
    assert words in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_importing_the_module_leaves_matplotlib_alone():
    code = "import sys, deploykit.inspection.plan_picture; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
