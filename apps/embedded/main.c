/* Digits on a display of characters: draws each, asks the model what it is, and shows the answer.

   A picture is 28 by 28 pixels of 8 bits, in flash (drawings.h). The model takes 8-bit integers, so a pixel only moves
   by the zero point: no float is computed outside of the model. */
#include <stdio.h>

#include "drawings.h"
#include "model.h"
#include "weights.h"

#define COLUMNS 10

static DK_ALIGNED unsigned char arena[DIGITS_ARENA_BYTES + 1];
static digits_model model;
static int8_t pixels[SIDE * SIDE];
static int8_t scores[DIGITS_CLASSES];

/* Two rows of pixels in a row of characters, so that the picture keeps its shape. */
static void show(const unsigned char* picture) {
    static const char shades[] = " .:-=+*#%@";
    int row, column;
    for (row = 0; row + 1 < SIDE; row += 2) {
        for (column = 0; column < SIDE; ++column) {
            const int ink = picture[row * SIDE + column] + picture[(row + 1) * SIDE + column];
            putchar(shades[ink * 9 / 510]);
        }
        putchar('\n');
    }
}

/* The class with the highest score. */
static int answer(void) {
    int best = 0;
    int digit;
    for (digit = 1; digit < DIGITS_CLASSES; ++digit) {
        best = scores[digit] > scores[best] ? digit : best;
    }
    return best;
}

static int classify(const unsigned char* picture) {
    dk_tensor inputs[] = {{pixels, sizeof pixels, DK_INT8, 4, {1, 1, SIDE, SIDE}}};
    dk_tensor outputs[] = {{scores, sizeof scores, DK_INT8, 2, {0}}};
    int index;
    for (index = 0; index < SIDE * SIDE; ++index) {
        pixels[index] = (int8_t)(picture[index] + DIGITS_INPUT_PICTURE_ZERO_POINT);
    }
    return digits_run(&model, inputs, outputs) == DK_OK ? answer() : -1;
}

int main(void) {
    int right = 0;
    int index;
    if (dk_crc32(&digits_weights, DIGITS_WEIGHTS_BYTES) != DIGITS_WEIGHTS_CRC32) {
        puts("the weights have changed in flash");
        return 1;
    }
    if (digits_init(&model, &digits_weights, DIGITS_WEIGHTS_BYTES, arena, sizeof arena) != DK_OK) {
        puts(digits_last_error(&model));
        return 1;
    }
    for (index = 0; index < DRAWINGS; ++index) {
        const int found = classify(drawings[index].pixels);
        if (found < 0) {
            puts(digits_last_error(&model));
            return 1;
        }
        show(drawings[index].pixels);
        printf("a %d, %d %% sure\n\n", found, (scores[found] - DIGITS_OUTPUT_PROBABILITY_ZERO_POINT) * 100 / 255);
        right += found == drawings[index].digit;
    }
    printf(
        "%d of %d are right; RAM for tensors: %d bytes\n", right, DRAWINGS,
        (int)(DIGITS_ARENA_BYTES + sizeof pixels + sizeof scores)
    );
    return right >= DRAWINGS - DRAWINGS / 10 ? 0 : 1;
}
