/* Prepares pictures. Of each, standard input has 7 steps, then its width, height, points and stride, the scale and 6
   values, and its bytes with their number. Writes the size that it gets and its points; or 0, and the length and the
   text of what is wrong. */
#include "pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int next(void* target, size_t bytes) {
    return fread(target, 1, bytes, stdin) == bytes;
}

static void prepare(const dk_picture_steps* steps, const dk_picture* picture) {
    int64_t size[2];
    const char* wrong = dk_picture_error(picture);
    const int32_t support = steps->cubic ? 2 : 1;
    uint64_t bytes, bound;
    float* input;
    void* scratch;
    dk_picture_size(steps, picture->height, picture->width, size);
    if (wrong == NULL && size[0] == 0) {
        wrong = "no size";
    }
    if (wrong != NULL) {
        size[0] = 0;
        size[1] = (int64_t)strlen(wrong);
        fwrite(size, sizeof size, 1, stdout);
        fwrite(wrong, 1, (size_t)size[1], stdout);
        return;
    }
    bytes = dk_picture_scratch(steps, picture->height, picture->width);
    bound = (uint64_t)DK_PICTURE_SCRATCH(
        (int64_t)support, (int64_t)picture->width, (int64_t)picture->height,
        (int64_t)(steps->height > 0 ? steps->height : 1), size[1]
    );
    if (bytes > bound) {
        fprintf(stderr, "%lu bytes, the bound is %lu\n", (unsigned long)bytes, (unsigned long)bound);
        exit(1);
    }
    input = malloc(3 * sizeof *input * (size_t)(size[0] * size[1]));
    scratch = aligned_alloc(64, bytes);
    dk_prepare_picture(steps, picture, input, scratch);
    fwrite(size, sizeof size, 1, stdout);
    fwrite(input, 3 * sizeof *input, (size_t)(size[0] * size[1]), stdout);
    free(input);
    free(scratch);
}

int main(void) {
    int32_t given[12];
    while (next(given, sizeof given)) {
        dk_picture_steps steps = {given[0],      given[1],      given[2], given[3], given[4], given[5],
                                  given[6] != 0, given[7] != 0, 0,        {0},      {0}};
        dk_picture picture = {NULL, given[8], given[9], (dk_points)given[10], (size_t)given[11]};
        uint64_t bytes;
        uint8_t* data;
        if (!next(&steps.scale, sizeof steps.scale) || !next(steps.mean, sizeof steps.mean) ||
            !next(steps.deviation, sizeof steps.deviation) || !next(&bytes, sizeof bytes)) {
            return 1;
        }
        data = malloc(bytes + !bytes);
        if (!next(data, bytes)) {
            return 1;
        }
        picture.data = bytes > 0 ? data : NULL;
        prepare(&steps, &picture);
        free(data);
    }
    return 0;
}
