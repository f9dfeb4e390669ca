"""What operators refuse."""


class Unsupported(Exception):
    """Raised by an operator that cannot be built as used; the text is the reason shown to the user."""
