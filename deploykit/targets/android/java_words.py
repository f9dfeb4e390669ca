"""Names in Java: the classes of a package, words that nothing may be called, and identifiers for names of models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

OF_ONE_MODEL = frozenset(
    ("Function", "Gpus", "Native", "Pictures", "RaggedPorts", "Scores", "Session", "Sounds", "Texts", "Instances")
)
"""The classes that each model of a package has for itself. The others are shared."""

CLASSES = (
    *(
        "Assets",
        "AndroidSystem",
        "Device",
        "Function",
        "Library",
        "Memory",
        "Native",
        "Options",
        "Progress",
        "Session",
        "Tensor",
    ),
)
"""The classes that all models have, beside exceptions."""

OF_INSTANCES = ("Dataclass", "InstanceDecoder", "InstanceEncoder", "InstanceType", "Instances")
"""The classes that dynamic models have."""

OF_MESSAGES = (
    *("Answer", "Answers", "Chat", "Generation", "Message", "Notes", "Piece", "PieceListener", "Pieces"),
    *("Prompt", "Settings"),
)
"""The classes of models that generate."""

OF_ANSWERS = (
    *("Detection", "Label", "Listening", "Pictures", "Scores", "Segments", "Sounds", "Span", "Texts", "Tokens"),
    "Word",
)
"""The classes of models of texts, pictures and sound."""

FURTHER = ("Gpus", "Profile", "Ragged", "RaggedPorts", *OF_INSTANCES)
"""The classes that some models have, beside those with answers."""

EXCEPTIONS = {
    "DeploykitException": ("RuntimeException", "The base of what a model raises."),
    "ShapeException": ("DeploykitException", "An input's type, rank or sizes do not fit the model."),
    "DataException": ("DeploykitException", "A value inside of an input is out of its range."),
    "MemoryException": ("DeploykitException", "Memory is short."),
    "DeviceException": ("DeploykitException", "The device is missing, failed, or lacks what the model needs."),
    "WeightsException": ("DeploykitException", "The weights are missing, or not those of the model."),
    "ClosedException": ("DeploykitException", "The model is closed."),
    "BusyException": ("DeploykitException", "The model writes another answer."),
    "OtherBuildException": ("DeploykitException", "What was saved is of another model, or of another build of it."),
}

OF_GENERATING = ("BusyException", "OtherBuildException")
"""Those that only models that generate raise."""

_KEYWORDS = """
abstract assert boolean break byte case catch char class const continue default do double else enum extends final
finally float for goto if implements import instanceof int interface long native new package private protected public
return short static strictfp super switch synchronized this throw throws transient try void volatile while true false
null
"""

KEYWORDS = frozenset(_KEYWORDS.split())

_OF_KOTLIN = frozenset(("as", "fun", "in", "is", "object", "typealias", "typeof", "val", "var", "when"))
"""Keywords of Kotlin that are none in Java."""

_WORDS = frozenset((*KEYWORDS, "executor", "session", "device", "bytes", "outputs", "inputs", "runs", "RUN"))
"""Words of the language, and names that the model's class has itself."""

_METHODS = """
async cancel clone close device devices equals finalize getClass hashCode load notify notifyAll open profile reset
session stateMemory toString wait weightsMapped
"""
"""Methods that the model's class has whatever its functions are."""

_TAKEN = """
ActivityManager Arrays AssetFileDescriptor AutoCloseable ByteBuffer ByteOrder Closeable Collections Context Executor
File FileInputStream FileNotFoundException Future FutureTask IOException InputStream Integer List Long Math NonNull
Nullable Object OutOfMemoryError Override Result Runtime RuntimeException StandardCharsets String System Boolean
BufferedReader ByteArrayOutputStream Character Class Double FileOutputStream Float IdentityHashMap InputStreamReader
Locale Map NumberFormatException OutputStream StringBuilder Array ArrayDeque ArrayList Byte Deque HashMap Number Short
SuppressWarnings Bitmap LinkedHashMap Flow RequiresApi Callable CancellationException HashSet Set Supplier Thread
BigInteger DataInputStream Image Rect MessageDigest NoSuchAlgorithmException Log URL UnsatisfiedLinkError
"""
"""Names of classes that the sources use."""


def quoted(word: str) -> str:
    """A name in Kotlin, which has keywords of its own."""
    return f"`{word}`" if word in _OF_KOTLIN else word


def package_name(prefix: str) -> str:
    """The package of a model's classes, if none is chosen."""
    word = prefix.lower()
    return f"org.deploykit.{word}_" if word in KEYWORDS else f"org.deploykit.{word}"


def class_name(prefix: str) -> str:
    """The name of a model's class: `my_model` becomes `MyModel`."""
    name = "".join(part[:1].upper() + part[1:] for part in prefix.split("_"))
    return name if is_free(name) else f"{name}Model"


def is_free(name: str) -> bool:
    """Whether no other class has the name."""
    return name not in taken_names() and name not in (*OF_ANSWERS, *OF_MESSAGES)


def taken_names() -> set[str]:
    """The names of classes that the sources use."""
    return {*CLASSES, *FURTHER, *EXCEPTIONS, *_TAKEN.split()}


def methods(functions: Sequence[str | None]) -> list[str]:
    """The names of the methods of functions; empty for the only one, whose method is `run`. They differ in more than
    the case of the first letter, because results have classes of their names."""
    if len(functions) == 1:
        return [""]
    found: list[str] = []
    for name in map(str, functions):
        taken = [other for word in found for other in (word[:1].lower() + word[1:], word[:1].upper() + word[1:])]
        found += identifiers([name], [*_METHODS.split(), *taken])
    return found


def result_name(method: str) -> str:
    """The name of the class of a method's results."""
    return f"{method[:1].upper()}{method[1:]}Result"


def output_words(names: Iterable[str]) -> list[str]:
    """The names of the fields of a result, for outputs of these names."""
    return identifiers(names)


def identifiers(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Java identifiers for names, all different, and none of those `taken`."""
    found: list[str] = []
    used = set(taken)
    for name in names:
        word = re.sub(r"[^0-9A-Za-z_]", "_", name).strip("_")
        word = word if word[:1].isalpha() else f"v{word}"
        word = f"{word}_" if word in _WORDS else word
        number, first = 2, word
        while word in used:
            word, number = f"{first}{number}", number + 1
        used.add(word)
        found.append(word)
    return found
