"""Hugging Face folders: what a model is for.

models.py  models of texts, which take batches of mixed lengths
tasks.py   models of pictures and of sound, and what all tasks share
pairs.py   models of pictures with texts
"""
