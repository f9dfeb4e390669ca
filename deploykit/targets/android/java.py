"""The Java classes of a model, from templates: a typed class for the model, and classes that all models have alike.

An input or output becomes a `Tensor`; a dim becomes a parameter `long`. Types of elements that Java does not have are
the integers of their size. If the sizes of all inputs follow from dims, the model can also be run on arrays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deploykit.basics.dtypes import logical_dtype
from deploykit.errors import UsageError
from deploykit.targets.android.instances import instances_view
from deploykit.targets.android.java_words import (
    CLASSES,
    EXCEPTIONS,
    FURTHER,
    OF_ANSWERS,
    OF_GENERATING,
    OF_INSTANCES,
    OF_MESSAGES,
    OF_ONE_MODEL,
    identifiers,
    methods,
    output_words,
    quoted,
    result_name,
    taken_names,
)
from deploykit.targets.templates import render

_PACKAGE = "deploykit.targets.android"

KINDS = {
    "float32": "float",
    "float64": "double",
    "float16": "short",
    "int64": "long",
    "int32": "int",
    "int16": "short",
    "int8": "byte",
    "uint64": "long",
    "uint32": "int",
    "uint16": "short",
    "uint8": "byte",
    "bool": "byte",
}
"""The Java types of elements, by storage dtype."""

_STUBS = {
    "android/app": ("ActivityManager",),
    "android/content": ("Context",),
    "android/content/res": ("AssetFileDescriptor", "AssetManager"),
    "android/graphics": ("Bitmap", "Rect"),
    "android/media": ("Image",),
    "android/os": ("ParcelFileDescriptor",),
    "android/util": ("Log",),
    "androidx/annotation": ("NonNull", "Nullable", "RequiresApi"),
    "java/util/concurrent": ("Flow",),
}
"""By folder, the classes that the sources name, of Android and of later versions of Java. They are declared for the
compiler, and do not ship."""

_USUAL_TOKENS = 2048
"""The tokens of a prompt with its answer that a model that generates has memory for, if nobody asks for more."""

_EXAMPLES: Mapping[str, Mapping[str, tuple[str, str, str]]] = {
    "texts": {
        "embed": ("float[][] vectors", "val vectors: Array<FloatArray>", 'embed("A text.", "Another one.")'),
        "classify": ("List<Label> labels", "val labels: List<Label>", 'classify("A text.")'),
        "tokens": ("List<Span> spans", "val spans: List<Span>", 'tokens("A text.")'),
        "answer": ("Span answer", "val answer: Span", 'answer("A question?", "A context.")'),
        "fill": ("List<List<Word>> masks", "val masks: List<List<Word>>", "fill(MASKED, 5)"),
    },
    "pictures": {
        "embed": ("float[] vector", "val vector: FloatArray", "embed(bitmap)"),
        "classify": ("List<Label> labels", "val labels: List<Label>", "classify(bitmap)"),
        "detect": ("List<Detection> objects", "val objects: List<Detection>", "detect(bitmap)"),
        "segment": ("Segments segments", "val segments: Segments", "segment(bitmap)"),
    },
    "sounds": {
        "transcribe": ("String text", "val text: String", "transcribe(samples, 44100)"),
        "classify": ("List<Label> labels", "val labels: List<Label>", "classify(samples, 44100)"),
    },
    "messages": {"generate": ("Answer answer", "val answer: Answer", "complete(Prompt.PROMPT)")},
}
"""By what a model takes and by kind: what a call gives, in Java and in Kotlin, and the call."""

_NOTES = {
    "texts": (
        "Texts have any number and length: they run together, in parts of 16384 tokens, and are not padded.\n"
        "`run` and `runAsync` take tokens."
    ),
    "masks": (
        "Texts have any number and length, and run one after another. `masks[0][0].text` is the best token for\n"
        "the first mask. `run` and `runAsync` take tokens."
    ),
    "pictures": (
        "A bitmap has any size and configuration: it becomes what the model takes. So does an `Image` of a camera,\n"
        "with the degrees by which it is turned clockwise. `run` and `runAsync` take tensors."
    ),
    "sounds": (
        "Samples are floats in -1..1 or integers of 16 bits, with any rate: they become what the model takes.\n"
        "`run` and `runAsync` take tensors."
    ),
    "messages": (
        "A prompt is a text, messages or tokens. `complete` gives the whole answer, and its pieces to a listener,\n"
        "`generate` its pieces, `publish` a `Flow.Publisher` of them (from Android 11 on), `chat` a conversation.\n"
        "`completeMemory` says what memory answers need. `run` and `reset` are single steps, with memory of their own."
    ),
}
"""What a README says of them."""

_PROMPTS = {True: 'user("What is the capital of France?")', False: 'text("Once upon a time")'}
"""An example of a prompt, by whether the model knows conversations."""

_OF = {"texts": "a text", "pictures": "a picture", "sounds": "a sound", "messages": "a prompt"}


def sources(views: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The sources of one package by path, with a class for each model. A view is that of `package_view`, with the name
    of the package. Raises `UsageError` if two classes have one name."""
    models = [model_view(view) for view in views]
    texts: dict[str, str] = {}
    for view, model in zip(views, models, strict=True):
        own = _of_model(view, model)
        if taken := texts.keys() & own:
            raise UsageError(f"two classes are called {Path(min(taken)).stem}: choose others with --set class=A,B")
        texts |= own
    shared = _of_all(views, models)
    if taken := texts.keys() & shared:
        raise UsageError(
            f"'{Path(min(taken)).stem}' cannot be the name of a model's class: choose another one, like Digits"
        )
    return texts | shared


