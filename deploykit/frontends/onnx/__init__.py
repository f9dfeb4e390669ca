"""The ONNX importer: file -> `ImportedModel`.

reader.py      file or ModelProto -> checked onnx-ir model
importer.py    model -> Relax, node by node
value.py       what is known of a value while importing
context.py     what operators build with
registry.py    which function imports which operator
folding.py     constants folded with ONNX's reference evaluator
symbolic.py    shape arithmetic on expressions (symbolic_arrays.py, rational.py)
integers.py    sizes and positions that may be expressions
sizes.py       sizes that must fit together
broadcast.py   multidirectional broadcasting, elementwise kernels
imperative.py  kernels with control flow of their own
ops/           the operators, one module a family
"""

from deploykit.frontends.onnx.importer import load_onnx

__all__ = ["load_onnx"]
