"""Streams: a network over time as a model that takes the new frames only, and keeps the rest as states.

importer.py   `import_stream`: the graph, node by node, and what is known of its frames
frames.py     where the frames of a value are, and which frames windows along time need
kept.py       the states: frames in front, windows, states of recurrent layers, the number of frames so far
layers.py     operators that look along time
moves.py      operators that move frames: padding, parts, shapes
outputs.py    outputs, and what is said of them
asked.py      what a user asks for
"""

from deploykit.frontends.onnx.streams.importer import import_stream

__all__ = ["import_stream"]
