/* Where objects and segments are in a picture. */
#include "pictures.h"

#include <math.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

static float area(float width, float height) {
    return width > 0 && height > 0 ? width * height : 0;
}

/* The area that two boxes share, as a part of the area that they cover together. */
static float overlap_of(const dk_object* a, const dk_object* b) {
    const float left = fmaxf(a->left, b->left), top = fmaxf(a->top, b->top);
    const float shared = area(fminf(a->right, b->right) - left, fminf(a->bottom, b->bottom) - top);
    const float together =
        area(a->right - a->left, a->bottom - a->top) + area(b->right - b->left, b->bottom - b->top) - shared;
    return together > 0 ? shared / together : 0;
}

static dk_object object_of(const float* logits, const float* place, int32_t classes, int32_t height, int32_t width) {
    const float left = place[0] - place[2] / 2, top = place[1] - place[3] / 2;
    const float wide = (float)width, high = (float)height;
    dk_object found = {0, 0, left * wide, top * high, (left + place[2]) * wide, (top + place[3]) * high};
    float most = logits[classes - 1];
    double sum = 0;
    for (int32_t i = 0; i < classes - 1; ++i) {
        found.label = logits[i] > logits[found.label] ? i : found.label;
        most = logits[i] > most ? logits[i] : most;
    }
    for (int32_t i = 0; i < classes; ++i) {
        sum += (double)expf(logits[i] - most);
    }
    found.score = (float)((double)expf(logits[found.label] - most) / sum);
    return found;
}

/* Drop objects that overlap a better one of their class. */
static int32_t suppress(dk_object* objects, int32_t count, float overlap) {
    int32_t left = 0;
    for (int32_t i = 0; i < count; ++i) {
        int32_t other = 0;
        while (other < left &&
               !(objects[other].label == objects[i].label && overlap_of(&objects[other], &objects[i]) > overlap)) {
            ++other;
        }
        if (other == left) {
            objects[left++] = objects[i];
        }
    }
    return left;
}

int32_t dk_find_objects(
    const float* logits, const float* places, int32_t queries, int32_t classes, int32_t height, int32_t width,
    float least, float overlap, dk_object* objects
) {
    int32_t count = 0;
    for (int32_t query = 0; query < queries; ++query, logits += classes, places += 4) {
        const dk_object found = object_of(logits, places, classes, height, width);
        int32_t at = count;
        if (!(found.score > least)) {
            continue;
        }
        for (; at > 0 && objects[at - 1].score < found.score; --at) {
            objects[at] = objects[at - 1];
        }
        objects[at] = found;
        ++count;
    }
    return suppress(objects, count, overlap);
}

/* The two points that a new point lies between, and how far it is on the way to the second one. */
typedef struct between {
    int32_t before, after;
    float share;
} between;

static between between_of(int32_t source, int32_t length, int32_t index) {
    const float at = ((float)index + 0.5f) * (float)((double)source / length) - 0.5f, place = at > 0 ? at : 0;
    const int32_t whole = (int32_t)place, before = whole < source - 1 ? whole : source - 1;
    const between found = {before, before + 1 < source ? before + 1 : before, place - (float)before};
    return found;
}

static float mixed(float a, float b, float share) {
    return a * (1 - share) + b * share;
}

void dk_find_segments(
    const float* scores, int32_t classes, int32_t rows, int32_t columns, int32_t height, int32_t width, uint8_t* bytes,
    uint16_t* words
) {
    const size_t plane = (size_t)rows * (size_t)columns;
    for (int32_t y = 0; y < height; ++y) {
        const between down = between_of(rows, height, y);
        for (int32_t x = 0; x < width; ++x) {
            const between across = between_of(columns, width, x);
            const float* upper = scores + (size_t)down.before * (size_t)columns;
            const float* lower = scores + (size_t)down.after * (size_t)columns;
            const size_t at = (size_t)y * (size_t)width + (size_t)x;
            int32_t best = 0;
            float most = 0;
            for (int32_t i = 0; i < classes; ++i, upper += plane, lower += plane) {
                const float above = mixed(upper[across.before], upper[across.after], across.share);
                const float below = mixed(lower[across.before], lower[across.after], across.share);
                const float score = mixed(above, below, down.share);
                if (i == 0 || score > most) {
                    best = i;
                    most = score;
                }
            }
            if (words != NULL) {
                words[at] = (uint16_t)best;
            } else {
                bytes[at] = (uint8_t)best;
            }
        }
    }
}
