/* Builds instances of a dynamic model in the caller's memory: the words that its input `instances` takes.

   A function returns the handle of what it builds, which later calls take; 0 where there is no room for it. Then `used`
   still counts, so that it is the number of words to provide. What refers to others is built after them. */
#ifndef DEPLOYKIT_BUILDER_H
#define DEPLOYKIT_BUILDER_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dk_builder {
    int32_t* words;
    int64_t room;
    int64_t used; /* word 0 belongs to no record */
} dk_builder;

static inline dk_builder dk_build_in(int32_t* words, int64_t room) {
    dk_builder builder;
    builder.words = words;
    builder.room = room;
    builder.used = 1;
    if (room > 0) {
        words[0] = 0;
    }
    return builder;
}

/* Room for a record. */
static inline int32_t dk_build(dk_builder* builder, int64_t count) {
    const int64_t handle = builder->used;
    builder->used += count;
    return builder->used <= builder->room && builder->used <= INT32_MAX ? (int32_t)handle : 0;
}

/* A tensor whose elements begin at `offset` of the input `elements`. */
static inline int32_t dk_build_tensor(dk_builder* builder, int32_t offset) {
    const int32_t handle = dk_build(builder, 2);
    if (handle != 0) {
        builder->words[handle] = offset;
        builder->words[handle + 1] = 0;
    }
    return handle;
}

/* A list of items of `width` words, which are set with `dk_item`. */
static inline int32_t dk_build_list(dk_builder* builder, int32_t length, int32_t width) {
    const int32_t handle = dk_build(builder, 4 + (int64_t)length * width);
    if (handle != 0) {
        int32_t* words = builder->words + handle;
        words[0] = words[2] = words[3] = length;
        words[1] = handle + 4;
    }
    return handle;
}

/* The words of an item of a list; NULL for the list 0. */
static inline int32_t* dk_item(const dk_builder* builder, int32_t list, int32_t index, int32_t width) {
    return list == 0 ? NULL : builder->words + list + 4 + (int64_t)index * width;
}

#ifdef __cplusplus
}
#endif

#endif
