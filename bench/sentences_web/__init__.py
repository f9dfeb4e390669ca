"""Texts to vectors on the web, next to transformers.js."""
