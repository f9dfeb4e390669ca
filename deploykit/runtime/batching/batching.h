/* Runs the control flow of many instances of a dynamic model, and their cells in batches.

   The control flow of a model is generated as a state machine. It works on `words`, a heap of int32_t: instances,
   lists, frames of calls, and the queue. A handle is an index into the heap, and 0 is no handle. Tensors are in `pool`,
   an array of float. A value is the handle of two words: the offset of its elements in the pool, -1 until it is
   computed, and the node that computes it, 0 if none.

   A node is one use of a cell. `dk_record` adds a node to the queue. When no frame can go on, a flush runs nodes: those
   that the frames wait for, or all nodes when none waits. What nobody waits for is kept, so that it runs with what is
   recorded later. `dk_next_batch` chooses nodes of one cell that are ready, gives their results places side by side,
   and lists the places of their operands; generated code then launches the cell once for all of them. Which cell comes
   next is up to a policy. All memory is the caller's; where it ends, the run fails with the capacity that it needs. */
#ifndef DEPLOYKIT_BATCHING_H
#define DEPLOYKIT_BATCHING_H

#include "deploykit.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dk_policy {
    DK_POLICY_DEPTH = 0,  /* by depth, then by cell: one pass, without a look at the graph (ACRoBat, TensorFlow Fold) */
    DK_POLICY_FSM = 1,    /* a table says which cell is next, by the cells that have ready nodes (ED-Batch) */
    DK_POLICY_AGENDA = 2, /* the cell whose nodes have the least mean depth (DyNet) */
    DK_POLICY_ALONE = 3,  /* each node in a batch of its own, in the order of the program */
    DK_POLICY_CRITICAL = 4 /* the cell whose longest chain can only be shortened by it now (critical path) */
} dk_policy;

/* Added to the policy of a run, it asks for a trace: which nodes each launch ran, and for what. */
enum { DK_TRACE = 16 };

/* What a cell reads and writes for one node. Operands of a node are `operands` values, then `numbers` integers.
   `shared`: there is one operand, and nodes with the same one are one node. */
typedef struct dk_cell {
    int32_t operands;
    int32_t numbers;
    int32_t results;
    const int32_t* elements; /* of each result */
    int32_t shared;
} dk_cell;

/* What a state of a learned policy is: the cells that have ready nodes. */
typedef enum dk_encoding {
    DK_ENCODING_BASE = 0, /* in the order of their numbers */
    DK_ENCODING_MAX = 1,  /* the same, then the cell that has the most ready nodes */
    DK_ENCODING_SORT = 2  /* those with more ready nodes first */
} dk_encoding;

/* The states of a learned policy: `count` (a power of two) pairs of a hash of a state, 0 for none, and a cell. */
typedef struct dk_table {
    dk_encoding encoding;
    int32_t count;
    const uint32_t* entries;
} dk_table;

/* Nodes of one cell to launch together. */
typedef struct dk_batch {
    int32_t cell;
    int32_t count;
    int32_t stride;
    const int32_t* indices; /* `count` for each operand and number, `stride` apart: offsets in the pool, or numbers */
    const int32_t* results; /* for each result, the offset in the pool of its first row; `count` rows follow */
} dk_batch;

/* What caches hold: the elements of a part of a flush. Nodes with this many elements each are large: they have work
   enough for a launch of their own. */
enum { DK_PART_ELEMENTS = 1 << 20, DK_LARGE_NODE = 4096 };

/* Offsets in a node. */
enum { DK_NODE_CELL, DK_NODE_DEPTH, DK_NODE_NEXT, DK_NODE_RESULTS };

/* Offsets in the words behind a node of a run with a trace. The first DK_TRACED are what the trace has of it: the
   number of its launch, -1 if it was not launched; its cell; the instance that recorded it; and the handle of the
   object that the function which recorded it was called with, 0 if none. */
enum {
    DK_TRACE_LAUNCH,
    DK_TRACE_CELL,
    DK_TRACE_INSTANCE,
    DK_TRACE_OBJECT,
    DK_TRACED,
    DK_TRACE_BEFORE = DK_TRACED,
    DK_TRACE_WORDS
};

