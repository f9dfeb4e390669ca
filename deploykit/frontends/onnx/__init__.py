"""The ONNX importer: file -> `ImportedModel`.

reader.py      file or ModelProto -> checked onnx-ir model
importer.py    model -> Relax, node by node
registry.py    which function imports which operator
folding.py     constants folded with ONNX's reference evaluator
symbolic.py    shape arithmetic on expressions (also symbolic_arrays.py)
ranges.py      bounds of the integers that operators return
attempts.py    imports that choose a branch of an If
subgraph.py    graphs of nodes as Relax functions
ops/           the operators, one module per family
"""

from deploykit.frontends.onnx.importer import load_onnx

__all__ = ["load_onnx"]
