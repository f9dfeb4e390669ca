"""The options of a build: one frozen dataclass for each part that has options.

option.py      how a field is written on the command line, and who knows an option
parts.py       the options of what every build has: platform, compiler, quantisation, check, what is watched
keywords.py    all options as keyword arguments of `deploykit.load` and `deploykit.build`, for type checkers

A frontend has options of its own (`deploykit.sources`). From the dataclasses come the keyword arguments of `load` and
`build`, the command line with its help, `deploykit frontends --json`, and the page docs/options.md.
"""