/* Offsets in a frame, before the variables of its function. A frame that waits for calls counts them in
   DK_FRAME_PENDING; one that can go on, or waits for a flush, has the next such frame there. DK_FRAME_AWAITED is the
   value that it waits for. DK_FRAME_PARENT of the first frame of an instance is the negative handle of its record. */
enum {
    DK_FRAME_PLACE,
    DK_FRAME_PARENT,
    DK_FRAME_RESULT,
    DK_FRAME_PENDING,
    DK_FRAME_NEXT = DK_FRAME_PENDING,
    DK_FRAME_AWAITED,
    DK_FRAME_VARIABLES
};

/* Offsets in the record of an instance (stream.h), and its states. */
enum { DK_INSTANCE_NEXT, DK_INSTANCE_TICKET, DK_INSTANCE_STATE, DK_INSTANCE_RESULTS };
enum { DK_RUNNING, DK_RETURNED, DK_FINISHED };

typedef struct dk_queue {
    dk_model* model;
    int32_t* words;
    int32_t word_count;
    int32_t words_used;
    int32_t words_dim; /* index of the capacity dim of the words */
    float* pool;
    int32_t pool_count;
    int32_t pool_used;
    int32_t pool_dim;
    int32_t alignment; /* elements and words: results of a batch, and its indices, start at multiples of this */
    const dk_cell* cells;
    int32_t cell_count;
    dk_policy policy;
    int32_t part; /* elements of the results of large nodes that a flush launches before those behind them; 0: all */
    dk_table table;
    int32_t* launches; /* by cell */
    dk_status status;  /* of the first failure */
    int32_t frame;     /* that runs, 0 if none; after a failure of the control flow, the one that failed */
    int32_t ready;     /* the frames that can go on, the next one first */
    int32_t waiting;   /* the frames that wait for a flush */
    int32_t returned;  /* how many instances have returned since the last flush */
    int32_t free;      /* for each kind of frame, those that may be used again */
    int32_t first;     /* the nodes to launch, in the order of the program */
    int32_t last;
    int32_t rest; /* the nodes of the flush behind them */
    int32_t kept; /* the nodes that no frame waits for, in the same order */
    int32_t last_kept;
    int32_t flushing; /* the end of the state of a flush, which begins at words_used; 0: none */
    int32_t in_order; /* whether the flush launches its nodes one by one, in the order of the program */
    int32_t trace;    /* words behind each node: DK_TRACE_WORDS, or 0 for no trace */
    int32_t traced;   /* nodes with such words, and those of the last one */
    int32_t last_traced;
    int32_t launched; /* batches */
    int32_t shared;   /* the table of shared nodes (shared.c), its entries, and those in use */
    int32_t shared_room;
    int32_t shared_count;
} dk_queue;

/* A number of words or elements, rounded up to the alignment. */
static inline int64_t dk_aligned(const dk_queue* queue, int64_t count) {
    return (count + queue->alignment - 1) / queue->alignment * queue->alignment;
}

/* Begin a run. `words` and `pool` have `word_count` and `pool_count` elements, which the capacity dims of these indices
   gave. `launches` has an element for each cell, and may be in the reserved words. `kinds`: of frames. The first
   `reserved` words, at least one, are left to the caller. */
dk_status dk_queue_begin(dk_queue* queue, int32_t kinds, int64_t reserved);

/* Report that the words, or the pool, must hold `more` elements behind those used. Returns 0. */
int32_t dk_fail_words(dk_queue* queue, int64_t more);
int32_t dk_fail_pool(dk_queue* queue, int64_t more);

/* Room for `count` words, or 0 and a failure. */
static inline int32_t dk_take(dk_queue* queue, int64_t count) {
    const int32_t handle = queue->words_used;
    if (count > queue->word_count - handle) {
        return dk_fail_words(queue, count);
    }
    queue->words_used = handle + (int32_t)count;
    return handle;
}

/* Room for `count` elements of the pool: their offset. After a failure it is 0. */
static inline int32_t dk_take_pool(dk_queue* queue, int64_t count) {
    const int32_t offset = queue->pool_used;
    if (count > queue->pool_count - offset) {
        return dk_fail_pool(queue, count);
    }
    queue->pool_used = offset + (int32_t)count;
    return offset;
}

/* Add a node: `operands` are its values and numbers. Returns its first result, or 0 and a failure; the results that
   follow are 2 words apart. A shared node may be there already. */
int32_t dk_record(dk_queue* queue, int32_t cell, const int32_t* operands);

