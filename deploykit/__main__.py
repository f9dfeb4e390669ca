"""`python -m deploykit`: the command line."""

from deploykit.cli import main

main()
