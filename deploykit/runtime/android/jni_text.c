/* The tokenizer of a model of texts or of one that generates, for the class `Native`. Java makes what the model takes
 * of the tokens. */
#include "session.h"

#include "text.h"

#include <stdlib.h>

enum {
    FIRST_CAPACITY = 256,     /* tokens */
    KEPT_WORKSPACE = 1 << 20, /* bytes that stay for the next text */
    PER_TOKEN = 4 * 4 + 1     /* bytes: id, type, place, text */
};

struct dk_tokenizer {
    dk_text text;
    void* workspace;
    size_t workspace_bytes;
    void* arrays;
    dk_text_tokens tokens;
};

void dk_close_tokenizer(session* own) {
    if (own->tokenizer != NULL) {
        free(own->tokenizer->workspace);
        free(own->tokenizer->arrays);
        free(own->tokenizer);
    }
}

/* Arrays for so many tokens; 0 if there is no memory. */
static int make_room(struct dk_tokenizer* own, int32_t capacity) {
    const size_t count = (size_t)capacity;
    free(own->arrays);
    own->tokens.capacity = 0;
    own->arrays = malloc(PER_TOKEN * count);
    if (own->arrays == NULL) {
        return 0;
    }
    own->tokens.ids = own->arrays;
    own->tokens.types = own->tokens.ids + count;
    own->tokens.chars = own->tokens.types + count;
    own->tokens.texts = (int8_t*)(own->tokens.chars + 2 * count);
    own->tokens.capacity = capacity;
    return 1;
}

jint JNI_openTexts(jni_environment* env, jobject type, jlong handle) {
    session* own = session_of(handle);
    const blob* tables = &own->blobs[TABLES];
    dk_status status;
    (void)env;
    (void)type;
    own->tokenizer = calloc(1, sizeof *own->tokenizer);
    if (own->tokenizer == NULL || !make_room(own->tokenizer, FIRST_CAPACITY)) {
        return NO_MEMORY;
    }
    status = dk_text_open(&own->tokenizer->text, tables->data, tables->bytes);
    return failed(own, status, own->tokenizer->text.error);
}

/* A copy of an array of bytes; NULL if there is no memory. */
static char* copied(jni_environment* env, jobject bytes, size_t* count) {
    const jint length = jni_length(env, bytes);
    char* made = malloc((size_t)length + 1);
    if (made != NULL) {
        jni_read_bytes(env, bytes, 0, length, made);
    }
    *count = (size_t)length;
    return made;
}

static jint encode(session* own, const dk_text_input* input) {
    struct dk_tokenizer* with = own->tokenizer;
    const size_t needed = dk_text_workspace(&with->text, input->first_bytes + input->second_bytes);
    dk_status status = DK_ERROR_CAPACITY;
    if (needed > with->workspace_bytes) {
        free(with->workspace);
        with->workspace = malloc(needed);
        with->workspace_bytes = with->workspace == NULL ? 0 : needed;
    }
    if (with->workspace == NULL) {
        return NO_MEMORY;
    }
    while (status == DK_ERROR_CAPACITY) {
        status = dk_text_encode(&with->text, input, with->workspace, with->workspace_bytes, &with->tokens);
        if (status == DK_ERROR_CAPACITY && !make_room(with, with->tokens.count)) {
            return NO_MEMORY;
        }
    }
    if (with->workspace_bytes > KEPT_WORKSPACE) {
        free(with->workspace);
        with->workspace = NULL;
        with->workspace_bytes = 0;
    }
    return failed(own, status, with->text.error);
}

/* Encode a text, or with `second` a pair of which the second is cut, to at most `most` tokens; 0: any number. With
   `bare`, no special tokens are added. `count` receives how many they are, which `tokens` then gives. */
jint JNI_encode(
    jni_environment* env, jobject type, jlong handle, jobject first, jobject second, jint most, jboolean bare,
    jobject count
) {
    session* own = session_of(handle);
    dk_text_input input = {0};
    char* a = copied(env, first, &input.first_bytes);
    char* b = second == NULL ? NULL : copied(env, second, &input.second_bytes);
    jint status = NO_MEMORY;
    jlong found;
    (void)type;
    if (a != NULL && (second == NULL || b != NULL)) {
        input.first = a;
        input.second = b;
        input.most = most;
        input.bare = bare != 0;
        input.cut = second == NULL ? DK_TEXT_CUT_LONGEST : DK_TEXT_CUT_SECOND;
        status = encode(own, &input);
    }
    free(a);
    free(b);
    found = status == DK_OK ? own->tokenizer->tokens.count : 0;
    jni_write_longs(env, count, 0, 1, &found);
    return status;
}

static void write_numbers(jni_environment* env, jobject target, const int32_t* numbers, jint count) {
    jlong some[64];
    for (jint done = 0; done < count; done += 64) {
        const jint part = count - done < 64 ? count - done : 64;
        for (jint i = 0; i < part; ++i) {
            some[i] = numbers[done + i];
        }
        jni_write_longs(env, target, done, part, some);
    }
}

/* The tokens of the last text: ids, types, two places in characters, and 0 or 1 for the text of each, -1: it was added.
 */
void JNI_tokens(
    jni_environment* env, jobject type, jlong handle, jobject ids, jobject types, jobject places, jobject texts
) {
    const dk_text_tokens* tokens = &session_of(handle)->tokenizer->tokens;
    const jint count = tokens->count;
    (void)type;
    write_numbers(env, ids, tokens->ids, count);
    write_numbers(env, types, tokens->types, count);
    write_numbers(env, places, tokens->chars, 2 * count);
    for (jint i = 0; i < count; ++i) {
        const jlong from = tokens->texts[i];
        jni_write_longs(env, texts, i, 1, &from);
    }
}

#ifdef DK_MASKS
/* Write the text of a token if it has room. `count` receives its bytes. */
jint JNI_decode(jni_environment* env, jobject type, jlong handle, jint token, jobject text, jobject count) {
    session* own = session_of(handle);
    const size_t capacity = (size_t)jni_length(env, text);
    const dk_text_ids ids = {&token, 1, false};
    dk_text_stream stream = {0};
    char* made = malloc(capacity + 1);
    size_t bytes = 0;
    dk_status status;
    jlong found;
    (void)type;
    if (made == NULL) {
        return NO_MEMORY;
    }
    status = dk_text_decode(&own->tokenizer->text, &stream, &ids, true, made, capacity, &bytes);
    found = (jlong)bytes;
    if (status == DK_OK) {
        jni_write_bytes(env, text, 0, (jint)bytes, made);
    }
    free(made);
    jni_write_longs(env, count, 0, 1, &found);
    return DK_OK;
}
#endif
