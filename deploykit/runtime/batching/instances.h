/* What surrounds the queue of a dynamic model: instances that come in, results that go out, and memory for a launch.

   Instances are words, written by a caller, in which a handle is the index of a record. The words of a run begin with
   them, so handles stay as they are. Word 0 belongs to no record. A record comes after the records that it refers to.
   The words of a tensor are its offset in the tensors that the caller gives, and 0. Those of a list are its length n,
   the place of its first item, which is 4 words behind the handle, twice n, and the items. */
#ifndef DEPLOYKIT_INSTANCES_H
#define DEPLOYKIT_INSTANCES_H

#include "batching.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Offsets in a list, and in the block of its items from the first item on. */
enum { DK_LIST_LENGTH, DK_LIST_FIRST, DK_LIST_ITEMS = 4, DK_ITEMS_USED = -2, DK_ITEMS_ROOM = -1 };

/* What second-level caches of CPUs hold, with weights beside it. */
enum { DK_PIECE_BYTES = 1 << 20 };

typedef enum dk_type_kind { DK_TYPE_TENSOR, DK_TYPE_LIST, DK_TYPE_UNION } dk_type_kind;

/* What a handle refers to. `layout`: for a list the layout of an item, for a union those of the fields of its `count`
   variants, one after the other; a tensor has `count` elements. A layout is the number of words, then for each word the
   index of the type of what it refers to, or -1 for a number. */
typedef struct dk_type {
    dk_type_kind kind;
    int32_t count;
    const int32_t* layout;
} dk_type;

/* How instances enter a model: the types of `main`'s parameters, the size of its frame, and the words of its results.
 */
typedef struct dk_entry {
    const dk_type* types;
    const int32_t* layout;
    int32_t kinds; /* of frames */
    int32_t frame;
    int32_t results;
} dk_entry;

/* Copy `count` words of instances, whose roots are `rows` times the words of its layout, to the words at `base`, and
   the elements of tensors to `pool`, with handles and offsets of their new places. Fails with DK_ERROR_DATA where they
   do not follow the types. The words behind those in use are overwritten. */
dk_status dk_copy_instances(
    dk_queue* queue, const dk_entry* entry, const int32_t* words, int64_t count, const float* tensors, int64_t elements,
    const int32_t* roots, int64_t rows, int32_t base, int32_t pool
);

/* Add `count` values to the pool that are the same in every run, each of `sizes` elements; gives the first of them.
   They are 2 words apart. If `elements` is NULL, the values only get places. Returns 0 after a failure. */
int32_t dk_share(dk_queue* queue, const float* elements, const int32_t* sizes, int32_t count);

/* The list with one more item, of `width` words, at the end. The items of the other one stay; the words of the new one
   are not set. Returns 0 after a failure. */
int32_t dk_append(dk_queue* queue, int32_t list, int32_t width);

/* How many nodes of a batch to launch at a time: all, or those of even pieces that need about DK_PIECE_BYTES each.
   `bytes` is the memory that a launch of the whole batch needs, in addition to its results. */
int32_t dk_piece(const dk_queue* queue, const dk_batch* batch, int64_t bytes);

/* Memory for a launch behind the pool in use, NULL where it does not fit or `bytes` is 0. */
void* dk_scratch(dk_queue* queue, int64_t bytes);

/* Fail with DK_ERROR_DATA: a condition of the model does not hold. A `{}` in `message` is replaced by `value`. */
dk_status dk_fail_model(dk_model* model, const char* message, int64_t value);

/* The elements of tensors: of the value at each `stride`-th of the `count` words from `first` on. */
void dk_give_tensors(
    const dk_queue* queue, int32_t first, int32_t stride, int64_t count, int32_t elements, float* result
);

/* The sum of the lengths of lists, whose handles are at each `stride`-th of `count` words; `lengths` receives each. */
int64_t dk_give_lengths(const dk_queue* queue, int32_t first, int32_t stride, int64_t count, int32_t* lengths);

/* The records that results consist of. */
typedef struct dk_records {
    int64_t count;
    int64_t words; /* that they take, and word 0 */
    int64_t elements;
} dk_records;

/* Find the records of the results at `rows` times the words of `layout` from `first` on. The places of the records stay
   behind the words in use until these grow. */
dk_status dk_find_records(
    dk_queue* queue, const dk_type* types, int32_t first, int64_t rows, const int32_t* layout, dk_records* found
);

/* Copy them. `roots`, `words` and `elements` have room for them. */
void dk_give_records(
    const dk_queue* queue, const dk_type* types, int32_t first, int64_t rows, const int32_t* layout,
    const dk_records* found, int32_t* roots, int32_t* words, float* elements
);

/* A float64 in two words. */
static inline double dk_real(const int32_t* words) {
    double value;
    memcpy(&value, words, sizeof value);
    return value;
}

static inline void dk_set_real(int32_t* words, double value) {
    memcpy(words, &value, sizeof value);
}

/* The state of a random number that follows another one, and the number of a state, in 0..1 without 1. */
static inline int32_t dk_next_state(int32_t state) {
    const uint32_t next = (uint32_t)state + 0x9e3779b9u;
    int32_t result;
    memcpy(&result, &next, sizeof result);
    return result;
}

static inline double dk_random(int32_t state) {
    uint32_t mixed = (uint32_t)state;
    mixed = (mixed ^ mixed >> 16) * 0x21f0aaadu;
    mixed = (mixed ^ mixed >> 15) * 0x735a2d97u;
    return (double)(mixed ^ mixed >> 15) / 4294967296.0;
}

/* A number as a float32, in a word. */
static inline int32_t dk_float_word(double value) {
    const float narrow = (float)value;
    int32_t word;
    memcpy(&word, &narrow, sizeof word);
    return word;
}

/* The place of an index among `count` items. One below 0 counts from the end. */
static inline int32_t dk_from_end(int32_t index, int32_t count) {
    return index < 0 ? index + count : index;
}

/* An integer of the control flow: fails with DK_ERROR_DATA, and gives 0, where it has more than 32 bits. */
static inline int32_t dk_whole(dk_queue* queue, int64_t value) {
    if (value < INT32_MIN || value > INT32_MAX) {
        if (queue->status == DK_OK) {
            queue->status = dk_fail_model(queue->model, "the integer {} has more than 32 bits", value);
        }
        return 0;
    }
    return (int32_t)value;
}

#ifdef __cplusplus
}
#endif

#endif
