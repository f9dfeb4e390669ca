"""Small decoders as ONNX Runtime GenAI's builder writes them, with weights from seeds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS, WIDTH, HEADS, SHARED, SIZE, LONGEST = 50, 64, 4, 2, 16, 128

MICROSOFT = "com.microsoft"


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Rows of numbers in bytes, from the lowest bits on."""
    if bits == 8:
        return numbers.astype(np.uint8)
    padded = np.pad(numbers, ((0, 0), (0, numbers.shape[1] % 2)))
    return np.asarray(padded[:, ::2] | padded[:, 1::2] << 4, np.uint8)


@dataclass
class GroupedGraph:
    """A decoder with two layers. `attributes` are those of GroupQueryAttention. `bits` stores the weights of products
    in blocks of `block`, with zero points if `zeros`. With `packed`, queries, keys and values are one operand."""

    attributes: dict[str, Any] = field(default_factory=dict)
    packed: bool = True
    rotary: bool = True
    norms: bool = False
    bits: int = 0
    block: int = 32
    zeros: bool = False
    tied: bool = False
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def node(self, op_type: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any) -> str:
        name = f"{op_type}_{len(self.nodes)}"
        results = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(op_type, inputs, results, name, domain=domain, **attributes))
        return name

    def weight(self, name: str, *shape: int, scale: float = 1.0, middle: float = 0.0) -> str:
        self.weights[name] = (middle + self.random.standard_normal(shape) * scale).astype(np.float32)
        return name

    def product(self, name: str, x: str, depth: int, rows: int) -> str:
        if not self.bits:
            return self.node("MatMul", x, self.weight(name, depth, rows, scale=depth**-0.5))
        self.stored(name, rows, depth)
        parts = [f"{name}_codes", f"{name}_scales", *([f"{name}_zeros"] if self.zeros else [])]
        sizes = {"K": depth, "N": rows, "bits": self.bits, "block_size": self.block}
        return self.node("MatMulNBits", x, *parts, domain=MICROSOFT, accuracy_level=0, **sizes)

    def stored(self, name: str, rows: int, depth: int) -> None:
        """A matrix in blocks. Its scales, and their products with zero points, are numbers of float16."""
        count, most = -(-depth // self.block), 1 << self.bits
        scales = self.random.uniform(0.5, 1.5, (rows, count)) * depth**-0.5 / (most / 4)
        bits = scales.astype(np.float32).view(np.uint32)
        self.weights[f"{name}_scales"] = (bits & np.uint32(0xFFFE0000)).view(np.float32)
        size = self.block * self.bits // 8
        self.weights[f"{name}_codes"] = self.random.integers(0, 256, (rows, count, size)).astype(np.uint8)
        if self.zeros:
            middles = self.random.integers(most // 2 - 2, most // 2 + 2, (rows, count))
            self.weights[f"{name}_zeros"] = packed(middles, self.bits)

    def norm(self, name: str, x: str, width: int = WIDTH) -> str:
        return self.node("SimplifiedLayerNormalization", x, self.weight(name, width, scale=0.1, middle=1.0), axis=-1)

    def embedded(self) -> str:
        if not self.tied:
            return self.node("Gather", self.weight("words", WORDS, WIDTH), "input_ids")
        self.stored("head", WORDS, WIDTH)
        self.weights["flat"] = np.array([WORDS, WIDTH * self.bits // 8], np.int64)
        table = self.node("Reshape", "head_codes", "flat")
        sizes = {"bits": self.bits, "block_size": self.block, "gather_axis": 0, "quantize_axis": 1}
        return self.node("GatherBlockQuantized", table, "input_ids", "head_scales", domain=MICROSOFT, **sizes)

    def attention(self, layer: int, x: str, lengths: str, total: str) -> str:
        if self.packed:
            given = [self.product(f"qkv_{layer}", x, WIDTH, (HEADS + 2 * SHARED) * SIZE), "", ""]
        else:
            counts = {"q": HEADS, "k": SHARED, "v": SHARED}
            given = [self.product(f"{kind}_{layer}", x, WIDTH, count * SIZE) for kind, count in counts.items()]
        if self.norms:
            given[:2] = [self.head_norm(f"{kind}_norm_{layer}", y) for kind, y in zip("qk", given[:2], strict=True)]
        caches = ["cosines", "sines"] if self.rotary else []
        name = f"attention_{layer}"
        self.nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                [*given, f"past_key_values.{layer}.key", f"past_key_values.{layer}.value", lengths, total, *caches],
                [name, f"present.{layer}.key", f"present.{layer}.value"],
                name,
                domain=MICROSOFT,
                **{"num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": int(self.rotary), **self.attributes},
            )
        )
        return self.product(f"o_{layer}", name, HEADS * SIZE, WIDTH)

    def head_norm(self, name: str, x: str) -> str:
        """A normalisation of each head: tokens and heads are one axis in between."""
        self.weights |= {
            "of_heads": np.array([0, -1, SIZE]),
            f"back_{name[0]}": np.array([0, -1, SIZE * (HEADS if name[0] == "q" else SHARED)]),
        }
        y = self.norm(name, self.node("Reshape", x, "of_heads"), SIZE)
        return self.node("Reshape", y, f"back_{name[0]}")

    def model(self) -> onnx.ModelProto:
        self.weights |= {"one": np.array([1], np.int64), "axis": np.array(1, np.int64)}
        if self.rotary:
            angles = np.arange(LONGEST)[:, None] * 10000.0 ** (-np.arange(SIZE // 2) / (SIZE // 2))
            self.weights |= {"cosines": np.cos(angles).astype(np.float32), "sines": np.sin(angles).astype(np.float32)}
        last = self.node("Sub", self.node("ReduceSum", "attention_mask", "one", keepdims=0), "one")
        lengths = self.node("Cast", last, to=TensorProto.INT32)
        total = self.node(
            "Cast", self.node("Gather", self.node("Shape", "attention_mask"), "axis"), to=TensorProto.INT32
        )
        x, add = self.embedded(), ""
        for layer in range(2):
            y = self.norm("first", x) if not add else self.skip(f"before_{layer}", x, add)
            x, y = (x, y) if not add else (f"{y}_3", y)
            y = self.attention(layer, y, lengths, total)
            y = self.skip(f"between_{layer}", x, y)
            x = f"{y}_3"
            gate = self.product(f"gate_{layer}", y, WIDTH, 96)
            up = self.product(f"up_{layer}", y, WIDTH, 96)
            y = self.node("Mul", self.node("Mul", gate, self.node("Sigmoid", gate)), up)
            add = self.product(f"down_{layer}", y, 96, WIDTH)
        y = self.skip("last", x, add)
        logits = self.product("head", y, WIDTH, WORDS) if not self.tied else self.tied_product(y)
        self.nodes[-1].output[0] = "logits"
        assert logits
        return self.finished()

    def tied_product(self, x: str) -> str:
        sizes = {"K": WIDTH, "N": WORDS, "bits": self.bits, "block_size": self.block}
        return self.node("MatMulNBits", x, "head_codes", "head_scales", domain=MICROSOFT, accuracy_level=0, **sizes)

    def skip(self, name: str, x: str, y: str) -> str:
        scale = self.weight(name, WIDTH, scale=0.1, middle=1.0)
        return self.node("SkipSimplifiedLayerNormalization", x, y, scale, domain=MICROSOFT, outputs=4, epsilon=1e-6)

    def finished(self) -> onnx.ModelProto:
        kinds = [f"{layer}.{kind}" for layer in range(2) for kind in ("key", "value")]
        past, present = (["batch", SHARED, size, SIZE] for size in ("past", "total"))
        floats, integers = TensorProto.FLOAT, TensorProto.INT64
        inputs = [
            helper.make_tensor_value_info("input_ids", integers, ["batch", "length"]),
            helper.make_tensor_value_info("attention_mask", integers, ["batch", "total"]),
            *(helper.make_tensor_value_info(f"past_key_values.{kind}", floats, past) for kind in kinds),
        ]
        outputs = [
            helper.make_tensor_value_info("logits", floats, ["batch", "length", WORDS]),
            *(helper.make_tensor_value_info(f"present.{kind}", floats, present) for kind in kinds),
        ]
        values = [
            helper.make_tensor_value_info(f"attention_{layer}", floats, ["batch", "length", HEADS * SIZE])
            for layer in range(2)
        ]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        for node in self.nodes:
            if node.op_type == "SkipSimplifiedLayerNormalization":
                node.output[1] = node.output[2] = ""
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, weights, value_info=values)
        imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)
