/* Sounds as a model takes them, and their transcripts, for the class `Native`.

   Compile with -DDK_SOUNDS=<the name of the model's dk_sounds_task>. */
#include "session.h"

#include "sounds.h"

#include <stdlib.h>

extern const dk_sounds_task DK_SOUNDS;

/* How many samples the model takes of a sound with so many; 0 if there is no such sound. */
jlong JNI_soundCount(jni_environment* env, jobject type, jlong count, jint rate) {
    dk_resampling rates;
    int64_t found;
    (void)env;
    (void)type;
    if (rate < 1 || count < 1) {
        return 0;
    }
    rates = dk_resampling_of(rate, DK_SOUNDS.rate);
    found = dk_resampled_count(&rates, (uint64_t)count);
    return found == INT64_MAX ? 0 : found;
}

/* Write samples into an input. `buffers` has these; `described` the samples of each channel, the channels, the rate,
   and whether they are integers. */
jint JNI_prepareSound(jni_environment* env, jobject type, jlong handle, jobject buffers, jobject described) {
    const void* samples = memory_of(env, buffers, 0);
    dk_resampling rates;
    dk_sound sound = {0};
    jlong numbers[4];
    bool finite;
    const char* wrong;
    void* scratch;
    (void)type;
    jni_read_longs(env, described, 0, 4, numbers);
    sound.count = (size_t)numbers[0];
    sound.channels = (int32_t)numbers[1];
    sound.rate = (int32_t)numbers[2];
    sound.floats = numbers[3] ? NULL : samples;
    sound.integers = numbers[3] ? samples : NULL;
    wrong = dk_sound_error(&sound);
    if (wrong != NULL) {
        return failed(session_of(handle), DK_ERROR_USAGE, wrong);
    }
    rates = dk_resampling_of(sound.rate, DK_SOUNDS.rate);
    if (posix_memalign(&scratch, 64, (size_t)dk_sound_scratch(&rates, sound.count) + 64) != 0) {
        return NO_MEMORY;
    }
    finite = dk_prepare_sound(&sound, DK_SOUNDS.rate, DK_SOUNDS.normal, memory_of(env, buffers, 1), scratch);
    free(scratch);
    return failed(
        session_of(handle), finite ? DK_OK : DK_ERROR_DATA,
        "samples must be finite: these have infinities or values that are no numbers"
    );
}

/* `buffers` has scores, and room for the longest letter at each time. `place` receives where the transcript begins in
   it, and its bytes. */
void JNI_letters(jni_environment* env, jobject type, jobject buffers, jlong times, jobject place) {
    size_t begin;
    jlong found[2];
    (void)type;
    found[1] =
        (jlong)dk_find_letters(&DK_SOUNDS, memory_of(env, buffers, 0), times, memory_of(env, buffers, 1), &begin);
    found[0] = (jlong)begin;
    jni_write_longs(env, place, 0, 2, found);
}
