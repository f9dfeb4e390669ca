"""Templates of conversations as programs, for runtimes without Jinja: `statements.py` compiles them, `rendering.py`
runs them, and `proof.py` compares them with Jinja."""
