/* Models of sound: sound in, answers out. `model_sounds.h` of a model has these functions with its own names.

   A sound is mixed to one channel, resampled to the rate of the model, and, if the model takes it so, made to have the
   mean 0 and the variance 1. Each new sample is a weighted sum of the old ones around it, by a sinc that a Hann window
   fades out. (Source: Smith, "Digital Audio Resampling", 2002.)

   One `dk_sounds` with its model serves one thread at a time; any number of them may share weights. */
#ifndef DEPLOYKIT_SOUNDS_H
#define DEPLOYKIT_SOUNDS_H

#include "answers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Samples are floats in -1..1, or integers, of which 32768 is 1; the other pointer is NULL. */
typedef struct dk_sound {
    const float* floats;
    const int16_t* integers;
    size_t count;     /* samples of each channel */
    int32_t channels; /* samples of channels at the same time follow each other */
    int32_t rate;     /* samples per second */
} dk_sound;

/* What a model does with sound. */
typedef struct dk_sounds_task {
    dk_functions functions;
    int32_t rate;
    bool normal;                /* the mean becomes 0, and the variance 1 */
    int32_t output;             /* the index of the answer */
    int32_t width;              /* classes, or letters */
    const char* const* letters; /* of transcripts, where blanks are empty; NULL: there are none */
    const int32_t* alike;       /* for each letter the first one that is the same: as neighbours they are one */
    int32_t longest;            /* bytes of the longest letter */
    dk_scores scores;
} dk_sounds_task;

typedef struct dk_sounds {
    const dk_sounds_task* task;
    dk_workspace workspace;
} dk_sounds;

/* What resampling needs to know of two rates. */
typedef struct dk_resampling {
    int64_t from, to; /* the rates without their common divisor */
    int64_t reach;    /* samples around a place, on each side */
    double cutoff;
} dk_resampling;

/* resample.c */

/* What is wrong with a sound; NULL: nothing. No sample is read. */
const char* dk_sound_error(const dk_sound* sound);

dk_resampling dk_resampling_of(int32_t rate, int32_t wanted);

/* How many samples a sound has at another rate; INT64_MAX if that is out of bounds. */
int64_t dk_resampled_count(const dk_resampling* rates, uint64_t count);

/* Bytes of memory to prepare a sound. */
uint64_t dk_sound_scratch(const dk_resampling* rates, uint64_t count);

/* Write the samples into an input. Returns whether all are finite. */
bool dk_prepare_sound(const dk_sound* sound, int32_t rate, bool normal, float* input, void* scratch);

/* sounds.c */

/* Begin. There is no workspace yet. */
void dk_sounds_open(dk_sounds* own, const dk_sounds_task* task);

/* Bytes of workspace for sounds with so many samples at this rate; SIZE_MAX if the model does not take them, and the
   model says why. */
size_t dk_sounds_bytes(const dk_sounds* own, dk_model* model, size_t count, int32_t rate);

/* Use a workspace, at a multiple of 64 bytes. */
dk_status dk_sounds_use(dk_sounds* own, dk_model* model, void* workspace, size_t bytes);

/* The scores of the classes of a sound. */
dk_status dk_sounds_classify(dk_sounds* own, dk_model* model, const dk_sound* sound, float* scores);

/* What is said in a sound, as UTF-8 that ends with a zero byte. After DK_ERROR_CAPACITY, `need.extent` of the model
   says how many bytes it has, with the zero. */
dk_status dk_sounds_transcribe(dk_sounds* own, dk_model* model, const dk_sound* sound, char* text, size_t capacity);

/* The transcript of scores [times, width of the task]: the most probable letters, where equal neighbours are one,
   without blanks, and without spaces around them. `text` has room for `longest` bytes at each time. Returns its bytes;
   `begin` receives where it begins. */
size_t dk_find_letters(const dk_sounds_task* task, const float* scores, int64_t times, char* text, size_t* begin);

#ifdef __cplusplus
}
#endif

#endif
