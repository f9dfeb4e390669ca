/* Sound as models take it: one channel, at the rate of the model. */
#include "sounds.h"

#include <float.h>
#include <math.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define PI 3.141592653589793
#define ZEROS 6       /* of the sinc on each side, where it ends */
#define ROLLOFF 0.99  /* what passes, of half the lower rate */
#define VARIANCE 1e-7 /* is added, so that silence stays silence */

const char* dk_sound_error(const dk_sound* sound) {
    if (sound == NULL || (sound->floats == NULL) == (sound->integers == NULL)) {
        return "a sound has samples that are floats or integers, and the other pointer is NULL";
    }
    if (sound->count < 1 || sound->channels < 1) {
        return "a sound has samples, and channels";
    }
    return sound->rate < 1 ? "a rate is a positive integer, in samples per second" : NULL;
}

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

dk_resampling dk_resampling_of(int32_t rate, int32_t wanted) {
    const int64_t divisor = common_divisor(rate, wanted);
    dk_resampling own = {rate / divisor, wanted / divisor, 0, 0};
    own.cutoff = (double)(own.from < own.to ? own.from : own.to) * ROLLOFF / (double)own.from;
    own.reach = own.from == own.to ? 0 : (int64_t)ceil(ZEROS / own.cutoff);
    return own;
}

int64_t dk_resampled_count(const dk_resampling* rates, uint64_t count) {
    if (count > (uint64_t)DK_MAX_EXTENT || (double)count * (double)rates->to >= 4e18) {
        return INT64_MAX;
    }
    return ((int64_t)count * rates->to + rates->from - 1) / rates->from;
}

uint64_t dk_sound_scratch(const dk_resampling* rates, uint64_t count) {
    const uint64_t taps = 2 * (uint64_t)rates->reach + 2;
    return rates->from == rates->to ? 0 : DK_ROOM(4 * count) + DK_ROOM(8 * taps);
}

/* The mean of the channels. Returns whether all samples are finite. */
static bool mix(const dk_sound* sound, float* target) {
    const size_t channels = (size_t)sound->channels;
    bool finite = true;
    for (size_t i = 0; i < sound->count; ++i) {
        float sum = 0;
        for (size_t c = 0; c < channels; ++c) {
            const size_t at = i * channels + c;
            const float sample = sound->floats != NULL ? sound->floats[at] : (float)sound->integers[at] / 32768.0f;
            finite = finite && fabsf(sample) <= FLT_MAX;
            sum += sample;
        }
        target[i] = channels > 1 ? sum / (float)channels : sum;
    }
    return finite;
}

/* The filter at a distance, in zeros of the sinc. */
static double filter(double distance) {
    const double part = distance / ZEROS, angle = PI * distance;
    const double fade = cos((part < -1 ? -1 : part > 1 ? 1 : part) * (PI / 2)), window = fade * fade;
    return distance == 0 ? window : sin(angle) / angle * window;
}

/* New samples that lie at the same place between two old ones have the same weights. */
static void resample(const dk_resampling* rates, const float* samples, int64_t count, float* made, double* weights) {
    const int64_t total = dk_resampled_count(rates, (uint64_t)count), taps = 2 * rates->reach + 2;
    for (int64_t phase = 0; phase < rates->to && phase < total; ++phase) {
        const double part = (double)(phase * rates->from % rates->to) / (double)rates->to;
        for (int64_t tap = 0; tap < taps; ++tap) {
            weights[tap] = filter(((double)(tap - rates->reach) - part) * rates->cutoff) * rates->cutoff;
        }
        for (int64_t i = phase; i < total; i += rates->to) {
            const int64_t start = i * rates->from / rates->to - rates->reach;
            const int64_t end = taps < count - start ? taps : count - start;
            double sum = 0;
            for (int64_t tap = start < 0 ? -start : 0; tap < end; ++tap) {
                sum += (double)samples[start + tap] * weights[tap];
            }
            made[i] = (float)sum;
        }
    }
}

static void make_normal(float* samples, int64_t count) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < count; ++i) {
        mean += (double)samples[i];
    }
    mean /= (double)count;
    for (int64_t i = 0; i < count; ++i) {
        const double apart = (double)samples[i] - mean;
        variance += apart * apart;
    }
    variance = sqrt(variance / (double)count + VARIANCE);
    for (int64_t i = 0; i < count; ++i) {
        samples[i] = (float)(((double)samples[i] - mean) / variance);
    }
}

bool dk_prepare_sound(const dk_sound* sound, int32_t rate, bool normal, float* input, void* scratch) {
    const dk_resampling rates = dk_resampling_of(sound->rate, rate);
    float* mixed = rates.from == rates.to ? input : (float*)scratch;
    const bool finite = mix(sound, mixed);
    if (mixed != input) {
        double* weights = (double*)(void*)((unsigned char*)scratch + DK_ROOM(4 * sound->count));
        resample(&rates, mixed, (int64_t)sound->count, input, weights);
    }
    if (normal) {
        make_normal(input, dk_resampled_count(&rates, sound->count));
    }
    return finite;
}
