/* Answers of a model that generates, for the class `Native`. Java gives tokens, and gets pieces.

   Compile with -DDK_MESSAGES=<the name of the model's dk_language_task>. Answers have memory of their own, with states
   that runs of the model do not change. They are written on the CPU. */
#include "session.h"

#include "generate.h"

#include <stdlib.h>

extern const dk_language_task DK_MESSAGES;

/* What Java passes for an answer, in this order; those that are no integers are the bits of floats. */
enum {
    TEMPERATURE,
    TOP_K,
    TYPICAL_P,
    TOP_P,
    MIN_P,
    REPETITION_PENALTY,
    PRESENCE_PENALTY,
    FREQUENCY_PENALTY,
    PENALTY_LAST,
    SEED,
    MOST,
    IGNORE_END,
    SLIDES,
    SINKS,
    SETTINGS
};

/* What Java gets of a step: tokens of the prompt that are left to read, and if there are none, the piece. */
enum { UNREAD, BYTES, TOKEN, LOGPROB, LAST, STOPPED, ANSWERED, PIECE };

struct dk_writer {
    dk_model* model;
    dk_language language;
    void* workspace;
    /* What an answer uses until it ends. */
    dk_bias* biases;
    char* stops;
    const char** stop_texts;
    size_t* stop_bytes;
    /* What is saved or restored, until Java drops it: so many bytes, with room for more. */
    unsigned char* saved;
    size_t saved_bytes, saved_room;
};

static void free_asked(struct dk_writer* own) {
    free(own->biases);
    free(own->stops);
    free(own->stop_texts);
    free(own->stop_bytes);
    own->biases = NULL;
    own->stops = NULL;
    own->stop_texts = NULL;
    own->stop_bytes = NULL;
}

static void free_saved(struct dk_writer* own) {
    free(own->saved);
    own->saved = NULL;
    own->saved_bytes = 0;
    own->saved_room = 0;
}

void dk_close_writer(session* own) {
    if (own->writer != NULL) {
        free_asked(own->writer);
        free_saved(own->writer);
        free(own->writer->workspace);
        free(own->writer->model);
        free(own->writer);
    }
}

/* The bytes of memory for prompts with their answers of so many tokens, of which `at_once` are read in a step; the
   greatest number if the model does not take so many. */
jlong JNI_answerBytes(jni_environment* env, jobject type, jint tokens, jint at_once) {
    const dk_language_room room = {tokens, at_once, 0};
    dk_language own;
    size_t bytes;
    (void)env;
    (void)type;
    memset(&own, 0, sizeof own);
    own.task = &DK_MESSAGES;
    bytes = dk_language_bytes(&own, &room);
    return bytes == SIZE_MAX ? INT64_MAX : (jlong)bytes;
}

static jint open_writer(session* own) {
    const blob *weights = &own->blobs[WEIGHTS], *tables = &own->blobs[TABLES];
    const program* called = &dk_on_cpu[0];
    const size_t of_cpu = called->descriptor->weights_bytes; /* those for GPUs follow */
    struct dk_writer* made = calloc(1, sizeof *made);
    dk_status status;
    own->writer = made;
    if (made == NULL || (made->model = calloc(1, called->descriptor->model_bytes)) == NULL) {
        dk_close_writer(own);
        own->writer = NULL;
        return NO_MEMORY;
    }
    status = called->init(made->model, weights->data, weights->bytes < of_cpu ? weights->bytes : of_cpu);
    made->model->executor = own->pool == NULL ? NULL : dk_pool_executor(own->pool);
    made->model->stop = &own->stop;
    if (status == DK_OK) {
        status = dk_language_open(&made->language, &DK_MESSAGES, made->model, tables->data, tables->bytes);
    }
    return failed(own, status, made->model->error);
}

