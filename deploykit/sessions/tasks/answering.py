"""What a session says in the user's terms: the methods for models of texts, pictures and sound from Hugging Face
folders.

Each takes one thing or a list of them; one thing alone gives one result instead of a list. Each raises `UsageError` if
the model is not for that. A picture is an array of 8-bit integers (height, width, 3), a picture of Pillow, or the path
of a file. A sound is an array of samples (samples,) or (channels, samples), or the path of a wave file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from deploykit.artifact.tasks import TENSORS_ONLY
from deploykit.errors import UsageError
from deploykit.options.generation import USUAL_SINKS
from deploykit.sessions.language.beams import Beam, search
from deploykit.sessions.language.chat import Chat, prompt_of
from deploykit.sessions.language.engine import Language
from deploykit.sessions.language.generation import Generation, start
from deploykit.sessions.language.measures import perplexity
from deploykit.sessions.tasks.pairs import Pairs
from deploykit.sessions.tasks.pictures import Pictures
from deploykit.sessions.tasks.sounds import Sounds
from deploykit.sessions.tasks.texts import Span, Texts

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest


class Answering(ABC):
    """The methods, for a class that runs the model."""

    manifest: Manifest
    folder: Path

    @abstractmethod
    def run(self, inputs: Mapping[str, Any], /) -> dict[str, Any]: ...

    @abstractmethod
    def _reset(self, sizes: Mapping[str, int]) -> None: ...

    @abstractmethod
    def _states(self) -> np.ndarray | None: ...

    def embed(self, given: Any) -> np.ndarray:
        """A vector (width,) for a text or a picture, or (number, width) for several. Long texts are cut off."""
        return np.asarray(self._answered(given, self._texts_or_pictures.embed))

    def classify(self, given: Any, rate: int | None = None) -> Any:
        """The classes of a text, a picture or a sound, a list of `Label`, the most probable one first; for several, a
        list of lists. A sound that is no file needs its `rate`, in samples per second."""
        if self.manifest.task is not None and self.manifest.task.takes == "sound":
            return self._answered(given, lambda several: self.sounds.classify(several, rate))
        if rate is not None and self.manifest.task is not None:
            raise UsageError("a rate goes with sound")
        return self._answered(given, self._texts_or_pictures.classify)

    def transcribe(self, sounds: Any, rate: int | None = None) -> Any:
        """What is said in a sound, as text; for several, a list of texts. A sound that is no file needs its `rate`, in
        samples per second."""
        return self._answered(sounds, lambda several: self.sounds.transcribe(several, rate))

    def detect(self, pictures: Any, least: float = 0.5, overlap: float | None = None) -> Any:
        """The objects in a picture with a score above `least`, a list of `Detection`, the most probable one first; for
        several pictures, a list of lists. With `overlap`, an object is dropped if its box overlaps that of a more
        probable one of its class by more than this part (non-maximum suppression)."""
        return self._answered(pictures, lambda several: self.pictures.detect(several, least, overlap))

    def segment(self, pictures: Any) -> Any:
        """The class of each point of a picture, as `Segments`; for several pictures, a list of them."""
        return self._answered(pictures, self.pictures.segment)

    def tokens(self, texts: str | Sequence[str]) -> Any:
        """The class of each token of a text, a list of `Span`; for several texts, a list of lists."""
        return self._answered(texts, self.texts.tokens)

    def answer(self, question: str, context: str) -> Span:
        """The part of `context` that answers `question`. A long context is cut off."""
        return self.texts.answer(question, context)

    def match(self, pictures: Any, texts: Sequence[str]) -> Any:
        """The texts with how well they fit a picture, a list of `Label`, the best first; for several pictures, a list
        of lists."""
        return self._answered(pictures, lambda several: self.pairs.match(several, texts))

    def fill(self, texts: str | Sequence[str], count: int = 5) -> Any:
        """For each mask in a text, such as `[MASK]`, the `count` most probable tokens, a list of `Label`, the best
        first; for several texts, a list of lists of these. Raises `UsageError` for a text without a mask."""
        return self._answered(texts, lambda several: self.texts.fill(several, count))

    def generate(
        self,
        prompt: str | Sequence[int] | Sequence[Mapping[str, Any]],
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        ignore_end: bool = False,
        tools: Any = None,
        draft: Literal["ngram"] | Answering | None = None,
        overflow: str = "error",
        sinks: int = USUAL_SINKS,
        **sampling: Any,
    ) -> Generation:
        """Continue a text, or the tokens of one, or answer the last of several messages, each with a `role` and
        `content`. Gives the pieces of the answer as they are written (`Generation`); `.read()` gives all of it.

        The answer has at most `max_tokens` tokens, by default as many as the model has room for. It ends with a token
        that the model made for that, unless `ignore_end`, and before a text of `stop`. With `draft="ngram"` tokens are
        guessed from the text so far and confirmed several at a time: the same answer, faster where it repeats its
        prompt. `draft` may also be the session of a smaller model with the same vocabulary, which guesses: the same
        answer by the most probable tokens, and the same probabilities of each answer where tokens are drawn.

        A text has at most `context` tokens. With `overflow="error"` a longer prompt is refused, and an answer that
        fills the context ends. With `overflow="window"` it goes on without the oldest tokens: the first `sinks` are
        kept, and the newest, for half of the rest of the context. They are read again then, so that the scores are
        those of a text that consists of them, and penalties see no others.

        `sampling` are the settings of `deploykit.options.generation.Sampling`, such as `temperature`, `top_p`
        and `seed`.

        Raises `UsageError` for an empty prompt, one that is too long, and for settings that are not possible."""
        tokens = prompt_of(self.language, prompt, tools)
        return start(
            *(self.language, tokens),
            max_tokens=max_tokens,
            stop=stop,
            ignore_end=ignore_end,
            draft=draft,
            overflow=overflow,
            sinks=sinks,
            **sampling,
        )

    def beams(
        self,
        prompt: str | Sequence[int] | Sequence[Mapping[str, Any]],
        count: int = 4,
        *,
        max_tokens: int | None = None,
        length_penalty: float = 1.0,
        ignore_end: bool = False,
        tools: Any = None,
    ) -> list[Beam]:
        """The `count` answers with the greatest scores that a search with so many beams finds, the best first; see
        `deploykit.sessions.language.beams`. A greater `length_penalty` favours longer ones. `prompt` is that of
        `generate`.

        Raises `UsageError` for an empty prompt, one that is too long, settings that are not possible, and where the
        memory has too few pages."""
        tokens = prompt_of(self.language, prompt, tools)
        ends = () if ignore_end else self.language.task.stops
        return search(
            self.language, tokens, count=count, max_tokens=max_tokens, length_penalty=length_penalty, ends=ends
        )

    def chat(self, system: str | None = None, *, restore: str | Path | None = None, **settings: Any) -> Chat:
        """A conversation, which begins with a `system` message if one is given. `settings` are those of `generate`.

        `restore` is a file of `Chat.save`, whose conversation goes on. Raises `UsageError` for one that cannot be read,
        was altered, or is of another build of a model, and if there are no pages for it."""
        if self.language.template is None:
            raise UsageError(f"'{self.manifest.name}' has no template of conversations: it continues texts")
        if restore is not None and system is not None:
            raise UsageError("a conversation that is restored has its own system message: leave out 'system'")
        chat = Chat(self.language, system, **settings)
        if restore is not None:
            chat.restore(restore)
        return chat

    def logits(self, given: str | Sequence[int]) -> np.ndarray:
        """The scores (tokens, words) of what follows each token of a text."""
        return self.language.logits(prompt_of(self.language, given))

    def perplexity(self, text: str, length: int = 512) -> float:
        """How well the model expects a text: the exponential of the mean information of its tokens, in parts of
        `length` tokens. Lower is better."""
        return perplexity(self.language, text, length)

    @property
    def _texts_or_pictures(self) -> Texts | Pictures:
        task = self.manifest.task
        return self.texts if task is None or task.takes == "texts" else self.pictures

    @cached_property
    def texts(self) -> Texts:
        """What the model does with texts. Raises `UsageError` if it has no tokenizer."""
        task = self.manifest.task
        if task is None or task.takes != "texts":
            raise self._no("texts")
        from deploykit.text import Tokenizer

        (file,) = task.files
        return Texts(self.manifest, task, Tokenizer((self.folder / file).read_bytes(), self.folder), self.run)

    @cached_property
    def pairs(self) -> Pairs:
        """What the model does with pictures and texts. Raises `UsageError` if it does not compare them."""
        task = self.manifest.task
        if task is None or task.takes != "pairs":
            raise self._no("pictures with texts")
        from deploykit.text import Tokenizer

        (file,) = task.files
        return Pairs(task, Tokenizer((self.folder / file).read_bytes(), self.folder), self.run)

    @cached_property
    def pictures(self) -> Pictures:
        """What the model does with pictures. Raises `UsageError` if it does not say how pictures are prepared."""
        task = self.manifest.task
        if task is None or task.takes != "pictures":
            raise self._no("pictures")
        return Pictures(self.manifest.outputs, task, self.run)

    @cached_property
    def sounds(self) -> Sounds:
        """What the model does with sound. Raises `UsageError` if it does not say how sound is prepared."""
        task = self.manifest.task
        if task is None or task.takes != "sound":
            raise self._no("sound")
        return Sounds(task, self.run)

    @cached_property
    def language(self) -> Language:
        """What the model does with texts that it continues. Raises `UsageError` if it does not continue texts."""
        task = self.manifest.task
        if task is None or task.takes != "messages":
            raise self._no("texts to continue")
        from deploykit.language.library import library_of
        from deploykit.text import Tokenizer

        (file,) = task.files
        tokenizer = Tokenizer((self.folder / file).read_bytes(), self.folder)
        return Language(self.manifest, task, tokenizer, library_of(self.folder), self.run, self._reset, self._states)

    def _answered(self, given: Any, answer: Callable[[Any], Any]) -> Any:
        """The answer for several things, or the only one for a thing alone."""
        texts = self.manifest.task is None or self.manifest.task.takes == "texts"
        if not isinstance(given, str) and (texts or isinstance(given, Sequence)):
            return answer(given)
        return answer([given])[0]

    def _no(self, things: str) -> UsageError:
        """Why there is no method for `things`."""
        name, task = self.manifest.name, self.manifest.task
        if task is not None:
            takes = "pictures with texts" if task.takes == "pairs" else task.takes
            return UsageError(f"'{name}' takes {takes}, not {things}: its session has the method '{task.kind}'")
        why = next((note for note in self.manifest.notes if note.startswith(TENSORS_ONLY)), None)
        if why is not None:
            return UsageError(f"'{name}' takes tensors only: {why.removeprefix(TENSORS_ONLY)}")
        return UsageError(f"'{name}' takes tensors: it was not built from a Hugging Face folder")
