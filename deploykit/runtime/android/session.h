/* A model that Java has loaded: for each of its functions a model struct, and the memory that they share. */
#ifndef DEPLOYKIT_SESSION_H
#define DEPLOYKIT_SESSION_H

#include "jni.h"

#include <string.h>

#include "gpu.h"
#include "programs.h"
#include "threads.h"

/* Statuses beside those of deploykit.h. */
#define NO_MEMORY 100
#define NOT_MAPPED 101
#define FIXED_MEMORY 102

/* A function of the model on a kind of device. */
typedef struct runner {
    const program* program; /* NULL: the model does not run on it */
    dk_model* model;
} runner;

/* A function of the model. */
typedef struct part {
    runner on_cpu, on_gpu;
    dk_tensor* inputs;
    dk_tensor* outputs;
    int64_t* room; /* by output, for sizes that only a run can tell */
    int64_t* dims; /* memory for those of a run */
    int64_t* kept; /* what `room` and the dims of the model were when a call began */
} part;

/* A file in memory. */
typedef struct blob {
    void* mapped;
    size_t mapped_bytes;
    void* copied; /* what cannot be mapped */
    const void* data;
    size_t bytes;
} blob;

/* The files of a model, by the numbers that Java has for them. */
enum { WEIGHTS, TABLES, BLOBS };

typedef struct session {
    dk_pool* pool;
    blob blobs[BLOBS];
    struct dk_tokenizer* tokenizer; /* NULL: the model takes no texts, or has not opened it yet */
    struct dk_writer* writer;       /* NULL: no answer was asked for */
    void* arena;
    size_t arena_bytes;
    void* state;
    size_t state_bytes;
    dk_gpu* gpu;  /* NULL: runs are on the CPU */
    part* parts;  /* by function */
    int32_t stop; /* ends the run that is under way */
    char error[DK_ERROR_TEXT];
} session;

static inline session* session_of(jlong handle) {
    return (session*)(intptr_t)handle;
}

static inline void write_text(jni_environment* env, jobject target, const char* text) {
    const size_t bytes = strlen(text) + 1;
    const jint room = jni_length(env, target);
    jni_write_bytes(env, target, 0, bytes < (size_t)room ? (jint)bytes : room, text);
}

/* The memory of one of several buffers. */
static inline void* memory_of(jni_environment* env, jobject buffers, jint index) {
    jobject buffer = jni_element(env, buffers, index);
    void* found = jni_buffer_address(env, buffer);
    jni_delete_local(env, buffer);
    return found;
}

static inline runner* running(session* own, jint function) {
    part* found = &own->parts[function];
    return own->gpu != NULL ? &found->on_gpu : &found->on_cpu;
}

/* Note the text of an error. */
static inline jint failed(session* own, dk_status status, const char* text) {
    const size_t bytes = strlen(text);
    if (status != DK_OK) {
        memset(own->error, 0, sizeof own->error);
        memcpy(own->error, text, bytes < sizeof own->error ? bytes : sizeof own->error - 1);
    }
    return (jint)status;
}

/* The dims of a model, behind the common start of its struct. */
static inline int64_t* dims_of(dk_model* model) {
    return (int64_t*)(void*)(model + 1);
}

/* Give the class of the model its functions. */
jint dk_register(jni_environment* env, jobject type);

/* Give all functions the memory of the session. */
void dk_share_memory(session* own);

/* jni_gpu.c */
void dk_leave_gpu(session* own);
jint JNI_open(
    jni_environment* env, jobject type, jlong handle, jint driver, jint adapter, jobject code, jobject cache,
    jobject text
);
jint JNI_adapter(jni_environment* env, jobject type, jint driver, jint index, jobject name, jobject version);
void JNI_leave(jni_environment* env, jobject type, jlong handle);

/* jni_text.c */
void dk_close_tokenizer(session* own);
jint JNI_openTexts(jni_environment* env, jobject type, jlong handle);
jint JNI_encode(
    jni_environment* env, jobject type, jlong handle, jobject first, jobject second, jint most, jboolean bare,
    jobject count
);
void JNI_tokens(
    jni_environment* env, jobject type, jlong handle, jobject ids, jobject types, jobject places, jobject texts
);
jint JNI_decode(jni_environment* env, jobject type, jlong handle, jint token, jobject text, jobject count);

/* jni_messages.c */
void dk_close_writer(session* own);
jlong JNI_answerBytes(jni_environment* env, jobject type, jint tokens, jint at_once);
jint JNI_openAnswers(jni_environment* env, jobject type, jlong handle, jint tokens, jint at_once);
jint JNI_beginAnswer(
    jni_environment* env, jobject type, jlong handle, jobject tokens, jobject settings, jobject biases, jobject stops,
    jobject lengths, jobject unread
);
jint JNI_stepAnswer(jni_environment* env, jobject type, jlong handle, jobject text, jobject step);
jint JNI_saveAnswer(jni_environment* env, jobject type, jlong handle, jobject note, jobject bytes);
void JNI_readSaved(jni_environment* env, jobject type, jlong handle, jlong start, jobject part, jint count);
jint JNI_addSaved(jni_environment* env, jobject type, jlong handle, jobject part, jint count);
jint JNI_restoreAnswer(jni_environment* env, jobject type, jlong handle, jobject note);
void JNI_dropSaved(jni_environment* env, jobject type, jlong handle);
jint JNI_render(jni_environment* env, jobject type, jlong handle, jobject json, jlong now, jobject text, jobject count);

/* jni_pictures.c */
jint JNI_pictureSize(jni_environment* env, jobject type, jlong handle, jint height, jint width, jobject size);
jint JNI_preparePicture(jni_environment* env, jobject type, jlong handle, jobject buffers, jobject described);
jint JNI_prepareFrame(jni_environment* env, jobject type, jobject buffers, jobject described);
jint JNI_objects(jni_environment* env, jobject type, jobject buffers, jobject numbers);
void JNI_segments(jni_environment* env, jobject type, jobject buffers, jobject sizes);

/* jni_sounds.c */
jlong JNI_soundCount(jni_environment* env, jobject type, jlong count, jint rate);
jint JNI_prepareSound(jni_environment* env, jobject type, jlong handle, jobject buffers, jobject described);
void JNI_letters(jni_environment* env, jobject type, jobject buffers, jlong times, jobject place);

/* jni_profile.c */
jint JNI_measure(jni_environment* env, jobject type, jlong handle, jint steps);
void JNI_measured(jni_environment* env, jobject type, jobject calls, jobject host, jobject device);
void dk_collect_times(dk_gpu* gpu);
void dk_forget_gpu(const dk_gpu* gpu);

#endif
