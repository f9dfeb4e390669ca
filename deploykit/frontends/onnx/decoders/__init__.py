"""ONNX files of decoders that take and give back keys and values, as models that generate.

graph.py       file -> `Decoder`: its inputs, its scores, and what each layer remembers
dependence.py  what each value depends on: words, places, sizes
places.py      values that depend on places alone, as constants or tables of positions
attentions.py  `Attention`: where a layer attends, and how
rules.py       which operators compute each token for itself
bits.py        weights in 4 and 8 bits that keep them
importer.py    `import_decoder`: `Decoder` -> the function `step`
"""
