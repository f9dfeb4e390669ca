"""Ragged batches: instances of different lengths, stored one after the other and computed without padding.

`conversion` turns a model that takes padded batches into one that takes ragged ones. `model` compiles operators that
users write with `deploykit.ragged`.
(Source: Fegade et al., The CoRa tensor compiler: compilation for ragged tensors with minimal padding, MLSys 2022.)
"""
