/* The exports of the module that encodes and decodes texts. JavaScript puts tables and texts into its memory. */
#include "text.h"

#define EXPORT(name) __attribute__((export_name(#name)))

static dk_text text;
static dk_text_tokens tokens;

EXPORT(open) int32_t dk_web_text_open(const void* tables, size_t bytes) {
    return (int32_t)dk_text_open(&text, tables, bytes);
}

EXPORT(workspace) size_t dk_web_text_workspace(size_t bytes) {
    return dk_text_workspace(&text, bytes);
}

/* Encode a text, or a pair if `second` is not 0; of a pair, the second text is cut. `bare`: without special tokens. The
   arrays follow each other in memory, each with `capacity` elements: ids, types, two numbers of characters, texts,
   special. */
EXPORT(encode)
int32_t dk_web_text_encode(
    const char* first, size_t first_bytes, const char* second, size_t second_bytes, int32_t most, int32_t bare,
    void* workspace, size_t workspace_bytes, int32_t* arrays, int32_t capacity
) {
    const dk_text_cut cut = second == NULL ? DK_TEXT_CUT_LONGEST : DK_TEXT_CUT_SECOND;
    const dk_text_input input = {first, first_bytes, second, second_bytes, most, cut, false, bare != 0};
    int8_t* bytes = (int8_t*)(arrays + 4 * (size_t)capacity);
    tokens.capacity = capacity;
    tokens.ids = arrays;
    tokens.types = arrays + capacity;
    tokens.chars = arrays + 2 * (size_t)capacity;
    tokens.texts = bytes;
    tokens.special = (uint8_t*)bytes + capacity;
    return (int32_t)dk_text_encode(&text, &input, workspace, workspace_bytes, &tokens);
}

/* Write the text of tokens. Returns its bytes; if there are more than `capacity`, none is written. */
EXPORT(decode)
size_t dk_web_text_decode(const int32_t* ids, int32_t count, int32_t skip_special, char* out, size_t capacity) {
    dk_text_stream stream = {{0}, 0, 0, false};
    const dk_text_ids given = {ids, count, skip_special != 0};
    size_t bytes = 0;
    dk_text_decode(&text, &stream, &given, true, out, capacity, &bytes);
    return bytes;
}

/* The bytes of the state of a text that is decoded piece by piece; it begins with zeros. */
EXPORT(stream_bytes) size_t dk_web_text_stream_bytes(void) {
    return sizeof(dk_text_stream);
}

/* Write the text that further tokens add, or with `end` all that is left. Returns its bytes; if there are more than
   `capacity`, none is written, and the state is as before. */
EXPORT(decode_next)
size_t dk_web_text_decode_next(
    dk_text_stream* stream, const int32_t* ids, int32_t count, int32_t end, char* out, size_t capacity
) {
    const dk_text_ids given = {ids, count, true};
    size_t bytes = 0;
    dk_text_decode(&text, stream, &given, end != 0, out, capacity, &bytes);
    return bytes;
}

EXPORT(count) int32_t dk_web_text_count(void) {
    return tokens.count;
}

EXPORT(error) const char* dk_web_text_error(void) {
    return text.error;
}
