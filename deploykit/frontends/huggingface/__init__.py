"""The importer of Hugging Face folders."""
