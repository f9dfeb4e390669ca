"""What shaders refuse."""


class NoShader(Exception):
    """Raised for a kernel that has no shader, which then runs on the CPU; the text is the reason shown to the user."""
