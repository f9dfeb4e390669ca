"""Generating text: what a session does for a language model.

engine.py      the sequences of a session, and steps for all of them together
generation.py  one answer that is being written
chat.py        a conversation
"""
