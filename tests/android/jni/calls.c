/* Calls the native methods of a class for a program that writes requests to the standard input and reads replies from
   the standard output. The arguments are the library, the class, a file with a line `name signature` for each of its
   native methods, and what the machine refuses (`machine.h`), if anything. The first reply is what JNI_OnLoad returned
   (64 bits).

   A request is the length of a method's name (32 bits), the name, and the arguments. A reply is the result (64 bits;
   0 for void), and for each argument that is an object its contents after the call:

       number     64 bits
       array      the number of elements (32 bits; -1: null), which are 8 or 64 bits each
       buffers    the number of direct buffers (32 bits), and the number of each (32 bits)

   Contents come back without their lengths. A name of length 0, the bytes of a buffer (64 bits) and its contents make
   the next buffer, which lives as long as the program. The reply is its number (64 bits). */
#include "machine.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ARGUMENTS 8
#define MOST_BUFFERS 1024
#define BUFFERS_TYPE "[Ljava/nio/ByteBuffer;"

typedef struct argument {
    jlong number;
    jobject reference;
    object* target; /* NULL: a number, or null */
} argument;

static method methods[MOST_METHODS];
static int method_count;
static object* buffers[MOST_BUFFERS];
static int buffer_count;

/* Read so many bytes; 0 at the end of the input. */
static int take(void* bytes, size_t count) {
    return fread(bytes, 1, count, stdin) == count;
}

static void must_take(void* bytes, size_t count) {
    if (!take(bytes, count)) {
        fputs("the request ends too early\n", stderr);
        exit(EXIT_FAILURE);
    }
}

static void give(const void* bytes, size_t count) {
    fwrite(bytes, 1, count, stdout);
}

static size_t size_of(kind kind) {
    return kind == LONGS ? sizeof(jlong) : kind == BUFFERS ? sizeof(object*) : 1;
}

static object* new_object(kind kind, jlong count) {
    object* made = malloc(sizeof *made);
    made->kind = kind;
    made->count = count;
    made->data = guarded((size_t)count * size_of(kind));
    return made;
}

static object* read_array(kind kind) {
    object* made;
    int32_t count, index, number;
    must_take(&count, sizeof count);
    if (count < 0) {
        return NULL;
    }
    made = new_object(kind, count);
    for (index = 0; kind == BUFFERS && index < count; ++index) {
        must_take(&number, sizeof number);
        ((object**)made->data)[index] = buffers[number];
    }
    if (kind != BUFFERS) {
        must_take(made->data, (size_t)count * size_of(kind));
    }
    return made;
}

/* Write the contents of an array, and free it. */
static void give_array(object* own) {
    const size_t bytes = (size_t)own->count * size_of(own->kind);
    jlong index;
    for (index = 0; own->kind == BUFFERS && index < own->count; ++index) {
        const object* buffer = ((object**)own->data)[index];
        give(buffer->data, (size_t)buffer->count);
    }
    if (own->kind != BUFFERS) {
        give(own->data, bytes);
    }
    unguard(own->data, bytes);
    free(own);
}

static void make_buffer(void) {
    jlong bytes, number = buffer_count++;
    must_take(&bytes, sizeof bytes);
    if (number == MOST_BUFFERS) {
        fputs("there are too many buffers\n", stderr);
        exit(EXIT_FAILURE);
    }
    buffers[number] = new_object(BUFFER, bytes);
    must_take(buffers[number]->data, (size_t)bytes);
    give(&number, sizeof number);
    fflush(stdout);
}

/* Read the arguments that a signature asks for; returns how many. */
static int read_arguments(const char* signature, argument* arguments) {
    int count = 0;
    const char* at = signature + 1;
    while (*at != ')') {
        argument* own = &arguments[count++];
        const kind kind = at[0] != '[' ? BUFFER : at[1] == 'B' ? BYTES : at[1] == 'J' ? LONGS : BUFFERS;
        memset(own, 0, sizeof *own);
        if (kind == BUFFER) {
            must_take(&own->number, sizeof own->number);
        } else {
            own->target = read_array(kind);
            own->reference = given(own->target);
        }
        at += kind == BUFFER ? 1 : kind == BUFFERS ? strlen(BUFFERS_TYPE) : 2;
    }
    return count;
}

#define NUMBER(index) arguments[index].number
#define INT(index) (jint) NUMBER(index)
#define OBJECT(index) arguments[index].reference
#define IS(text) (strcmp(own->signature, text) == 0)
#define CALL(result, ...) ((result (*)(JNIEnv*, jclass, __VA_ARGS__))own->function)