/* Make memory for answers, in the place of that which there is: what was read is forgotten. */
jint JNI_openAnswers(jni_environment* env, jobject type, jlong handle, jint tokens, jint at_once) {
    const dk_language_room room = {tokens, at_once, 0};
    const jlong bytes = JNI_answerBytes(env, type, tokens, at_once);
    session* own = session_of(handle);
    struct dk_writer* writer;
    jint status = own->writer == NULL ? open_writer(own) : DK_OK;
    if (status != DK_OK) {
        return status;
    }
    writer = own->writer;
    free(writer->workspace);
    writer->workspace = NULL;
    writer->language.tokens = NULL; /* no answer begins without memory */
    if ((uint64_t)bytes > SIZE_MAX - DK_ALIGNMENT ||
        posix_memalign(&writer->workspace, DK_ALIGNMENT, (size_t)bytes) != 0) {
        writer->workspace = NULL;
        return NO_MEMORY;
    }
    return failed(
        own, dk_language_use(&writer->language, writer->model, &room, writer->workspace, (size_t)bytes),
        writer->model->error
    );
}

static float float_of(jlong bits) {
    const uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* An array of numbers; NULL if there is no memory. */
static jlong* copied_longs(jni_environment* env, jobject numbers, jint* count) {
    jlong* made;
    *count = jni_length(env, numbers);
    made = malloc(8 * ((size_t)*count + 1));
    if (made != NULL) {
        jni_read_longs(env, numbers, 0, *count, made);
    }
    return made;
}

/* Read what adds to scores: pairs of a token and the bits of a value. 0 if there is no memory. */
static int read_biases(jni_environment* env, jobject pairs, struct dk_writer* own, dk_answering* asked) {
    jint count;
    jlong* numbers = copied_longs(env, pairs, &count);
    own->biases = malloc(sizeof *own->biases * ((size_t)count / 2 + 1));
    asked->sampling.biases = own->biases;
    asked->sampling.bias_count = count / 2;
    for (jint i = 0; numbers != NULL && own->biases != NULL && i < count / 2; ++i) {
        own->biases[i].token = (int32_t)numbers[2 * i];
        own->biases[i].value = float_of(numbers[2 * i + 1]);
    }
    free(numbers);
    return numbers != NULL && own->biases != NULL;
}

/* Read texts that end an answer: all their bytes, and how many each has. 0 if there is no memory. */
static int
read_stops(jni_environment* env, jobject texts, jobject lengths, struct dk_writer* own, dk_answering* asked) {
    const jint bytes = jni_length(env, texts);
    jint count;
    jlong* numbers = copied_longs(env, lengths, &count);
    size_t place = 0;
    own->stops = malloc((size_t)bytes + 1);
    own->stop_texts = malloc(sizeof *own->stop_texts * ((size_t)count + 1));
    own->stop_bytes = malloc(sizeof *own->stop_bytes * ((size_t)count + 1));
    if (numbers == NULL || own->stops == NULL || own->stop_texts == NULL || own->stop_bytes == NULL) {
        free(numbers);
        return 0;
    }
    jni_read_bytes(env, texts, 0, bytes, own->stops);
    for (jint i = 0; i < count; ++i) {
        own->stop_texts[i] = own->stops + place;
        own->stop_bytes[i] = (size_t)numbers[i];
        place += (size_t)numbers[i];
    }
    asked->stops = own->stop_texts;
    asked->stop_bytes = own->stop_bytes;
    asked->stop_count = count;
    free(numbers);
    return 1;
}

/* Begin an answer that continues tokens. `unread` receives how many of them the model does not remember. */
jint JNI_beginAnswer(
    jni_environment* env, jobject type, jlong handle, jobject tokens, jobject settings, jobject biases, jobject stops,
    jobject lengths, jobject unread
) {
    session* own = session_of(handle);
    struct dk_writer* writer = own->writer;
    dk_answering asked = {0};
    jlong numbers[SETTINGS], left;
    jint count, status = NO_MEMORY;
    jlong* given = copied_longs(env, tokens, &count);
    int32_t* ids = malloc(4 * ((size_t)count + 1));
    (void)type;
    free_asked(writer);
    jni_read_longs(env, settings, 0, SETTINGS, numbers);
    asked.sampling.temperature = float_of(numbers[TEMPERATURE]);
    asked.sampling.top_k = (int32_t)numbers[TOP_K];
    asked.sampling.typical_p = float_of(numbers[TYPICAL_P]);
    asked.sampling.top_p = float_of(numbers[TOP_P]);
    asked.sampling.min_p = float_of(numbers[MIN_P]);
    asked.sampling.repetition_penalty = float_of(numbers[REPETITION_PENALTY]);
    asked.sampling.presence_penalty = float_of(numbers[PRESENCE_PENALTY]);
    asked.sampling.frequency_penalty = float_of(numbers[FREQUENCY_PENALTY]);
    asked.sampling.penalty_last = (int32_t)numbers[PENALTY_LAST];
    asked.seed = (uint64_t)numbers[SEED];
    asked.most = (int32_t)numbers[MOST];
    asked.ignore_end = numbers[IGNORE_END] != 0;
    asked.slides = numbers[SLIDES] != 0;
    asked.sinks = (int32_t)numbers[SINKS];
    if (given != NULL && ids != NULL && read_biases(env, biases, writer, &asked) &&
        read_stops(env, stops, lengths, writer, &asked)) {
        for (jint i = 0; i < count; ++i) {
            ids[i] = given[i] < 0 || given[i] > INT32_MAX ? -1 : (int32_t)given[i];
        }
        status = failed(
            own, dk_language_continue_tokens(&writer->language, writer->model, ids, count, &asked), writer->model->error
        );
    }
    free(given);
    free(ids);
    left = status == DK_OK ? dk_language_unread(&writer->language) : 0;
    jni_write_longs(env, unread, 0, 1, &left);
    return status;
}

/* A step of the answer: a part of the prompt is read, or, once all of it was read, the next piece is written. */
jint JNI_stepAnswer(jni_environment* env, jobject type, jlong handle, jobject text, jobject step) {
    session* own = session_of(handle);
    struct dk_writer* writer = own->writer;
    dk_piece piece = {0};
    jlong found[PIECE] = {0};
    dk_status status = dk_language_read(&writer->language, writer->model);
    (void)type;
    found[UNREAD] = dk_language_unread(&writer->language);
    if (status == DK_OK && found[UNREAD] == 0) {
        status = dk_language_next(&writer->language, writer->model, &piece);
    }
    if (status == DK_OK && found[UNREAD] == 0) {
        uint32_t bits;
        memcpy(&bits, &piece.logprob, sizeof bits);
        found[BYTES] = (jlong)piece.bytes;
        found[TOKEN] = piece.token;
        found[LOGPROB] = bits;
        found[LAST] = piece.last;
        found[STOPPED] = piece.stopped;
        found[ANSWERED] = writer->language.answered;
        jni_write_bytes(env, text, 0, (jint)piece.bytes, piece.text);
    }
    jni_write_longs(env, step, 0, PIECE, found);
    return failed(own, status, writer->model->error);
}

/* Save the text so far, with a note. `bytes` receives how many bytes `readSaved` gives; 0 without a text. */
jint JNI_saveAnswer(jni_environment* env, jobject type, jlong handle, jobject note, jobject bytes) {
    session* own = session_of(handle);
    struct dk_writer* writer = own->writer;
    const size_t noted = (size_t)jni_length(env, note), needed = dk_language_saved_bytes(&writer->language, noted);
    char* read = malloc(noted + 1);
    const jlong found = (jlong)needed;
    jint status = DK_OK;
    (void)type;
    free_saved(writer);
    if (needed > 0) {
        writer->saved = malloc(needed);
        writer->saved_bytes = needed;
        status = NO_MEMORY;
    }
    if (read != NULL && writer->saved != NULL) {
        jni_read_bytes(env, note, 0, (jint)noted, read);
        status = failed(
            own, dk_language_save(&writer->language, writer->model, read, noted, writer->saved, needed),
            writer->model->error
        );
    }
    free(read);
    jni_write_longs(env, bytes, 0, 1, &found);
    return status;
}

/* Copy so many of the bytes, from one on. */
void JNI_readSaved(jni_environment* env, jobject type, jlong handle, jlong start, jobject part, jint count) {
    (void)type;
    jni_write_bytes(env, part, 0, count, session_of(handle)->writer->saved + start);
}

/* Add bytes of what is to be restored. */
jint JNI_addSaved(jni_environment* env, jobject type, jlong handle, jobject part, jint count) {
    struct dk_writer* own = session_of(handle)->writer;
    const size_t needed = own->saved_bytes + (size_t)count;
    (void)type;
    if (needed > own->saved_room) {
        const size_t room = needed < SIZE_MAX / 4 ? 2 * needed : 0;
        unsigned char* made = room == 0 ? NULL : realloc(own->saved, room);
        if (made == NULL) {
            return NO_MEMORY;
        }
        own->saved = made;
        own->saved_room = room;
    }
    jni_read_bytes(env, part, 0, count, own->saved + own->saved_bytes);
    own->saved_bytes = needed;
    return DK_OK;
}

/* Remember what was added. `note` receives where the note is in it, and its bytes. */
jint JNI_restoreAnswer(jni_environment* env, jobject type, jlong handle, jobject note) {
    session* own = session_of(handle);
    struct dk_writer* writer = own->writer;
    dk_saved found;
    const void* saved = writer->saved == NULL ? (const void*)"" : writer->saved;
    const dk_status status = dk_language_restore(&writer->language, writer->model, saved, writer->saved_bytes, &found);
    (void)type;
    if (status == DK_OK) {
        const jlong place[2] = {found.note - writer->saved, (jlong)found.note_bytes};
        jni_write_longs(env, note, 0, 2, place);
    }
    return failed(own, status, writer->model->error);
}

void JNI_dropSaved(jni_environment* env, jobject type, jlong handle) {
    (void)env;
    (void)type;
    if (session_of(handle)->writer != NULL) {
        free_saved(session_of(handle)->writer);
    }
}

#ifdef DK_SPEAKS
/* Make the text of a conversation. `count` receives how many bytes it has; -1 if it has more than there is room for. */
jint JNI_render(
    jni_environment* env, jobject type, jlong handle, jobject json, jlong now, jobject text, jobject count
) {
    session* own = session_of(handle);
    const jint bytes = jni_length(env, json), room = jni_length(env, text);
    dk_rendering given = {0};
    jint status = NO_MEMORY;
    jlong found = 0;
    char *read = malloc((size_t)bytes + 1), *made = malloc((size_t)room + 1);
    (void)type;
    given.program = DK_MESSAGES.program;
    given.program_bytes = DK_MESSAGES.program_bytes;
    given.json = read;
    given.json_bytes = (size_t)bytes;
    given.now = now;
    given.text = made;
    given.capacity = (size_t)room;
    given.workspace_bytes = 16 * ((size_t)room + 1024);
    given.workspace = malloc(given.workspace_bytes);
    if (read != NULL && made != NULL && given.workspace != NULL) {
        jni_read_bytes(env, json, 0, bytes, read);
        status = dk_render(&given);
        found = (jlong)given.bytes;
        if (status == DK_ERROR_BUFFER || status == DK_ERROR_ARENA) {
            found = -1;
            status = DK_OK;
        } else if (status == DK_OK) {
            jni_write_bytes(env, text, 0, (jint)given.bytes, made);
        }
        status = failed(own, status, given.error == NULL ? "" : given.error);
    }
    free(read);
    free(made);
    free(given.workspace);
    jni_write_longs(env, count, 0, 1, &found);
    return status;
}
#endif
