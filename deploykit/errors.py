"""The one hierarchy of errors. Each message says what was found, where in the user's model, and what to do next."""


class DeploykitError(Exception):
    """Base of all errors that deploykit raises on purpose. `exit_code` is what the command line returns."""

    exit_code = 1


class MismatchError(DeploykitError):
    """Results differ from the reference by more than the tolerance."""

    exit_code = 1


class UsageError(DeploykitError):
    """The user's call cannot be carried out as stated: wrong name, shape, dtype, path, option."""

    exit_code = 2


class ArtifactError(UsageError):
    """An artifact folder is missing, damaged, or from another version."""


class ShapeError(UsageError):
    """An input's rank, dtype or dims do not fit the model."""


class UnsupportedModelError(DeploykitError):
    """The model is broken or uses what deploykit cannot compile. `problems` lists every one, each a line."""

    exit_code = 3

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__("\n".join([message, *(f"  - {line}" for line in problems)]))
        self.problems = problems


class ToolchainError(DeploykitError):
    """A compiler or tool that the target needs is missing or failed."""

    exit_code = 4
