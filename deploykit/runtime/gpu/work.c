/* An operation in a list is a head, its places, and its words, padded to a multiple of 8 bytes. */
#include "work.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_ROOM 4096

typedef struct operation_head {
    int32_t kernel, step, place_count, word_count;
} operation_head;

int64_t dk_rounded(int64_t bytes, int64_t unit) {
    return (bytes + unit - 1) & -unit;
}

uint64_t dk_hash(uint64_t hash, const void* data, size_t bytes) {
    const unsigned char* at = (const unsigned char*)data;
    while (bytes > 0) {
        uint64_t word = 0;
        const size_t part = bytes < sizeof word ? bytes : sizeof word;
        memcpy(&word, at, part);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
        at += part;
        bytes -= part;
    }
    return hash;
}

/* Make room for `bytes` more. */
static int32_t reserve(dk_work* work, size_t bytes) {
    size_t room = work->room == 0 ? LEAST_ROOM : work->room;
    unsigned char* data;
    if (work->room - work->bytes >= bytes) {
        return 1;
    }
    while (room - work->bytes < bytes) {
        room *= 2;
    }
    data = (unsigned char*)realloc(work->data, room);
    if (data == NULL) {
        return 0;
    }
    work->data = data;
    work->room = room;
    return 1;
}

static size_t sizes(const operation_head* head, size_t* places, size_t* words) {
    *places = (size_t)head->place_count * sizeof(dk_region);
    *words = (size_t)head->word_count * sizeof(int32_t);
    return sizeof *head + *places + (size_t)dk_rounded((int64_t)*words, 8);
}

int32_t dk_work_add(dk_work* work, const dk_operation* operation) {
    const operation_head head = {operation->kernel, operation->step, operation->place_count, operation->word_count};
    size_t places, words;
    const size_t bytes = sizes(&head, &places, &words);
    unsigned char* at;
    if (!reserve(work, bytes)) {
        return 0;
    }
    at = work->data + work->bytes;
    memset(at + bytes - 8, 0, 8);
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, operation->places, places);
    if (words > 0) {
        memcpy(at + sizeof head + places, operation->words, words);
    }
    work->hash = dk_hash(work->hash, at, bytes);
    work->bytes += bytes;
    ++work->count;
    return 1;
}

size_t dk_work_read(const dk_work* work, size_t at, dk_operation* operation) {
    const unsigned char* data = work->data + at;
    size_t places, words, bytes;
    operation_head head;
    memcpy(&head, data, sizeof head);
    bytes = sizes(&head, &places, &words);
    operation->kernel = head.kernel;
    operation->step = head.step;
    operation->place_count = head.place_count;
    operation->word_count = head.word_count;
    operation->places = (const dk_region*)(const void*)(data + sizeof head);
    operation->words = (const int32_t*)(const void*)(data + sizeof head + places);
    return at + bytes;
}

void dk_work_clear(dk_work* work) {
    work->bytes = 0;
    work->count = 0;
    work->hash = 0;
}

int32_t dk_work_equal(const dk_work* one, const dk_work* other) {
    return one->hash == other->hash && one->bytes == other->bytes &&
           (one->bytes == 0 || memcmp(one->data, other->data, one->bytes) == 0);
}

static int32_t overlap(const dk_region* one, const dk_region* other) {
    return one->buffer == other->buffer && one->offset < other->offset + other->bytes &&
           other->offset < one->offset + one->bytes;
}

static int32_t conflict(const dk_hazards* hazards, const dk_region* place, int32_t writes) {
    for (int32_t i = 0; i < hazards->count; ++i) {
        if ((writes || hazards->written[i]) && overlap(&hazards->places[i], place)) {
            return 1;
        }
    }
    return 0;
}

int32_t dk_must_wait(dk_hazards* hazards, const dk_operation* operation, uint32_t written) {
    const int32_t count = operation->place_count;
    int32_t waits = hazards->count + count > DK_MOST_USES;
    for (int32_t i = 0; i < count && !waits; ++i) {
        waits = operation->places[i].bytes > 0 && conflict(hazards, &operation->places[i], (int32_t)(written >> i & 1));
    }
    if (waits) {
        hazards->count = 0;
    }
    for (int32_t i = 0; i < count; ++i) {
        if (operation->places[i].bytes > 0) {
            hazards->places[hazards->count] = operation->places[i];
            hazards->written[hazards->count] = (uint8_t)(written >> i & 1);
            ++hazards->count;
        }
    }
    return waits;
}
