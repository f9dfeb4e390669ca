/* A Java machine that has only what the library of a model may ask for. It ends the program with `MISUSE` and a message
   at the first call that the Java Native Interface Specification does not allow:

       an environment of another thread, or one that is used between two calls
       an object of another type, a reference that is not live, more live references than a machine promises
       a region that is not inside of its array
       a call while an exception is pending
       a function that the library has no use for
       references that are left when a call returns */
#ifndef MACHINE_H
#define MACHINE_H

#include <jni.h>
#include <stddef.h>

#define MISUSE 3
#define MOST_METHODS 64

typedef enum kind { CLASS, BYTES, LONGS, BUFFERS, BUFFER } kind;

/* An array has `count` elements in `data`, a buffer so many bytes. */
typedef struct object {
    kind kind;
    jlong count;
    void* data;
} object;

typedef struct method {
    char name[32];
    char signature[128];
    void (*function)(void);
} method;

/* A machine that knows the class `name` with these native methods, and asks for all of them. What `failing` names is
   refused with an exception: "class" or "methods". */
void machine_start(const char* name, method* methods, int count, const char* failing);

JavaVM* machine(void);
JNIEnv* environment(void);

/* What native code gets for an object, in calls that `machine_enter` and `machine_leave` enclose. */
void machine_enter(void);
jobject given(object* target);
jclass own_class(void);
void machine_leave(void);

/* Memory with a page behind it that cannot be accessed. */
void* guarded(size_t bytes);
void unguard(void* memory, size_t bytes);

void misused(const char* format, ...);

#endif
