/* Continuous batching: instances join while others run, and each gives its results when it has finished.

   Between two steps, each of which is one flush, the caller may submit instances, cancel some, and take the results of
   those that have finished. What joins is launched together with what runs. A whole run is a stream, too: all instances
   join at its beginning, and steps follow until all have finished.

   An instance has a record in the words: the next record, its ticket, its state, and the words of what `main` returns.
   Instead of a parent, its first frame has the negative handle of the record. Memory is only taken while a stream goes
   on, and all of it is free again when no instance is left. So that this happens, a caller submits while
   `dk_has_room`, and then lets those that run finish. */
#ifndef DEPLOYKIT_STREAM_H
#define DEPLOYKIT_STREAM_H

#include "instances.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a call of generated code does. */
typedef enum dk_verb { DK_VERB_RUN, DK_VERB_SUBMIT, DK_VERB_STEP, DK_VERB_TAKE } dk_verb;

/* The first four numbers are for callers. */
typedef struct dk_stream {
    int32_t running;  /* the instances that run */
    int32_t finished; /* the instances whose results can be taken */
    int32_t ticket;   /* of the next instance; tickets count up, from 0 again after INT32_MAX and after a whole run */
    int32_t failed;   /* the ticket of the instance that failed in the last step, -1 if none */
    dk_verb verb;
    int32_t shared; /* the first value that is the same in every run */
    int32_t first;  /* the records of all instances, in the order in which they joined */
    int32_t last;
    int32_t* tickets; /* where those of the instances that are taken go, or NULL */
    int32_t gathered; /* where words were used up to before results were gathered, and these begin; 0: they were not */
    dk_queue queue;
} dk_stream;

/* Remove an instance, which has finished or not. Returns 0 if there is none with this ticket. */
int dk_cancel(dk_stream* stream, int32_t ticket);

/* Whether less than half of the memory is in use. */
static inline int dk_has_room(const dk_stream* stream) {
    const dk_queue* queue = &stream->queue;
    return stream->running + stream->finished == 0 ||
           (queue->words_used < queue->word_count / 2 && queue->pool_used < queue->pool_count / 2);
}

/* The rest is for generated code. */

/* Check that a stream can do this now. */
dk_status dk_check_verb(dk_model* model, dk_stream* stream, dk_verb verb);

/* Check that `rows` more instances are not more than `maximum`, which is -1 where there is no bound. */
dk_status dk_check_batch(dk_model* model, const dk_stream* stream, int64_t rows, int64_t maximum);

/* Begin without instances, in the memory of the queue. A whole run is for `count` words of instances with `elements`
   elements of tensors. */
dk_status dk_stream_begin(dk_stream* stream, const dk_entry* entry, int64_t count, int64_t elements);

/* Check that the memory is where it was when the stream began. */
dk_status
dk_check_memory(const dk_queue* queue, const int32_t* words, int64_t word_count, const float* pool, int64_t pool_count);

/* Check and copy `rows` instances, which run from now on. After a failure there are as many as before. */
dk_status dk_join(
    dk_stream* stream, const dk_entry* entry, const int32_t* words, int64_t count, const float* tensors,
    int64_t elements, const int32_t* roots, int64_t rows
);

/* After a flush: the instances that have returned have finished. */
void dk_finish(dk_stream* stream);

/* Copy what the finished instances returned, one after the other, to words of their own, from `gathered` on. */
dk_status dk_gather(dk_stream* stream, int32_t results);

/* Forget all instances. */
void dk_end_stream(dk_stream* stream);

/* Remove the finished instances. `launches` receives the counts of the cells since the last time. */
void dk_taken(dk_stream* stream, int32_t* launches);

/* What a call leaves behind. A whole run ends the stream, and so does a failure that leaves its instances undefined. */
dk_status dk_settle(dk_stream* stream, dk_status status);

#ifdef __cplusplus
}
#endif

#endif
