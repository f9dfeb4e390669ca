"""If, Loop and Scan: branches that differ, bodies that declare sizes, scans over batches; models of old opsets."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import deploykit
from deploykit.frontends.onnx import load_onnx
from tests.frontends.onnx.harness import Check, by_onnxruntime, numbers, parse


@pytest.mark.parametrize("n", [1, 4])
def test_branches_read_different_tensors(check: Check, n: int) -> None:
    model = """(float[n] x, float[n] y, bool t) => (float[m] z) {
        z = If(t) <then_branch = yes () => (float[k] s) { s = Exp(y) },
                   else_branch = no () => (float[k] s) { s = Neg(x) }>
    }"""
    feeds = [{"x": numbers(n), "y": numbers(n, seed=1), "t": np.array(t)} for t in (True, False)]
    check(model, *feeds)


def test_branches_of_different_ranks_give_the_higher_rank(check: Check) -> None:
    model = parse("""(float[n] x, bool t) => (float[m] y) {
        y = If(t) <then_branch = yes () => (float s) { s = ReduceSum<keepdims=0>(x) },
                   else_branch = no () => (float[1] s) { s = ReduceSum(x) }>
    }""")
    x = numbers(5)
    runs = [{"x": x, "t": np.array(t)} for t in (True, False)]
    check(model, *runs, expected=[[x.sum(keepdims=True)]] * 2)
    assert any("ranks" in note for note in deploykit.load(model).notes)


def test_branches_whose_ranks_cannot_agree_are_refused() -> None:
    model = parse("""(float[n] x, bool t) => (float[m] y) {
        y = If(t) <then_branch = yes () => (float s) { s = ReduceSum<keepdims=0>(x) },
                   else_branch = no () => (float[k] s) { s = Neg(x) }>
    }""")
    with pytest.raises(deploykit.UnsupportedModelError, match="rank 0 and float32 of rank 1"):
        deploykit.load(model)


def squeezed(x: str = "x", h: str = "h", *, more: bool = False) -> str:
    """What exporters write for `h = squeeze(x, -1)` of an axis of unknown size. `more` exchanges the branches."""
    test, taken = ("Greater", ("Identity(", "Squeeze(")) if more else ("Equal", ("Squeeze(", "Identity("))
    then, otherwise = (f"{{ s = {call}{x}{', last' if 'Sq' in call else ''}) }}" for call in taken)
    return f"""
        shape_{h} = Shape({x}) last = Constant<value_ints=[-1]>() one = Constant<value_ints=[1]>()
        size_{h} = Gather(shape_{h}, last)
        single_{h} = {test}(size_{h}, one)
        {h} = If(single_{h}) <then_branch = yes () => (float s) {then}, else_branch = no () => (float s) {otherwise}>
    """


@pytest.mark.parametrize("more", [False, True])
def test_the_branch_whose_rank_fits_the_following_nodes_is_taken(check: Check, more: bool) -> None:
    """A Gemm takes only matrices. So the size must be 1, and each run is checked for it."""
    model = parse(f"""(float[n,3,m] x, float[3,2] w) => (float[n,2] y) {{ {squeezed(more=more)} y = Gemm(h, w) }}""")
    w = numbers(3, 2, seed=1)
    runs = [{"x": numbers(n, 3, 1), "w": w} for n in (1, 4)]
    check(model, *runs, expected=[[run["x"][:, :, 0] @ w] for run in runs])
    assert any("only one of its branches fits what follows" in note for note in deploykit.load(model).notes)
    with pytest.raises(deploykit.ShapeError, match=r"h: only one of its branches fits.*found m = 2"):
        check(model, {"x": numbers(4, 3, 2), "w": w}, expected=[[]])
    with pytest.raises(deploykit.UnsupportedModelError):
        deploykit.load(model, dims={"m": 2})


RATES = """(float[n,m] x, int64 rate, float[6,2] v, float[4,2] w) => (float[n,2] y, float[n,2] z) {
    high = Constant<value_int=16000>() is_high = Equal(rate, high)
    y = If(is_high) <then_branch = yes () => (float[n,2] s) { s = MatMul(x, v) },
                     else_branch = no () => (float[n,2] s) { s = MatMul(x, w) }>
    is_low = Not(is_high)
    z = If(is_low) <then_branch = low () => (float[n,2] s) { p = MatMul(x, w) s = Neg(p) },
                    else_branch = up () => (float[n,2] s) { p = MatMul(x, v) s = Neg(p) }> }"""
"""Two kinds of data, with 6 and with 4 columns, like those of a voice detector for its sampling rates."""


@pytest.mark.parametrize("m", [4, 6])
def test_no_run_may_take_a_branch_that_the_given_sizes_rule_out(check: Check, m: int) -> None:
    model = parse(RATES)
    weights = {"v": numbers(6, 2, seed=1), "w": numbers(4, 2, seed=2)}
    rate, other = (16000, 8000) if m == 6 else (8000, 16000)
    notes = deploykit.load(model, dims={"m": m}).notes
    assert all(any(f"{name}_branch' cannot be compiled" in note for note in notes) for name in ("then", "else"))
    with check.runtime.session(model, dims={"m": m}) as session:
        for n in (1, 5):
            x = numbers(n, m)
            got = session.run({"x": x, "rate": np.array(rate), **weights})
            expected = x @ weights["v" if m == 6 else "w"]
            np.testing.assert_allclose(got["y"], expected, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(got["z"], -expected, rtol=1e-5, atol=1e-5)
        with pytest.raises(deploykit.UsageError, match=r"MatMul 's'.*inner sizes . and . differ; this run takes it"):
            session.run({"x": numbers(2, m), "rate": np.array(other), **weights})


def test_both_branches_remain_if_sizes_are_open(check: Check) -> None:
    model = parse(RATES)
    weights = {"v": numbers(6, 2, seed=1), "w": numbers(4, 2, seed=2)}
    with check.runtime.session(model) as session:
        for m, rate, name in ((6, 16000, "v"), (4, 8000, "w")):
            x = numbers(3, m)
            got = session.run({"x": x, "rate": np.array(rate), **weights})
            np.testing.assert_allclose(got["y"], x @ weights[name], rtol=1e-5, atol=1e-5)
    with pytest.raises(deploykit.UnsupportedModelError, match=r"inner sizes 5 and 6 differ(.|\n)*sizes 5 and 4 differ"):
        deploykit.load(model, dims={"m": 5})


@pytest.mark.parametrize(("shape", "sizes", "other"), [("n,3", [1], 2), ("n,3,m", [2, 5], 1)])
def test_the_branch_that_gives_outputs_their_ranks_is_taken(
    check: Check, shape: str, sizes: list[int], other: int
) -> None:
    model = parse(f"(float[n,3,m] x) => (float[{shape}] y) {{ {squeezed()} y = Neg(h) }}")
    check(model, *({"x": numbers(2, 3, m)} for m in sizes))
    with pytest.raises(deploykit.ShapeError, match=f"found m = {other}"):
        check(model, {"x": numbers(2, 3, other)}, expected=[[]])


def test_branches_of_different_ranks_that_both_fit_are_refused() -> None:
    model = parse(f"(float[n,3,m] x) => (float[k] y) {{ {squeezed()} y = Neg(h) }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(deploykit.UnsupportedModelError, match=r"rank 2 and float32 of rank 3.*--dim m=1 for the first"):
        deploykit.load(model)
    assert [port.shape for m in (1, 2) for port in deploykit.load(model, dims={"n": 4, "m": m}).outputs] == [
        (4, 3),
        (4, 3, 2),
    ]


def test_branches_of_different_ranks_inside_a_branch(check: Check) -> None:
    """What one branch of the outer If requires does not hold for the other branch. If a branch cannot be imported,
    what is inside it is reported once."""
    model = f"""(float[n,3,m] x, float[n,3,l] z, float[3,2] w, bool t) => (float[n,2] y) {{
        y = If(t) <then_branch = a () => (float[n,2] first) {{ {squeezed()} first = Gemm(h, w) }},
                   else_branch = b () => (float[n,2] second) {{ {squeezed("z", "g")} second = Gemm(g, w) }}>
    }}"""
    w = numbers(3, 2, seed=1)

    def feeds(m: int, k: int, *, t: bool) -> dict[str, np.ndarray]:
        return {"x": numbers(4, 3, m), "z": numbers(4, 3, k, seed=2), "w": w, "t": np.array(t)}

    runs = [feeds(1, 5, t=True), feeds(3, 1, t=False), feeds(1, 1, t=True)]
    check(model, *runs, expected=[[run["x" if run["t"] else "z"][:, :, 0] @ w] for run in runs])
    for m, k, t, message in ((2, 1, True, "h: .*found m = 2"), (1, 2, False, "g: .*found l = 2")):
        with pytest.raises(deploykit.ShapeError, match=message):
            check(model, feeds(m, k, t=t), expected=[[]])
    with pytest.raises(deploykit.UnsupportedModelError, match="because of 2 nodes") as refused:
        deploykit.load(parse(model.replace("first = Gemm(h, w)", "p = Gemm(h, w) first = MatMul(p, x)")))
    assert "is not computed" not in str(refused.value)


def test_sizes_that_a_body_declares_are_checked(check: Check) -> None:
    model = """(int64 trips, float[1] y, float[n] x) => (float[1] last, float[k,1] rows) {
        go = Constant<value=bool {1}>()
        last, rows = Loop(trips, go, y) <body = step (int64 i, bool c, float[1] before)
                                                     => (bool d, float[1] after, float[1] row) {
            d = Identity(c)
            one = Constant<value_ints=[1]>()
            start = Reshape(i, one)
            end = Add(start, one)
            piece = Slice(x, start, end)
            after = Add(before, piece)
            row = Identity(after)
        }>
    }"""
    feeds = {"y": np.array([-2.0], np.float32), "x": numbers(5)}
    runs = [{"trips": np.array(t), **feeds} for t in (0, 1, 5)]
    sums = [np.concatenate([feeds["y"], feeds["y"] + np.cumsum(feeds["x"])])[: t + 1] for t in (0, 1, 5)]
    check(model, *runs, expected=[[s[-1:], s[1:, None]] for s in sums])
    with pytest.raises(deploykit.ShapeError, match="declared with a size of 1, found 0"):
        check(model, {"trips": np.array(6), **feeds}, expected=[[]])


def test_requirements_of_a_branch_are_checked_where_it_is_taken(check: Check) -> None:
    """They are not assumed outside the branch: the Conv needs an `n` of 4 or more, the Slice works for smaller ones."""
    model = """(float[1,1,n] x, float[m] y, bool t) => (float[1,1,k] z, float[1,1,r] rest, float[1,1,r2] again) {
        w = Constant<value = float[1,1,4] {1, 1, 1, 1}>()
        z = If(t) <then_branch = yes () => (float[1,1,k] s) { c = Conv(x, w) s = Add(c, y) },
                   else_branch = no () => (float[1,1,k] s) { s = Neg(x) }>
        two = Constant<value_ints = [2]>() end = Constant<value_ints = [100]>()
        rest = Slice(x, two, end, two)
        again = Neg(rest)
    }"""
    runs = [(1, 3, False), (2, 7, False), (6, 3, True), (7, 4, True), (3, 1, False)]
    feeds = [{"x": numbers(1, 1, n), "y": numbers(m), "t": np.array(t)} for n, m, t in runs]
    check(model, *feeds)
    for n, m, message in ((2, 1, "c: .*2"), (6, 2, "s: .*3 elements in 'c', 2 in 'y'")):
        with pytest.raises(deploykit.ShapeError, match=message):
            check(model, {"x": numbers(1, 1, n), "y": numbers(m), "t": np.array(True)}, expected=[[]])


def test_requirements_of_a_loop_body_are_checked_where_it_runs(check: Check) -> None:
    model = """(int64 trips, float[1,1,n] x, float[m] y) => (float[1,1,n] last, float[k,1,1,l] rows) {
        go = Constant<value=bool {1}>() w = Constant<value = float[1,1,4] {1, 1, 1, 1}>()
        last, rows = Loop(trips, go, x) <body = step (int64 i, bool c, float[1,1,n] before)
                                                     => (bool d, float[1,1,n] after, float[1,1,l] row) {
            d = Identity(c)
            after = Neg(before)
            part = Conv(after, w)
            row = Add(part, y)
        }>
    }"""
    x, y = numbers(1, 1, 6), numbers(3, seed=1)
    row = np.convolve(-x[0, 0], np.ones(4), "valid") + y
    feeds = [{"trips": np.array(2), "x": x, "y": y}, {"trips": np.array(0), "x": numbers(1, 1, 2), "y": numbers(5)}]
    rows = np.stack([row, np.convolve(x[0, 0], np.ones(4), "valid") + y]).reshape(2, 1, 1, 3).astype(np.float32)
    check(model, *feeds, expected=[[x, rows], [feeds[1]["x"], np.zeros((0, 1, 1, 0), np.float32)]])
    with pytest.raises(deploykit.ShapeError):
        check(model, {"trips": np.array(1), "x": numbers(1, 1, 6), "y": numbers(2)}, expected=[[]])


@pytest.mark.parametrize("after", ["rows = Identity(kept)", "rows = Exp(kept)", "rows = ReduceMean(kept, one)"])
@pytest.mark.parametrize("trips", ["", "trips"])
def test_rows_of_a_loop_that_ends_by_its_condition(check: Check, trips: str, after: str) -> None:
    """The number of rows is known after the loop, whether they are an output or intermediate. It is larger than in any
    earlier run, smaller, or 0."""
    model = f"""(float[n] x, float limit, int64 trips, bool go) => (float[n] last, float[k,m] rows) {{
        one = Constant<value_ints=[1]>()
        last, kept = Loop({trips or '""'}, go, x) <body = step (int64 i, bool c, float[n] before)
                                                       => (bool d, float[n] after, float[n] row) {{
            tenth = Constant<value=float {{0.1}}>()
            after = Add(before, tenth)
            top = ReduceMax<keepdims=0>(after)
            d = Less(top, limit)
            row = Neg(after)
        }}>
        {after}
    }}"""
    runs = [(3, 0.25), (2, 2.05), (5, 4.95), (3, -1.0)]
    feeds = [
        {"x": np.linspace(-1, 0, n, dtype=np.float32), "limit": np.array(limit, np.float32), "trips": np.array(60)}
        for n, limit in runs
    ]
    going = [{**given, "go": np.array(True)} for given in feeds]
    check(model, *going, expected=by_onnxruntime(model, *going))
    if "Mean" not in after:
        none = [{**given, "go": np.array(False)} for given in feeds]
        check(model, *none, expected=[[g["x"], np.zeros((0, len(g["x"])), np.float32)] for g in none])


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("begins", ["Less(nothing, until)", "Less(none, limit)", "Identity(yes)"])
@pytest.mark.parametrize("goes_on", ["Less(a, b)", "Greater(b, a)", "Less(next, l)", "Less(next, limit)"])
@pytest.mark.parametrize("after", ["Identity(l)", "Sub(l, one)"])
def test_loops_that_count_have_a_known_number_of_rows(check: Check, begins: str, goes_on: str, after: str) -> None:
    """This holds as long as nothing changes the limit that they count to."""
    model = parse(f"""(float[n,2] x) => (int32 last, float[k,2] rows) {{
        zero = Constant<value=int64 {{0}}>() one = Constant<value=int32 {{1}}>() none = Constant<value=int32 {{0}}>()
        nothing = Constant<value=float {{0}}>() yes = Constant<value=bool {{1}}>()
        shape = Shape(x) size = Gather(shape, zero) all = Cast<to=6>(size) limit = Sub(all, one)
        until = Cast<to=1>(limit)
        begins = {begins}
        last, end, rows = Loop("", begins, none, limit) <body = step (int64 number, bool c, int32 i, int32 l)
                                                      => (bool goes_on, int32 next, int32 passed, float[2] row) {{
            read = Gather(x, i) row = Neg(read)
            next = Add(i, one) a = Cast<to=1>(next) b = Cast<to=1>(l)
            goes_on = {goes_on}
            passed = {after}
        }}>
    }}""")
    changes = "Sub" in after and "limit" not in goes_on
    (count,) = (port.shape[0] for port in deploykit.load(model).outputs if port.name == "rows")
    assert ("iterations" in str(count)) == changes

    def rows(n: int) -> int:
        done, limit = 0, n - 1
        going = "yes" in begins or limit > 0
        while going:
            done, going, limit = done + 1, done + 1 < limit, limit - changes
        return done

    feeds = [{"x": numbers(n, 2)} for n in (7, 2, 1)]
    counts = [rows(len(run["x"])) for run in feeds]
    check(model, *feeds, expected=[[np.int32(k), -run["x"][:k]] for k, run in zip(counts, feeds, strict=True)])


def test_loop_rows_whose_size_the_body_computes_are_refused() -> None:
    model = parse("""(float[n] x, int64 t, bool go) => (float[k,m] rows) {
        rows = Loop(t, go) <body = step (int64 i, bool c) => (bool d, int64[1,m] row) {
            d = Identity(c)
            row = NonZero(x)
        }>
    }""")
    with pytest.raises(deploykit.UnsupportedModelError, match="rows whose sizes depend on data"):
        deploykit.load(model)


def test_rows_of_nested_loops_that_end_by_their_conditions(check: Check) -> None:
    model = """(float[n] x, float limit) => (float[k,n] sums) {
        go = Constant<value=bool {1}>()
        last, sums = Loop("", go, x) <body = outer (int64 i, bool c, float[n] before)
                                                 => (bool d, float[n] after, float[n] sum) {
            again = Constant<value=bool {1}>() one = Constant<value_ints=[0]>()
            after, rows = Loop("", again, before) <body = inner (int64 j, bool e, float[n] value)
                                                           => (bool f, float[n] next, float[n] row) {
                half = Constant<value=float {0.5}>()
                next = Add(value, half)
                row = Mul(next, next)
                f = Less(j, i)
            }>
            sum = ReduceSum<keepdims=0>(rows, one)
            top = ReduceMax<keepdims=0>(after)
            d = Less(top, limit)
        }>
    }"""
    runs = [(2, 0.7), (3, 30.0), (1, 4.0)]
    check(model, *({"x": np.zeros(n, np.float32), "limit": np.array(limit, np.float32)} for n, limit in runs))


@pytest.mark.parametrize(("batch", "steps"), [(1, 3), (4, 1), (3, 5)])
@pytest.mark.parametrize("direction", [0, 1])
def test_scan_over_a_batch(check: Check, batch: int, steps: int, direction: int) -> None:
    model = f"""(float[b,2] start, float[b,t,2] x) => (float[b2,2] end, float[b3,t3,2] sums) {{
        end, sums = Scan("", start, x) <num_scan_inputs = 1, directions = [{direction}],
            body = step (float[2] before, float[2] next) => (float[2] after, float[2] row) {{
                after = Add(before, next)
                row = Identity(after)
            }}>
    }}"""
    feeds = {"start": numbers(batch, 2), "x": numbers(batch, steps, 2, seed=1)}
    x = feeds["x"][:, ::-1] if direction else feeds["x"]
    sums = feeds["start"][:, None] + np.cumsum(x, axis=1)
    check(model, feeds, opset=8, expected=[[sums[:, -1], sums]])


def test_a_scan_state_has_the_size_that_the_body_declares(check: Check) -> None:
    """Frames overlap: a part of each is kept for the next one. At first, its size depends on that of the signal."""
    model = """(float[b,n] x, float[b,t,2] rows) => (float[b2,3] end, float[b3,t3,5] frames) {
        zero = Constant<value_ints = [0]>() three = Constant<value_ints = [3]>() one = Constant<value_ints = [1]>()
        start = Slice(x, zero, three, one)
        end, frames = Scan(start, rows) <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
            body = step (float[b,3] before, float[b,2] next) => (float[b,3] after, float[b,5] frame) {
                frame = Concat<axis = -1>(before, next)
                two = Constant<value_ints=[2]>() five = Constant<value_ints=[5]>() along = Constant<value_ints=[1]>()
                after = Slice(frame, two, five, along)
            }>
    }"""
    runs = [{"x": numbers(b, n), "rows": numbers(b, t, 2, seed=1)} for b, n, t in ((2, 3, 4), (1, 9, 1))]
    check(model, *runs, expected=by_onnxruntime(model, *runs))
    with pytest.raises(deploykit.ShapeError, match="'before' is declared with a size of 3, found 2"):
        check(model, {"x": numbers(1, 2), "rows": numbers(1, 4, 2)}, expected=[[]])


def test_scan_of_opset_8_agrees_with_onnxruntime(check: Check) -> None:
    assert onnxruntime.__version__
    model = """(float[b,2] start, float[b,t,2] x) => (float[b2,2] end) {
        end = Scan("", start, x) <num_scan_inputs = 1,
            body = step (float[2] before, float[2] next) => (float[2] after) { after = Max(before, next) }>
    }"""
    feeds = {"start": numbers(2, 2), "x": numbers(2, 6, 2, seed=1)}
    check(model, feeds, opset=8, expected=by_onnxruntime(model, feeds, opset=8))


def test_maps_are_refused_and_the_error_says_what_to_do() -> None:
    maps = onnx.helper.make_sequence_type_proto(
        onnx.helper.make_map_type_proto(
            onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
        )
    )
    node = onnx.helper.make_node("ZipMap", ["x"], ["p"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 2])
    graph = onnx.helper.make_graph([node], "maps", [x], [onnx.helper.make_value_info("p", maps)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("ai.onnx.ml", 1)])
    with pytest.raises(deploykit.UnsupportedModelError, match="zipmap=False"):
        deploykit.load(model)


def test_branches_of_two_ranks_are_chosen_by_the_size(check: Check) -> None:
    text = """(float[2, n] x) => (float[a] y) {
        one = Constant <value_ints = [1]> ()
        size = Shape <start = 1, end = 2> (x)
        single = Equal(size, one)
        y = If (single) <
            then_branch = flat () => (float[b] squeezed) { squeezed = Squeeze(x, one) },
            else_branch = wide () => (float[c, d] same) { same = Identity(x) }>
    }"""
    model = parse(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(deploykit.UnsupportedModelError, match=r"--dim n=1 for the first, --dim n=2\.\. for the second"):
        load_onnx(model)
    for size, bound in ((1, 1), (3, (2, 5))):
        with check.runtime.session(model, dims={"n": bound}) as session:
            x = numbers(2, size)
            np.testing.assert_array_equal(session.run({"x": x})["y"], x.squeeze(1) if size == 1 else x)


def test_inputs_that_are_maps_are_refused_and_the_error_says_what_to_do() -> None:
    entry = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    maps = onnx.helper.make_map_type_proto(onnx.TensorProto.STRING, entry)
    node = onnx.helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([node], "maps", [onnx.helper.make_value_info("x", maps)], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("ai.onnx.ml", 1)])
    with pytest.raises(deploykit.UnsupportedModelError, match="OneHotEncoder or ColumnTransformer"):
        deploykit.load(model)
