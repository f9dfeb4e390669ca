"""What models come from. A frontend recognises one kind of source, says which options it has, and loads it.

base.py        what a frontend is, the registered ones, and which of them takes a source
places.py      what is written like ops.py:linear
onnx_files.py  an ONNX file, or an onnx.ModelProto
folder.py      a Hugging Face folder, or one on the Hub
dynamic.py     a dynamic model: a class in a Python file
operator.py    an operator on ragged tensors, or its place in a Python file
loaded.py      a model that `deploykit.load` has loaded

The importers themselves are in `deploykit.frontends`. These modules import them only when they load a model.
"""
