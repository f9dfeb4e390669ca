"""The importer of Hugging Face folders: `load_folder`."""

from deploykit.frontends.huggingface.importer import load_folder

__all__ = ["load_folder"]
