/* The trace of a run: what each node was recorded for, and in which launch it ran. It lies behind the operands and
   numbers of a node, so that it needs no memory of its own. To find the instance of a node takes time in proportion to
   the depth of its calls. */
#include "batching.h"

#include <string.h>

/* The words of the trace behind a node. */
static int32_t* trace_of(const dk_queue* queue, int32_t node) {
    const dk_cell* cell = &queue->cells[queue->words[node + DK_NODE_CELL]];
    return queue->words + node + DK_NODE_RESULTS + 2 * cell->results + cell->operands + cell->numbers;
}

void dk_trace(dk_queue* queue, int32_t value, int32_t frame, int32_t object) {
    const int32_t node = value - DK_NODE_RESULTS;
    int32_t* trace = trace_of(queue, node);
    if (node != queue->last || trace - queue->words == queue->last_traced) {
        return;
    }
    trace[DK_TRACE_LAUNCH] = -1;
    trace[DK_TRACE_CELL] = queue->words[node + DK_NODE_CELL];
    trace[DK_TRACE_INSTANCE] = queue->words[dk_instance_of(queue, frame) + DK_INSTANCE_TICKET];
    trace[DK_TRACE_OBJECT] = object;
    trace[DK_TRACE_BEFORE] = queue->last_traced;
    queue->last_traced = (int32_t)(trace - queue->words);
    ++queue->traced;
}

void dk_trace_launch(dk_queue* queue, int32_t node, int32_t count) {
    for (; count > 0; --count, node = queue->words[node + DK_NODE_NEXT]) {
        trace_of(queue, node)[DK_TRACE_LAUNCH] = queue->launched;
    }
}

void dk_give_trace(const dk_queue* queue, int32_t* rows) {
    int32_t at = queue->last_traced;
    int32_t row = queue->traced;
    for (; at != 0; at = queue->words[at + DK_TRACE_BEFORE]) {
        --row;
        memcpy(rows + (ptrdiff_t)row * DK_TRACED, queue->words + at, DK_TRACED * sizeof *rows);
    }
}