static jlong invoke(const method* own, const argument* arguments) {
    JNIEnv* env = environment();
    jclass type = own_class();
    if (IS("(I)J")) {
        return CALL(jlong, jint)(env, type, INT(0));
    } else if (IS("(J)V")) {
        CALL(void, jlong)(env, type, NUMBER(0));
    } else if (IS("(J)I")) {
        return CALL(jint, jlong)(env, type, NUMBER(0));
    } else if (IS("(JI)I")) {
        return CALL(jint, jlong, jint)(env, type, NUMBER(0), INT(1));
    } else if (IS("(JJ)I")) {
        return CALL(jint, jlong, jlong)(env, type, NUMBER(0), NUMBER(1));
    } else if (IS("(JIJ)I")) {
        return CALL(jint, jlong, jint, jlong)(env, type, NUMBER(0), INT(1), NUMBER(2));
    } else if (IS("(JZ)V")) {
        CALL(void, jlong, jboolean)(env, type, NUMBER(0), (jboolean)NUMBER(1));
    } else if (IS("(JIZ)V")) {
        CALL(void, jlong, jint, jboolean)(env, type, NUMBER(0), INT(1), (jboolean)NUMBER(2));
    } else if (IS("(JIJ[BI)V")) {
        CALL(void, jlong, jint, jlong, jobject, jint)(env, type, NUMBER(0), INT(1), NUMBER(2), OBJECT(3), INT(4));
    } else if (IS("(JII[BJJ)I")) {
        return CALL(jint, jlong, jint, jint, jobject, jlong, jlong)(
            env, type, NUMBER(0), INT(1), INT(2), OBJECT(3), NUMBER(4), NUMBER(5)
        );
    } else if (IS("(J[B[BIZ[J)I")) {
        return CALL(jint, jlong, jobject, jobject, jint, jboolean, jobject)(
            env, type, NUMBER(0), OBJECT(1), OBJECT(2), INT(3), (jboolean)NUMBER(4), OBJECT(5)
        );
    } else if (IS("(II)J")) {
        return CALL(jlong, jint, jint)(env, type, INT(0), INT(1));
    } else if (IS("(JII)I")) {
        return CALL(jint, jlong, jint, jint)(env, type, NUMBER(0), INT(1), INT(2));
    } else if (IS("(J[J[J[J[B[J[J)I")) {
        return CALL(jint, jlong, jobject, jobject, jobject, jobject, jobject, jobject)(
            env, type, NUMBER(0), OBJECT(1), OBJECT(2), OBJECT(3), OBJECT(4), OBJECT(5), OBJECT(6)
        );
    } else if (IS("(J[B[J)I")) {
        return CALL(jint, jlong, jobject, jobject)(env, type, NUMBER(0), OBJECT(1), OBJECT(2));
    } else if (IS("(J[J[J[J[J)V")) {
        CALL(void, jlong, jobject, jobject, jobject, jobject)(
            env, type, NUMBER(0), OBJECT(1), OBJECT(2), OBJECT(3), OBJECT(4)
        );
    } else if (IS("(JJ[BI)V")) {
        CALL(void, jlong, jlong, jobject, jint)(env, type, NUMBER(0), NUMBER(1), OBJECT(2), INT(3));
    } else if (IS("(J[BI)I")) {
        return CALL(jint, jlong, jobject, jint)(env, type, NUMBER(0), OBJECT(1), INT(2));
    } else if (IS("(J[B)V")) {
        CALL(void, jlong, jobject)(env, type, NUMBER(0), OBJECT(1));
    } else if (IS("(J[J)I")) {
        return CALL(jint, jlong, jobject)(env, type, NUMBER(0), OBJECT(1));
    } else if (IS("(I[J)J")) {
        return CALL(jlong, jint, jobject)(env, type, INT(0), OBJECT(1));
    } else if (IS("([J)J")) {
        return CALL(jlong, jobject)(env, type, OBJECT(0));
    } else if (IS("(II[B[B)I")) {
        return CALL(jint, jint, jint, jobject, jobject)(env, type, INT(0), INT(1), OBJECT(2), OBJECT(3));
    } else if (IS("(JII[B[B[B)I")) {
        return CALL(jint, jlong, jint, jint, jobject, jobject, jobject)(
            env, type, NUMBER(0), INT(1), INT(2), OBJECT(3), OBJECT(4), OBJECT(5)
        );
    } else if (IS("([J[J[J)V")) {
        CALL(void, jobject, jobject, jobject)(env, type, OBJECT(0), OBJECT(1), OBJECT(2));
    } else if (IS("(JI" BUFFERS_TYPE "[J[J)I")) {
        return CALL(jint, jlong, jint, jobject, jobject, jobject)(
            env, type, NUMBER(0), INT(1), OBJECT(2), OBJECT(3), OBJECT(4)
        );
    } else if (IS("(JI" BUFFERS_TYPE BUFFERS_TYPE "[J[J)I")) {
        return CALL(jint, jlong, jint, jobject, jobject, jobject, jobject)(
            env, type, NUMBER(0), INT(1), OBJECT(2), OBJECT(3), OBJECT(4), OBJECT(5)
        );
    } else if (IS("(JII[J)I")) {
        return CALL(jint, jlong, jint, jint, jobject)(env, type, NUMBER(0), INT(1), INT(2), OBJECT(3));
    } else if (IS("(JI[B[J)I")) {
        return CALL(jint, jlong, jint, jobject, jobject)(env, type, NUMBER(0), INT(1), OBJECT(2), OBJECT(3));
    } else if (IS("(JI)J")) {
        return CALL(jlong, jlong, jint)(env, type, NUMBER(0), INT(1));
    } else if (IS("(J" BUFFERS_TYPE "[J)I")) {
        return CALL(jint, jlong, jobject, jobject)(env, type, NUMBER(0), OBJECT(1), OBJECT(2));
    } else if (IS("(" BUFFERS_TYPE "[J)I")) {
        return CALL(jint, jobject, jobject)(env, type, OBJECT(0), OBJECT(1));
    } else if (IS("(" BUFFERS_TYPE "[J)V")) {
        CALL(void, jobject, jobject)(env, type, OBJECT(0), OBJECT(1));
    } else if (IS("(" BUFFERS_TYPE "J[J)V")) {
        CALL(void, jobject, jlong, jobject)(env, type, OBJECT(0), NUMBER(1), OBJECT(2));
    } else {
        misused("no method has the signature %s", own->signature);
    }
    return 0;
}

