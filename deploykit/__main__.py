"""`python -m deploykit`: the command line."""

import sys


def main() -> None:
    """The command line, which needs typer; what opens artifacts may be installed without it."""
    try:
        from deploykit.cli import main as command
    except ModuleNotFoundError as error:
        sys.exit(f"error: the command line needs the package {error.name}: pip install 'deploykit-run[cli]'")
    command()


if __name__ == "__main__":
    main()