def _of_model(view: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, str]:
    """The class of a model, and those that it shares with no other."""
    folder = str(view["package"]).replace(".", "/")
    texts = {f"{folder}/{model['class']}.java": render(_PACKAGE, "java/Model.java", model)}
    for name in (*CLASSES, *_further(model)):
        if name in OF_ONE_MODEL:
            texts[f"{folder}/{model['own']}{name}.java"] = render(_PACKAGE, f"java/{name}.java", {**view, **model})
    for kind, made in (("dataclass", "dataclasses"), ("interface", "interfaces")):
        for own in model["instances"][made] if model["instances"] else ():
            text = render(_PACKAGE, f"java/{kind}_of.java", {"package": view["package"], **own})
            texts[f"{folder}/{own['class']}.java"] = text
    return texts


def _of_all(views: Sequence[Mapping[str, Any]], models: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The classes that models share. What those say that only one model has is from its view."""
    folder = str(views[0]["package"]).replace(".", "/")
    found: dict[str, str] = {}
    for view, model in zip(views, models, strict=True):
        own = {**view, **model, "answers": _labels(models), "compared": any(map(_is_compared, models))}
        names = [name for name in (*CLASSES, *_further(model)) if name not in OF_ONE_MODEL]
        found |= {f"{folder}/{name}.java": render(_PACKAGE, f"java/{name}.java", own) for name in names}
    spoken = any(model["messages"] for model in models)
    for name, (base, meaning) in EXCEPTIONS.items():
        if spoken or name not in OF_GENERATING:
            own = {"package": views[0]["package"], "exception": name, "base": base, "meaning": meaning}
            found[f"{folder}/{name}.java"] = render(_PACKAGE, "java/exception.java", own)
    return found


def _is_compared(model: Mapping[str, Any]) -> bool:
    """Whether the results of a device are compared with those of the CPU."""
    return bool(model["on_gpu"]) and not model["stateful"]


def _labels(models: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What the class of labels says of them."""
    found = [model["answers"] for model in models if model["answers"]["kind"] == "classify"]
    alike = {(each["of"], each["score_text"]) for each in found}
    return {"of": "an input", "score_text": "as the model gives it"} if len(alike) > 1 else (found or [{}])[0]


def coroutines(view: Mapping[str, Any]) -> tuple[str, str]:
    """A source in Kotlin with suspending functions: its path, and its text."""
    model = model_view(view)
    text = render(_PACKAGE, "kotlin/Coroutines.kt", {**model, "quoted": quoted})
    return f"kotlin/{model['class']}Coroutines.kt", text


def _further(model: Mapping[str, Any]) -> list[str]:
    has_ragged = any(function["ragged"] for function in model["functions"])
    has = {"Gpus": model["on_gpu"], "Profile": model["profiled"], "Ragged": has_ragged, "RaggedPorts": has_ragged}
    has |= dict.fromkeys(OF_INSTANCES, model["instances"] is not None)
    has |= _of_answers(model)
    return [name for name in (*FURTHER, *OF_ANSWERS, *OF_MESSAGES) if has[name]]


def _of_answers(model: Mapping[str, Any]) -> dict[str, bool]:
    """Which classes of models with answers there are."""
    kind = model["answers"]["kind"]
    has = {
        "Texts": bool(model["texts"]),
        "Tokens": bool(model["texts"] or model["messages"]),
        "Pictures": bool(model["pictures"]),
    }
    has |= {"Sounds": bool(model["sounds"]), "Label": kind == "classify", "Span": kind in ("tokens", "answer")}
    has |= dict.fromkeys(OF_MESSAGES, bool(model["messages"]))
    has |= {"Detection": kind == "detect", "Segments": kind == "segment", "Listening": kind == "transcribe"}
    return has | {"Scores": kind in ("classify", "tokens", "answer", "fill"), "Word": kind == "fill"}


def stubs() -> dict[str, str]:
    """Declarations of the classes of Android, by path."""
    return {
        f"{folder}/{name}.java": render(_PACKAGE, f"stubs/{name}.java", {})
        for folder, names in _STUBS.items()
        for name in names
    }


def model_view(view: Mapping[str, Any]) -> dict[str, Any]:
    """What the templates of classes need. `instances` of `view` is the dynamic model, or None."""
    functions, model = view["functions"], view["instances"]
    name = view["class"]
    inputs = [port["name"] for port in functions[0]["inputs"]]
    names = methods([function["function"] for function in functions])
    found = [_function(own, name, view["stateful"]) for own, name in zip(functions, names, strict=True)]
    states = _states(view["stateful"]) if view["stateful"] else None
    return {
        **{name: view[name] for name in ("package", "prefix", "on_gpu", "own", "library")},
        "weights_bytes": view["file_bytes"],
        "class": name,
        "functions": found,
        "states": states,
        "stateful": states is not None,
        "least": [f"{dim['minimum']}L" for dim in states or ()],
        "profiled": is_profiled(view),
        "answers": _answers(view),
        "texts": view["texts"] and _texts(view["texts"], functions[0], found[0]),
        "pictures": view["pictures"] and _pictures(view["pictures"], found[0]),
        "sounds": view["sounds"] and _sounds(view["sounds"], found[0]),
        "messages": view["messages"] and _messages(view["messages"]),
        "instances": None if model is None else instances_view(model, inputs, identifiers, {*taken_names(), name}),
    }


def _answers(view: Mapping[str, Any]) -> dict[str, Any]:
    """What a model answers: its kind, its names of classes, and an example. The kind is empty for others."""
    for takes, examples in _EXAMPLES.items():
        if (own := view[takes]) is not None:
            java, kotlin, call = examples[own["kind"]]
            call = call.replace("PROMPT", _PROMPTS[bool(own.get("speaks"))])
            call = call.replace("MASKED", _string(f"The {own.get('mask_word')} sat on the mat."))
            example = {"java": f"{java} = model.{call};", "kotlin": f"{kotlin} = model.{call}"}
            found = {name: own[name] for name in ("kind", "scores", "score_text")}
            labels = [_string(name) for name in own["names"]]
            note = _NOTES["masks" if own["kind"] == "fill" else takes]
            return found | {"labels": labels, "of": _OF[takes], "example": example, "note": note}
    return {"kind": "", "labels": []}


def _pictures(pictures: Mapping[str, Any], function: Mapping[str, Any]) -> dict[str, Any]:
    """A model of pictures, and the results of a run."""
    numbers = [pictures["output"], *([pictures["boxes"]] if pictures["boxes"] >= 0 else [])]
    return {**pictures, "results": [f"result.{function['outputs'][number]['word']}" for number in numbers]}


def _sounds(sounds: Mapping[str, Any], function: Mapping[str, Any]) -> dict[str, Any]:
    """A model of sound, and the result of a run."""
    return {**sounds, "result": function["outputs"][sounds["output"]]["word"]}


def _messages(messages: Mapping[str, Any]) -> dict[str, Any]:
    """A model that generates."""
    return {**messages, "usual_tokens": min(_USUAL_TOKENS, messages["most_tokens"])}


def _texts(texts: Mapping[str, Any], own: Mapping[str, Any], function: Mapping[str, Any]) -> dict[str, Any]:
    """A model of texts: the arguments and results of a run with the tokens of some texts."""
    ragged = texts["lengths"] >= 0
    words = {texts["ids"]: "ids", texts["types"]: "types"}
    given = [index for index in range(len(own["inputs"])) if index != texts["lengths"]]
    padded = [f"Tensor.of({f'{words[i]}[0]' if i in words else 'mask'}, 1, count)" for i in given]
    return {
        **texts,
        "ragged": ragged,
        "mask_string": _string(texts["mask_word"]),
        "arguments": [f"Ragged.of({words[i]})" for i in given] if ragged else padded,
        "results": [
            f"result.{port['word']}{'.values()' if port['returned'] == 'Ragged' else ''}.floats()"
            for port in function["outputs"]
        ],
    }


def readme_view(view: Mapping[str, Any]) -> dict[str, Any]:
    """What examples of calls need: the names of the class and of the method, its arguments, and its first output."""
    model = model_view(view)
    function = model["functions"][0]
    given = function["given"] if function["ragged"] else function["arrays"] or function["tensors"]
    own: dict[str, Any] = {name: function[name] for name in ("run", "result", "memory", "run_async", "ragged")}
    first = function["outputs"][0]
    own |= {"class": model["class"], "first": first, "state_dims": model["states"], "instances": model["instances"]}
    own["answers"] = model["answers"]
    own["variable"] = "values" if first["word"] in ("result", "model", "context") else first["word"]
    return own | {"arguments": [text.rpartition(" ")[2] for text in given]}


def is_profiled(view: Mapping[str, Any]) -> bool:
    """Whether Java can time the steps: those of one function, whose runs can be repeated."""
    return len(view["functions"]) == 1 and not view["stateful"] and not view["dynamic"]


def _states(function: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The dims of states, which a function has."""
    names = function["states"]["names"]
    dims = [dim for dim in function["dims"] if dim["name"] in names]
    words = identifiers(dim["name"] for dim in dims)
    return [_dim(dim, word, capacity=False) for dim, word in zip(dims, words, strict=True)]


def _function(own: Mapping[str, Any], name: str, stateful: Mapping[str, Any] | None) -> dict[str, Any]:
    """A function of the model. `name` is the name of its method; empty: it is the only one."""
    of_states = stateful["states"]["names"] if stateful else ()
    words = identifiers([port["name"] for port in own["inputs"]] + [dim["name"] for dim in own["dims"]])
    inputs = [_port(port, word) for port, word in zip(own["inputs"], words, strict=False)]
    fields = output_words(port["name"] for port in own["outputs"])
    outputs = [_port(port, word) for port, word in zip(own["outputs"], fields, strict=True)]
    dims = [
        _dim(dim, word, capacity=dim["capacity"] and dim["name"] not in of_states)
        for dim, word in zip(own["dims"], words[len(inputs) :], strict=True)
    ]
    axes = [axis for port in own["inputs"] for axis in port["axes"]]
    simple = bool(inputs) and all(isinstance(axis["dim"], int) or axis["dim"] == "DK_AXIS_FIXED" for axis in axes)
    ragged = any(port.get("instance") for port in (*own["inputs"], *own["outputs"]))
    sizes = [dim["declared"] for index, dim in enumerate(dims) if any(axis["dim"] == index for axis in axes)]
    arrays = [f"@NonNull {port['java']}[] {port['word']}" for port in inputs] + sizes
    made = [_made(port, each["axes"], dims) for port, each in zip(inputs, own["inputs"], strict=True) if simple]
    return {
        "name": own["function"] if name else "",
        "constant": f"{name}_" if name else "RUN",
        "run": name or "run",
        "run_async": f"{name}Async" if name else "runAsync",
        "memory": f"{name}Memory" if name else "memory",
        "reserve": f"{name}Reserve" if name else "reserve",
        "result": result_name(name),
        "inputs": inputs,
        "outputs": outputs,
        "words": [port["word"] for port in inputs],
        "dims": dims,
        "chosen": [dim for dim in dims if not dim["capacity"]],
        "tensors": [f"@NonNull Tensor {port['word']}" for port in inputs],
        "sizes": sizes,
        "arrays": arrays if simple and not ragged else [],
        "made": made,
        "ragged": ragged,
        **(_ragged(own, inputs) if ragged else {}),
    }


def _ragged(own: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The parameters of a call with instances: those without inputs that follow from the lengths of instances."""
    follow = {extent for port in own["inputs"] for extent in port["instance"] or ()}
    given = [
        {"word": port["word"], "type": "Ragged" if each["instance"] else "Tensor"}
        for port, each in zip(inputs, own["inputs"], strict=True)
        if each["name"] not in follow
    ]
    words = {port["word"] for port in given}
    return {
        "given": [f"@NonNull {port['type']} {port['word']}" for port in given],
        "given_words": [port["word"] for port in given],
        "unpacked": [port["word"] if port["word"] in words else "null" for port in inputs],
    }


def _port(port: Mapping[str, Any], word: str) -> dict[str, Any]:
    dtype = logical_dtype(port["type"].partition("[")[0])
    java = KINDS[dtype.storage.name]
    text = f"{port['name']} {port['type']}".replace("*/", "* /").replace("{", "(").replace("}", ")")
    instance = port.get("instance")
    return {
        "word": word,
        "text": text,
        "string": _string(port["name"]),
        "code": dtype.code,
        "java": java,
        "type": f"Tensor.Type.{java.upper()}",
        "returned": "Ragged" if instance else "Tensor",
        "extents": _extents(instance) if instance else "null",
    }


def _extents(instance: Sequence[int | str | None]) -> str:
    """The extents of an instance in Java; those that are neither numbers nor lengths are `?`."""
    texts = ("?" if extent is None else str(extent) for extent in instance)
    return f"{{{', '.join(map(_string, texts))}}}"


def _string(text: str) -> str:
    """A string literal."""
    return json.dumps(text)


def _dim(dim: Mapping[str, Any], word: str, *, capacity: bool) -> dict[str, Any]:
    bounds = f"{dim['minimum']}..{'' if dim['maximum'] < 0 else dim['maximum']}"
    value = f"{dim['minimum']}L" if capacity else word
    own: dict[str, Any] = {"declared": f"long {word}", "bounds": bounds, "bounds_text": f"{word} {bounds}"}
    own |= {"value": value, "word": word, "capacity": capacity, "string": _string(dim["name"])}
    return own | {name: dim[name] for name in ("minimum", "maximum")}


def _made(port: Mapping[str, Any], axes: Sequence[Mapping[str, Any]], dims: Sequence[Mapping[str, Any]]) -> str:
    """The expression that makes a tensor of an array."""
    shape = [dims[axis["dim"]]["word"] if isinstance(axis["dim"], int) else str(axis["extent"]) for axis in axes]
    return f"Tensor.of({', '.join([port['word'], *shape])})"
