"""Hugging Face folders: what a model is for.

models.py    a folder becomes a model with its task
texts.py     models of texts, which take batches of mixed lengths
pictures.py  models of pictures
sounds.py    models of sound
pairs.py     models of pictures with texts
tasks.py     what all tasks share
"""
