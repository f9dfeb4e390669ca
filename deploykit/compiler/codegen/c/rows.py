"""What functions on rows of 8- and 16-bit integers are in C, for all sets of vectors: their parameters, and what they
compute in plain C. `helium` and `rvv` give the lines that use vectors, and the condition that a compiler knows these.

Each function writes through its first pointer only.
"""

from __future__ import annotations

from collections.abc import Sequence


def assembly(lines: Sequence[str], indent: int = 12) -> str:
    """The text of an assembler's lines."""
    return "\n".join(f'{" " * indent}"{line}\\n"' for line in lines)


def taps(name: str, dtype: str, attribute: str, condition: str, vectors: str) -> tuple[str, str]:
    """The sums of products of channels, of which the data have the dtype."""
    text = f"""/* The sums over `rows` times `columns` taps of products of channels, for each of some outputs.
   Data of rows, columns and outputs are `row`, `column` and `step` apart, weights of taps are `between` apart.
   Sums of an output take a multiple of eight. */
{attribute}static void {name}(
        int32_t *sums, const {dtype}_t *data, int32_t step, int32_t outputs, int32_t row, int32_t column,
        int32_t rows, int32_t columns, const int8_t *weights, int32_t between, int32_t channels) {{
{condition}
{vectors}
#else
    for (; outputs > 0; --outputs, data += step, sums += (channels + 7) / 8 * 8) {{
        for (int32_t c = 0; c < channels; ++c) {{
            int32_t sum = 0;
            for (int32_t tap = 0; tap < rows * columns; ++tap) {{
                const int32_t factor = data[tap / columns * row + tap % columns * column + c];
                sum = (int32_t)((uint32_t)sum + (uint32_t)(factor * weights[tap * between + c]));
            }}
            sums[c] = sum;
        }}
    }}
#endif
}}
"""
    return name, text


def float_taps(name: str, attribute: str, condition: str, vectors: str) -> tuple[str, str]:
    """The sums of products of channels of float32."""
    text = f"""/* The sums over `rows` times `columns` taps of products of channels, for each of some outputs.
   Data of rows, columns and outputs are `row`, `column` and `step` apart, weights `across` and `between`.
   Sums of an output take a multiple of four. */
{attribute}static void {name}(
        float *sums, const float *data, int32_t step, int32_t outputs, int32_t row, int32_t column, int32_t rows,
        int32_t columns, const float *weights, int32_t across, int32_t between, int32_t channels) {{
{condition}
{vectors}
#else
    for (; outputs > 0; --outputs, data += step, sums += (channels + 3) / 4 * 4) {{
        for (int32_t c = 0; c < channels; ++c) {{
            sums[c] = 0.0f;
            for (int32_t i = 0; i < rows; ++i) {{
                for (int32_t j = 0; j < columns; ++j) {{
                    sums[c] += data[i * row + j * column + c] * weights[i * across + j * between + c];
                }}
            }}
        }}
    }}
#endif
}}
"""
    return name, text


def requantize(
    name: str, factor: str, attribute: str, condition: str, vectors: str, dtype: str = "uint8"
) -> tuple[str, str]:
    """Requantisation of the sums of a row: `factor` is the type of factors, a pointer or one number for all."""
    read = "factors[i]" if "*" in factor else "factor"
    bits = dtype.partition("int")[2]
    text = f"""/* saturate(round(sum * factor + bias) + zero) as {bits}-bit integers, each step rounded as in float32.
   There are `rows` of `count` results, whose sums are `between` apart. */
{attribute}static void {name}(
        void *results, const int32_t *sums, int32_t between, int32_t rows, {factor}, const float *biases,
        int32_t count, float low, float high, int32_t zero) {{
    {dtype}_t *stored = results;
    for (; rows > 0; --rows, sums += between, stored += count) {{
{condition}
{vectors}
#else
        for (int32_t i = 0; i < count; ++i) {{
            const float product = (float)sums[i] * {read};
            const float value = product + biases[i];
            const float above = value > low ? value : low;
            stored[i] = ({dtype}_t)((int32_t)nearbyintf(above < high ? above : high) + zero);
        }}
#endif
    }}
}}
"""
    return name, text


COPIED = "memcpy(target, source, (size_t)count);"

SIGNED = """const uint8_t *bytes = source;
    for (int32_t i = 0; i < count; ++i) {
        ((int8_t *)target)[i] = (int8_t)(bytes[i] - 128);
    }"""
"""A copy of unsigned integers as signed ones, 128 less."""


def copy(name: str, condition: str, vectors: str, plain: str) -> tuple[str, str]:
    """A copy of bytes."""
    text = f"""static inline void {name}(void *target, const void *source, int32_t count) {{
{condition}
{vectors}
#else
    {plain}
#endif
}}
"""
    return name, text


def fill(name: str, condition: str, vectors: str) -> tuple[str, str]:
    """Bytes that are all the same."""
    text = f"""static inline void {name}(void *target, int32_t byte, int32_t count) {{
{condition}
{vectors}
#else
    memset(target, byte, (size_t)count);
#endif
}}
"""
    return name, text
