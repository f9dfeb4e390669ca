"""One module for each family of models, which registers what it computes (`registry.py`).

A family is written as the formula of its paper, from the parts in `blocks.py` and `decoders.py`. To add one: write the
module with a function for the hidden state, which reads every entry of the configuration that changes results or names
it as `fixed`; register its heads; add small configurations to `tests/frontends/huggingface/cases.py`, and make their
goldens with transformers (`make_goldens.py`).
"""
