"""Operators on ragged tensors: `deploykit build apps/ragged/ops.py:attention -o dist`."""

from deploykit import ragged
from deploykit.ragged import compute, dim, exp, input, lengths, operator  # noqa: A004

# Products of matrices of different sizes: C[b] = A[b] @ B[b], with A[b] of m[b] x k[b] and B[b] of k[b] x n[b].
batch = dim("batch", maximum=64)
m, k, n = (lengths(name, batch, maximum=512) for name in ("m", "k", "n"))
row, depth, column = dim("row", m[batch]), dim("depth", k[batch]), dim("column", n[batch])
a = input("a", (batch, row, depth))
b = input("b", (batch, depth, column))
c = compute("c", (batch, row, column), ragged.sum(a[batch, row, depth] * b[batch, depth, column], depth))
vgemm = operator("vgemm", c)

# The product of a lower triangular matrix, of which only the triangle is stored, and a dense one.
size = dim("size", maximum=512)
up_to = dim("up_to", size + 1)
across = dim("across", maximum=512)
lower = input("lower", (size, up_to))
dense = input("dense", (size, across))
product = compute("product", (size, across), ragged.sum(lower[size, up_to] * dense[up_to, across], up_to))
trmm = operator("trmm", product)

# Attention in which each token of a sequence sees itself and the tokens before it.
length = lengths("lengths", batch, maximum=512)
token, before = dim("token", length[batch]), dim("before", length[batch])
head, feature = dim("head", 4), dim("feature", 16)
seen = dim("seen", token + 1)
query, key, value = (input(name, (batch, token, head, feature)) for name in ("query", "key", "value"))
scores = compute(
    "scores",
    (batch, head, token, seen),
    ragged.sum(query[batch, token, head, feature] * key[batch, seen, head, feature], feature) * 0.25,
)
score = scores[batch, head, token, seen]
weights = compute("weights", (batch, head, token, seen), exp(score - ragged.max(score, seen)))
weight = weights[batch, head, token, seen]
attended = compute(
    "attended",
    (batch, token, head, feature),
    ragged.sum(weight * value[batch, seen, head, feature], seen) / ragged.sum(weight, seen),
)
attention = operator("attention", attended)

# The softmax of each segment of a long vector.
x = input("x", (batch, token))
exponents = compute("exponents", (batch, token), exp(x[batch, token] - ragged.max(x[batch, token], token)))
share = exponents[batch, token] / ragged.sum(exponents[batch, token], token)
segment_softmax = operator("segment_softmax", compute("y", (batch, token), share))

# A convolution along each sequence, with zeros outside of it.
tap, channel, filter_ = dim("tap", 3), dim("channel", 8), dim("filter", 8)
signal = input("signal", (batch, token, channel))
taps = input("taps", (tap, channel, filter_))
near = signal.at(batch, token + tap - 1, channel, outside=0)
filtered = compute("filtered", (batch, token, filter_), ragged.sum(near * taps[tap, channel, filter_], tap, channel))
convolution = operator("convolution", filtered)

# A set encoder for point clouds: the same small network for each point, then the maximum over the points of a cloud.
axis, inner, outer = dim("axis", 3), dim("inner", 16), dim("outer", 32)
points = input("points", (batch, token, axis))
first, second = input("first", (axis, inner)), input("second", (inner, outer))
hidden = compute(
    "hidden",
    (batch, token, inner),
    ragged.maximum(ragged.sum(points[batch, token, axis] * first[axis, inner], axis), 0),
)
encoded = ragged.sum(hidden[batch, token, inner] * second[inner, outer], inner)
codes = compute("codes", (batch, outer), ragged.max(encoded, token))
set_encoder = operator("set_encoder", codes)

# Texts of sentences of words: lengths of lengths. The mean of the words of each sentence.
text = dim("text", maximum=16)
sentences = lengths("sentences", text, maximum=32)
sentence = dim("sentence", sentences[text])
words = lengths("words", text, sentence, maximum=64)
word = dim("word", words[text, sentence])
vectors = input("vectors", (text, sentence, word, feature))
total = ragged.sum(vectors[text, sentence, word, feature], word)
count = ragged.cast(words[text, sentence], "float32")
means = operator("sentence_means", compute("mean", (text, sentence, feature), total / ragged.maximum(count, 1)))
