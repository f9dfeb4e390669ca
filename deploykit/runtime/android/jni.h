/* The part of the Java Native Interface that `jni.c` needs. The numbers are places in the tables of functions that Java
   passes (Java Native Interface Specification, chapters 4 and 5). */
#ifndef DEPLOYKIT_JNI_H
#define DEPLOYKIT_JNI_H

#include <stddef.h>
#include <stdint.h>

#define JNI_VERSION_1_6 0x00010006
#define JNI_ERROR (-1)

typedef int8_t jbyte;
typedef uint8_t jboolean;
typedef int32_t jint;
typedef int64_t jlong;
typedef void* jobject;

typedef void (*jni_function)(void);
typedef const jni_function* const jni_environment; /* what a JNIEnv points to */
typedef const jni_function* const jni_machine;     /* what a JavaVM points to */

/* What a library exports whose other symbols are hidden. */
#define JNI_EXPORTED __attribute__((visibility("default")))

typedef struct jni_method {
    const char* name;
    const char* signature;
    jni_function function;
} jni_method;

static inline jint jni_environment_of(jni_machine* machine, void** environment) {
    return ((jint (*)(jni_machine*, void**, jint))(*machine)[6])(machine, environment, JNI_VERSION_1_6);
}

static inline jobject jni_find_class(jni_environment* env, const char* name) {
    return ((jobject (*)(jni_environment*, const char*))(*env)[6])(env, name);
}

static inline void jni_delete_local(jni_environment* env, jobject object) {
    ((void (*)(jni_environment*, jobject))(*env)[23])(env, object);
}

static inline jint jni_length(jni_environment* env, jobject array) {
    return ((jint (*)(jni_environment*, jobject))(*env)[171])(env, array);
}

static inline jobject jni_element(jni_environment* env, jobject array, jint index) {
    return ((jobject (*)(jni_environment*, jobject, jint))(*env)[173])(env, array, index);
}

static inline void jni_read_bytes(jni_environment* env, jobject array, jint start, jint count, void* bytes) {
    ((void (*)(jni_environment*, jobject, jint, jint, jbyte*))(*env)[200])(env, array, start, count, bytes);
}

static inline void jni_read_longs(jni_environment* env, jobject array, jint start, jint count, jlong* numbers) {
    ((void (*)(jni_environment*, jobject, jint, jint, jlong*))(*env)[204])(env, array, start, count, numbers);
}

static inline void jni_write_bytes(jni_environment* env, jobject array, jint start, jint count, const void* bytes) {
    ((void (*)(jni_environment*, jobject, jint, jint, const jbyte*))(*env)[208])(env, array, start, count, bytes);
}

static inline void jni_write_longs(jni_environment* env, jobject array, jint start, jint count, const jlong* numbers) {
    ((void (*)(jni_environment*, jobject, jint, jint, const jlong*))(*env)[212])(env, array, start, count, numbers);
}

static inline jint jni_register(jni_environment* env, jobject type, const jni_method* methods, jint count) {
    return ((jint (*)(jni_environment*, jobject, const jni_method*, jint))(*env)[215])(env, type, methods, count);
}

/* Give a class its functions by `add`, when Java loads the library: what `JNI_OnLoad` returns. */
static inline jint jni_load(jni_machine* machine, const char* name, jint (*add)(jni_environment*, jobject)) {
    void* env = NULL;
    jobject type;
    jint status;
    if (jni_environment_of(machine, &env) != 0) {
        return JNI_ERROR;
    }
    type = jni_find_class(env, name);
    if (type == NULL) {
        return JNI_ERROR;
    }
    status = add(env, type);
    jni_delete_local(env, type);
    return status == 0 ? JNI_VERSION_1_6 : JNI_ERROR;
}

static inline void* jni_buffer_address(jni_environment* env, jobject buffer) {
    return ((void* (*)(jni_environment*, jobject))(*env)[230])(env, buffer);
}

static inline jlong jni_buffer_bytes(jni_environment* env, jobject buffer) {
    return ((jlong (*)(jni_environment*, jobject))(*env)[231])(env, buffer);
}

#endif
