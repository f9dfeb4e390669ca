/* Several models in a library: the class `Library` of their Java package gives the class of each model its functions,
   when it is used first. So no class waits for that of another model.

   Compile with -DDK_JAVA_CLASS="<package>/Library" and -D'DK_MODELS(X)=...', which has X(<prefix>) for each model, in
   the order of the numbers that Java has for them. */
#include "jni.h"

#include <stddef.h>

#define DECLARE(p) jint p##_dk_register(jni_environment* env, jobject type);
#define ENTRY(p) p##_dk_register,

DK_MODELS(DECLARE)

static jint JNI_register(jni_environment* env, jobject library, jobject type, jint model) {
    static jint (*const models[])(jni_environment*, jobject) = {DK_MODELS(ENTRY)};
    (void)library;
    return models[model](env, type);
}

JNI_EXPORTED jint JNI_OnLoad(jni_machine* machine, void* reserved);

static jint register_library(jni_environment* env, jobject library) {
    static const jni_method method = {"register", "(Ljava/lang/Class;I)I", (jni_function)JNI_register};
    return jni_register(env, library, &method, 1);
}

jint JNI_OnLoad(jni_machine* machine, void* reserved) {
    (void)reserved;
    return jni_load(machine, DK_JAVA_CLASS, register_library);
}
