"""GGUF files: one file with the weights of a language model, its configuration and its tokenizer.

reader.py      file -> metadata, and tensors as they are stored
formats.py     stored tensors -> arrays of floats
families.py    metadata -> the configuration of a Hugging Face folder; names and forms of its weights
tokenizers.py  metadata -> tokenizer.json
importer.py    file -> `Folder`, which the importer of folders takes
"""