/* The first result of the shared node with this cell and operand, 0 if there is none. */
int32_t dk_find_shared(const dk_queue* queue, int32_t cell, int32_t operand);

/* Let `dk_find_shared` find a node. Returns its first result, `value`, or 0 after a failure. */
int32_t dk_add_shared(dk_queue* queue, int32_t cell, int32_t operand, int32_t value);

/* The elements of a value, or NULL while it is not computed. */
static inline const float* dk_elements(const dk_queue* queue, int32_t value) {
    const int32_t offset = queue->words[value];
    return offset < 0 ? NULL : queue->pool + offset;
}

/* Choose the nodes of a flush: those that frames wait for; with `all`, or when none waits, every node. Returns 0 if
   there are none, and after a failure. */
int32_t dk_begin_flush(dk_queue* queue, int all);

/* Choose the next batch of a flush, which begins with its first one. Returns 0 when all nodes are launched, and after a
   failure. What the batch points to is valid until the next call for the queue. */
int32_t dk_next_batch(dk_queue* queue, dk_batch* batch);

/* A frame of `size` words for a call whose results go to the words at `result`, or 0 and a failure. */
static inline int32_t
dk_enter(dk_queue* queue, int32_t kind, int32_t size, int32_t place, int32_t parent, int32_t result) {
    int32_t* words = queue->words;
    int32_t frame = words[queue->free + kind];
    if (frame != 0) {
        words[queue->free + kind] = words[frame + DK_FRAME_NEXT];
    } else {
        frame = dk_take(queue, size);
        if (frame == 0) {
            return 0;
        }
    }
    words[frame + DK_FRAME_PLACE] = place;
    words[frame + DK_FRAME_PARENT] = parent;
    words[frame + DK_FRAME_RESULT] = result;
    return frame;
}

/* The frame to go on with, 0 if none can. */
static inline int32_t dk_next_frame(dk_queue* queue) {
    const int32_t frame = queue->ready;
    if (frame != 0) {
        queue->ready = queue->words[frame + DK_FRAME_NEXT];
    }
    return frame;
}

/* End a call. Returns the frame to go on with: its parent, unless that waits for other calls; else the next one. An
   instance whose first frame ends has returned. */
static inline int32_t dk_leave(dk_queue* queue, int32_t kind, int32_t frame) {
    int32_t* words = queue->words;
    const int32_t parent = words[frame + DK_FRAME_PARENT];
    words[frame + DK_FRAME_NEXT] = words[queue->free + kind];
    words[queue->free + kind] = frame;
    if (parent > 0 && --words[parent + DK_FRAME_PENDING] == 0) {
        return parent;
    }
    if (parent < 0) {
        words[DK_INSTANCE_STATE - parent] = DK_RETURNED;
        ++queue->returned;
    }
    return dk_next_frame(queue);
}

/* The record of the instance that a frame belongs to. */
static inline int32_t dk_instance_of(const dk_queue* queue, int32_t frame) {
    while (frame > 0) {
        frame = queue->words[frame + DK_FRAME_PARENT];
    }
    return -frame;
}

/* Let a frame go on later: before the others that can, or after the flush that computes `value`. */
static inline void dk_ready(dk_queue* queue, int32_t frame) {
    queue->words[frame + DK_FRAME_NEXT] = queue->ready;
    queue->ready = frame;
}

static inline void dk_wait(dk_queue* queue, int32_t frame, int32_t value) {
    queue->words[frame + DK_FRAME_AWAITED] = value;
    queue->words[frame + DK_FRAME_NEXT] = queue->waiting;
    queue->waiting = frame;
}

/* After a flush: the frames that waited can go on, in the order in which they began to wait. */
void dk_resume(dk_queue* queue);

/* Begin the trace of the node whose first result is `value`, which `frame` recorded, unless it has one already. */
void dk_trace(dk_queue* queue, int32_t value, int32_t frame, int32_t object);

/* Note that the batch which comes next has `count` nodes, from `node` on. */
void dk_trace_launch(dk_queue* queue, int32_t node, int32_t count);

/* Copy DK_TRACED words for each of the `traced` nodes, in the order of recording. */
void dk_give_trace(const dk_queue* queue, int32_t* rows);

#ifdef __cplusplus
}
#endif

#endif