static void serve(const method* own) {
    argument arguments[MOST_ARGUMENTS];
    jlong result;
    int count, index;
    machine_enter();
    count = read_arguments(own->signature, arguments);
    result = invoke(own, arguments);
    machine_leave();
    give(&result, sizeof result);
    for (index = 0; index < count; ++index) {
        if (arguments[index].target != NULL) {
            give_array(arguments[index].target);
        }
    }
    fflush(stdout);
}

/* Serve a request; 0 at the end of the input. */
static int serve_next(void) {
    char name[sizeof methods[0].name] = {0};
    int32_t length;
    int index;
    if (!take(&length, sizeof length)) {
        return 0;
    }
    if (length == 0) {
        make_buffer();
        return 1;
    }
    must_take(name, (size_t)length < sizeof name ? (size_t)length : sizeof name - 1);
    for (index = 0; index < method_count; ++index) {
        if (strcmp(methods[index].name, name) == 0 && methods[index].function != NULL) {
            serve(&methods[index]);
            return 1;
        }
    }
    misused("'%s' is not registered", name);
    return 0;
}

static void read_methods(const char* path) {
    FILE* file = fopen(path, "r");
    while (file != NULL && method_count < MOST_METHODS &&
           fscanf(file, "%31s %127s", methods[method_count].name, methods[method_count].signature) == 2) {
        ++method_count;
    }
    if (file == NULL || !feof(file)) {
        fputs("the methods cannot be read\n", stderr);
        exit(EXIT_FAILURE);
    }
    fclose(file);
}

int main(int count, char** words) {
    void* library = count >= 4 ? dlopen(words[1], RTLD_NOW) : NULL;
    void* found = library == NULL ? NULL : dlsym(library, "JNI_OnLoad");
    jint (*load)(JavaVM*, void*);
    jlong version;
    if (found == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return EXIT_FAILURE;
    }
    memcpy((void*)&load, &found, sizeof found);
    read_methods(words[3]);
    machine_start(words[2], methods, method_count, count > 4 ? words[4] : "");
    machine_enter();
    version = load(machine(), NULL);
    machine_leave();
    give(&version, sizeof version);
    fflush(stdout);
    while (serve_next()) {
    }
    return EXIT_SUCCESS;
}
