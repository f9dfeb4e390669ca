#include "machine.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_REFERENCES 65536
#define PROMISED 16 /* without a call of EnsureLocalCapacity */
#define ALIGNMENT 8 /* of the memory of direct buffers */

typedef struct reference {
    object* target;
    int is_live;
} reference;

static struct {
    const char* class_name;
    const char* failing;
    method* methods;
    int method_count;
    pthread_t owner;
    int is_inside; /* native code runs */
    const char* pending;
    reference references[MOST_REFERENCES]; /* used once each, so that none that was deleted becomes another one */
    int used, live, passed;
    object own;
} java;

void misused(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("misuse: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(MISUSE);
}

static jobject made(object* target) {
    reference* own = &java.references[java.used];
    if (++java.used == MOST_REFERENCES || ++java.live - java.passed > PROMISED) {
        misused("more than %d references are live", PROMISED);
    }
    own->target = target;
    own->is_live = 1;
    return (jobject)own;
}

jobject given(object* target) {
    if (target == NULL) {
        return NULL;
    }
    ++java.passed;
    return made(target);
}

jclass own_class(void) {
    return (jclass)given(&java.own);
}

static reference* live(const char* call, jobject object) {
    reference* own = (reference*)(void*)object;
    if (own < java.references || own >= java.references + java.used || !own->is_live) {
        misused("%s of a reference that is not live", call);
    }
    return own;
}

/* Checks that are the same for all calls. */
static void enter(const char* call, JNIEnv* env) {
    if (env != environment() || !java.is_inside || !pthread_equal(java.owner, pthread_self())) {
        misused("%s with an environment that is not the thread's", call);
    }
    if (java.pending != NULL) {
        misused("%s while %s is pending", call, java.pending);
    }
}

static object* object_of(const char* call, JNIEnv* env, jobject own, kind wanted) {
    object* found;
    enter(call, env);
    found = live(call, own)->target;
    if (found->kind != wanted) {
        misused("%s of an object of another type", call);
    }
    return found;
}

static void* region(const char* call, JNIEnv* env, jobject own, kind wanted, jsize start, jsize count, size_t size) {
    object* found = object_of(call, env, own, wanted);
    if (start < 0 || count < 0 || count > found->count - start) {
        misused("%s of %d elements from %d on, of %d", call, (int)count, (int)start, (int)found->count);
    }
    return (char*)found->data + (size_t)start * size;
}

static jclass JNICALL find_class(JNIEnv* env, const char* name) {
    enter("FindClass", env);
    if (strcmp(name, java.class_name) != 0) {
        misused("FindClass of '%s', expected '%s'", name, java.class_name);
    }
    java.pending = strcmp(java.failing, "class") == 0 ? "a NoClassDefFoundError" : NULL;
    return java.pending != NULL ? NULL : (jclass)made(&java.own);
}

static jint JNICALL register_natives(JNIEnv* env, jclass type, const JNINativeMethod* methods, jint count) {
    int index, other;
    object_of("RegisterNatives", env, type, CLASS);
    java.pending = strcmp(java.failing, "methods") == 0 ? "a NoSuchMethodError" : NULL;
    if (java.pending != NULL) {
        return JNI_ERR;
    }
    for (index = 0; index < count; ++index) {
        for (other = 0; other < java.method_count; ++other) {
            if (strcmp(java.methods[other].name, methods[index].name) == 0) {
                break;
            }
        }
        if (other == java.method_count || strcmp(java.methods[other].signature, methods[index].signature) != 0 ||
            java.methods[other].function != NULL || methods[index].fnPtr == NULL) {
            misused("RegisterNatives of '%s%s'", methods[index].name, methods[index].signature);
        }
        memcpy(&java.methods[other].function, &methods[index].fnPtr, sizeof methods[index].fnPtr);
    }
    return JNI_OK;
}

static void JNICALL delete_local(JNIEnv* env, jobject own) {
    if (env != environment() || !java.is_inside) {
        misused("DeleteLocalRef with an environment that is not the thread's");
    }
    if (own != NULL) {
        live("DeleteLocalRef", own)->is_live = 0;
        --java.live;
    }
}

static jsize JNICALL length_of(JNIEnv* env, jarray array) {
    object* found;
    enter("GetArrayLength", env);
    found = live("GetArrayLength", array)->target;
    if (found->kind != BYTES && found->kind != LONGS && found->kind != BUFFERS) {
        misused("GetArrayLength of what is no array");
    }
    return (jsize)found->count;
}

static jobject JNICALL element_of(JNIEnv* env, jobjectArray array, jsize index) {
    return made(*(object**)region("GetObjectArrayElement", env, array, BUFFERS, index, 1, sizeof(object*)));
}

static void JNICALL read_bytes(JNIEnv* env, jbyteArray array, jsize start, jsize count, jbyte* bytes) {
    memcpy(bytes, region("GetByteArrayRegion", env, array, BYTES, start, count, 1), (size_t)count);
}

static void JNICALL read_longs(JNIEnv* env, jlongArray array, jsize start, jsize count, jlong* numbers) {
    memcpy(numbers, region("GetLongArrayRegion", env, array, LONGS, start, count, 8), (size_t)count * 8);
}

static void JNICALL write_bytes(JNIEnv* env, jbyteArray array, jsize start, jsize count, const jbyte* bytes) {
    memcpy(region("SetByteArrayRegion", env, array, BYTES, start, count, 1), bytes, (size_t)count);
}

static void JNICALL write_longs(JNIEnv* env, jlongArray array, jsize start, jsize count, const jlong* numbers) {
    memcpy(region("SetLongArrayRegion", env, array, LONGS, start, count, 8), numbers, (size_t)count * 8);
}

static void* JNICALL address_of(JNIEnv* env, jobject buffer) {
    return object_of("GetDirectBufferAddress", env, buffer, BUFFER)->data;
}

static jlong JNICALL capacity_of(JNIEnv* env, jobject buffer) {
    return object_of("GetDirectBufferCapacity", env, buffer, BUFFER)->count;
}

static void unexpected(void) {
    misused("a function that the library has no use for");
}

static jint JNICALL environment_of(JavaVM* vm, void** env, jint version) {
    if (vm != machine() || version != JNI_VERSION_1_6) {
        misused("GetEnv of another machine or version");
    }
    *env = environment();
    return JNI_OK;
}

static struct JNINativeInterface_ functions;
static struct JNIInvokeInterface_ invocation;

JNIEnv* environment(void) {
    static const struct JNINativeInterface_* const table = &functions;
    return (JNIEnv*)(uintptr_t)&table;
}

JavaVM* machine(void) {
    static const struct JNIInvokeInterface_* const table = &invocation;
    return (JavaVM*)(uintptr_t)&table;
}

/* Let every function of a table be unexpected. */
static void refuse_all(void* table, size_t bytes) {
    void (*function)(void) = unexpected;
    size_t at;
    for (at = 0; at < bytes; at += sizeof function) {
        memcpy((char*)table + at, (void*)&function, sizeof function);
    }
}

void machine_start(const char* name, method* methods, int count, const char* failing) {
    java.class_name = name;
    java.methods = methods;
    java.method_count = count;
    java.failing = failing;
    java.owner = pthread_self();
    refuse_all(&functions, sizeof functions);
    refuse_all(&invocation, sizeof invocation);
    invocation.GetEnv = environment_of;
    functions.FindClass = find_class;
    functions.RegisterNatives = register_natives;
    functions.DeleteLocalRef = delete_local;
    functions.GetArrayLength = length_of;
    functions.GetObjectArrayElement = element_of;
    functions.GetByteArrayRegion = read_bytes;
    functions.GetLongArrayRegion = read_longs;
    functions.SetByteArrayRegion = write_bytes;
    functions.SetLongArrayRegion = write_longs;
    functions.GetDirectBufferAddress = address_of;
    functions.GetDirectBufferCapacity = capacity_of;
}

void machine_enter(void) {
    java.used = java.live = java.passed = 0;
    java.is_inside = 1;
}

void machine_leave(void) {
    java.is_inside = 0;
    java.pending = NULL; /* Java throws it */
    if (java.live > java.passed) {
        misused("%d references are left", java.live - java.passed);
    }
}

static size_t pages_of(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

void* guarded(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), used = pages_of(bytes);
    char* all = mmap(NULL, used + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || mprotect(all + used, page, PROT_NONE) != 0) {
        abort();
    }
    return all + (used - bytes) / ALIGNMENT * ALIGNMENT;
}

void unguard(void* memory, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), used = pages_of(bytes);
    munmap((char*)memory - (used - bytes) / ALIGNMENT * ALIGNMENT, used + page);
}
