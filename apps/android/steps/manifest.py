"""Merges the manifests of AARs into that of the app, as far as deploykit's AARs need it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

from deploykit.errors import UsageError

ANDROID = "{http://schemas.android.com/apk/res/android}"
PACKAGE, LEAST, TARGET = "org.deploykit.app", 24, 36
"""The app's name, the first Android API that it runs on, and the one that it is made for. Gradle has them in its own
files, so that the manifest in the sources does not."""

_KNOWN = {"uses-sdk", "application"}


def merged(app: str, libraries: Mapping[str, str]) -> str:
    """The manifest of the app with what the manifests of libraries ask for, by the names of these. Raises `UsageError`
    for a library that needs a later Android, or whose manifest has an element that is not merged here."""
    ET.register_namespace("android", ANDROID[1:-1])
    root = ET.fromstring(app)  # noqa: S314 - our own
    root.set("package", PACKAGE)
    application = root.find("application")
    assert application is not None
    own = {f"{ANDROID}minSdkVersion": str(LEAST), f"{ANDROID}targetSdkVersion": str(TARGET)}
    root.insert(0, ET.Element("uses-sdk", own))
    for library, text in libraries.items():
        other = ET.fromstring(text)  # noqa: S314 - our own
        if _least(other) > LEAST:
            raise UsageError(f"{library} needs Android's API {_least(other)}, and the app begins at {LEAST}")
        for element in other:
            if element.tag not in _KNOWN or element.attrib.keys() - {f"{ANDROID}minSdkVersion"}:
                raise UsageError(f"the manifest of {library} has <{element.tag}>, which is not merged here")
        for element in other.iterfind("application/*"):
            if element.tag != "uses-native-library":
                raise UsageError(f"the manifest of {library} has <{element.tag}>, which is not merged here")
            names = {each.get(f"{ANDROID}name") for each in application.iterfind(element.tag)}
            if element.get(f"{ANDROID}name") not in names:
                application.append(element)
    ET.indent(root, "    ")
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _least(root: ET.Element) -> int:
    """The first API of a manifest."""
    element = root.find("uses-sdk")
    return 1 if element is None else int(element.get(f"{ANDROID}minSdkVersion", "1"))
