"""What a model of texts is tried on, unless the user gives texts."""

from __future__ import annotations

TEXTS = (
    "The train to the coast leaves at a quarter past nine.",
    "I did not like the second half of the film, but the music was wonderful.",
    "Rain.",
    "How do I reset the password of my account if I no longer have the phone number?",
    "Der Hund schläft unter dem Tisch.",
    "Les prix ont augmenté de trois pour cent depuis janvier.",
    "Marie Curie was born in Warsaw and did her research in Paris.",
    "The committee met on Tuesday. After four hours, it had agreed on schools and roads, and left the rest for spring.",
    "A cat sits on the mat.",
    "A kitten lies on a rug.",
    "Stock prices fell sharply after the announcement by the central bank.",
    "Preheat the oven to 180 degrees, then mix flour, sugar, butter and two eggs.",
    "def add(a, b): return a + b",
    "The mitochondria of a cell turn nutrients into energy that it can use.",
    "This is the worst phone that I ever bought: the battery lasts two hours, and the screen broke after a week!",
    "今日は天気がいいですね。",
)

QUESTIONS = (
    ("When does the train leave?", TEXTS[0]),
    ("Where was Marie Curie born?", TEXTS[6]),
    ("When did the committee meet?", TEXTS[7]),
    ("How long does the battery last?", TEXTS[14]),
)
"""A question and the text that has the answer."""
