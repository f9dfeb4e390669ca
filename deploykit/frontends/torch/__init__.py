"""Folders whose architecture has no family: transformers loads them, and PyTorch exports them to ONNX.

importer.py    folder -> `ImportedModel`; starts the process below, and imports the file that it writes
__main__.py    the process that has PyTorch: loads, exports, compares, and writes the file and its facts
facts.py       what the one tells the other
loading.py     folder -> model of transformers; nothing is unpickled, downloaded or run from the folder
inputs.py      which inputs a model takes, with their dims and samples
flat.py        the model as a function from tensors to tensors
exporting.py   the exporters, and the comparison of their files with the model
"""
