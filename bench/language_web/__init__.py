"""Language models in pages, next to wllama and transformers.js."""
