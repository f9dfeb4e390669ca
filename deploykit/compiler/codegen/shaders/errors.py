"""The error for kernels that cannot be shaders."""


class NoShader(Exception):
    """Raised for a kernel that cannot be a shader and so runs on the CPU; the text is the reason shown to the user."""
