/* Unpacks a file, as it is and damaged: unpack PACKED CODE TIMES. */
#include "unpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

static uint32_t chosen(uint32_t* state, uint32_t most) {
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*state >> 8) * most >> 24);
}

static unsigned char* contents(const char* path, uint32_t* bytes) {
    FILE* file = fopen(path, "rb");
    unsigned char* data;
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        exit(2);
    }
    *bytes = (uint32_t)ftell(file);
    data = (unsigned char*)malloc(*bytes + 1);
    rewind(file);
    if (data == NULL || fread(data, 1, *bytes, file) != *bytes) {
        exit(2);
    }
    fclose(file);
    return data;
}

/* A copy of exactly as many bytes, so that a sanitizer sees what is read behind them. Whether it unpacks to the code.
 */
static int unpacks(const unsigned char* packed, uint32_t bytes, const void* code, uint32_t code_bytes) {
    unsigned char* copy = (unsigned char*)malloc(bytes == 0 ? 1 : bytes);
    uint32_t* found;
    int same;
    if (copy == NULL) {
        exit(2);
    }
    memcpy(copy, packed, bytes);
    found = dk_unpack(copy, bytes, code_bytes);
    if (found == NULL) {
        exit(2);
    }
    same = memcmp(found, code, code_bytes) == 0;
    if (same != (dk_hash(0, found, code_bytes) == dk_hash(0, code, code_bytes))) {
        exit(3);
    }
    free(found);
    free(copy);
    return same;
}

int main(int count, char** arguments) {
    const uint32_t times = (uint32_t)atoi(count > 3 ? arguments[3] : "0");
    uint32_t bytes, code_bytes, state = 1, unharmed = 0;
    unsigned char* packed = contents(arguments[1], &bytes);
    unsigned char* code = contents(arguments[2], &code_bytes);
    if (!unpacks(packed, bytes, code, code_bytes)) {
        return 1;
    }
    for (uint32_t i = 0; i < times; ++i) {
        const uint32_t place = chosen(&state, bytes), before = packed[place];
        packed[place] ^= (unsigned char)(1 + chosen(&state, 255));
        unharmed += (uint32_t)unpacks(packed, bytes, code, code_bytes);
        packed[place] = (unsigned char)before;
        unharmed += (uint32_t)unpacks(packed, place, code, code_bytes);
    }
    /* Less code, and more, than there is. */
    unpacks(packed, bytes, code, code_bytes / 2 / 4 * 4);
    free(dk_unpack(packed, bytes, (int64_t)code_bytes + 4000));
    printf("%u\n", (unsigned)unharmed);
    free(packed);
    free(code);
    return 0;
}
