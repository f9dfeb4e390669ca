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

jint JNI_OnLoad(jni_machine* machine, void* reserved) {
    static const jni_method method = {"register", "(Ljava/lang/Class;I)I", (jni_function)JNI_register};
    void* env = NULL;
    jobject type;
    jint status;
    (void)reserved;
    if (jni_environment_of(machine, &env) != 0) {
        return JNI_ERROR;
    }
    type = jni_find_class(env, DK_JAVA_CLASS);
    if (type == NULL) {
        return JNI_ERROR;
    }
    status = jni_register(env, type, &method, 1);
    jni_delete_local(env, type);
    return status == 0 ? JNI_VERSION_1_6 : JNI_ERROR;
}
