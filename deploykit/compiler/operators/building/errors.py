"""The error for operators that cannot be built."""


class Unsupported(Exception):
    """Raised by an operator that cannot be built as used; the text is the reason shown to the user."""
