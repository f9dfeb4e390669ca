"""The names of an AAR and of its Java classes, and what else only this target can be told."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from deploykit.errors import UsageError
from deploykit.options.option import option

INSIDE, APART = "inside", "apart"
JVM_SYSTEMS = ("linux", "macos")

_PACKAGE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class AndroidOptions:
    package: str | None = option(None, "the package of the Java classes, by default org.deploykit.<name>")
    class_: str | None = option(
        None, "the model's class, by default named after the model; for several models with commas"
    )
    group: str = option("org.deploykit", "the group of the Maven coordinates")
    version: str = option("1.0", "the version of the Maven coordinates")
    weights: str = option(INSIDE, "where the weights are: inside of the AAR, or apart, in a file beside it")
    jvm: str = option("linux", "the systems whose JVMs can run tests: linux, or linux,macos")
    license: str | None = option(
        None, "the model's licence as an SPDX identifier, by default what its folder or file says"
    )
    url: str | None = option(None, "the address of a page about the model, for its description in a Maven repository")


def names_of(prefix: str, own: AndroidOptions) -> dict[str, Any]:
    """The names of the Java package and of the Maven artifact, and whether the weights are apart. Raises `UsageError`
    for names that cannot be."""
    from deploykit.targets.android.java_words import KEYWORDS, class_name, is_free, package_name

    package = package_name(prefix) if own.package is None else own.package
    if not _PACKAGE.fullmatch(package) or KEYWORDS.intersection(package.split(".")):
        raise UsageError(f"'{package}' cannot be the name of a Java package: choose one like com.acme.model")
    if own.weights not in (INSIDE, APART):
        raise UsageError(f"weights of an AAR are {INSIDE} or {APART}, not '{own.weights}'")
    if not set(own.jvm.split(",")) <= set(JVM_SYSTEMS):
        raise UsageError(f"tests run on JVMs of {' and '.join(JVM_SYSTEMS)}, not '{own.jvm}': use jvm=linux,macos")
    chosen = class_name(prefix) if own.class_ is None else own.class_
    if not _CLASS.fullmatch(chosen) or not (own.class_ is None or is_free(chosen)):
        raise UsageError(f"'{chosen}' cannot be the name of the model's class: choose another one, like Digits")
    names = {"package": package, "group": own.group, "release": own.version, "class": chosen}
    for name in ("group", "release"):
        if not _WORD.fullmatch(names[name]):
            raise UsageError(f"'{names[name]}' cannot be part of Maven coordinates: use letters, digits, '.', '_', '-'")
    return {**names, "apart": own.weights == APART, "jvm": own.jvm.split(",")}
