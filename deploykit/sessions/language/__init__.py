"""Generating text: what a session does for a language model.

engine.py      the sequences of a session, and steps for all of them together
generation.py  one answer that is being written
drafts.py      guesses of what it goes on with
beams.py       the answers with the greatest probability
chat.py        a conversation
measures.py    how well a model expects a text
"""
