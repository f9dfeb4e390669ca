/* Records graphs and launches their nodes. Reads cases from standard input and writes what happened to standard output,
   both as a sequence of int32_t, which tests/runtime/queues.py describes. Each result is filled with a number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "batching.h"

static int read_number(int32_t* number) {
    return fread(number, sizeof *number, 1, stdin) == 1;
}

static int32_t next_number(void) {
    int32_t number;
    if (!read_number(&number)) {
        exit(2);
    }
    return number;
}

static int32_t* next_numbers(int32_t count) {
    int32_t* numbers = malloc(((size_t)count + 1) * sizeof *numbers);
    if (numbers == NULL || fread(numbers, sizeof *numbers, (size_t)count, stdin) != (size_t)count) {
        exit(2);
    }
    return numbers;
}

static void write_numbers(const int32_t* numbers, int32_t count) {
    fwrite(numbers, sizeof *numbers, (size_t)count, stdout);
}

static void write_number(int32_t number) {
    write_numbers(&number, 1);
}

static int32_t nanoseconds_of(double seconds, int32_t nodes) {
    return nodes == 0 ? 0 : (int32_t)(seconds / nodes * 1e9);
}

static void write_failure(const dk_queue* queue) {
    const size_t length = strlen(queue->model->error);
    size_t i;
    write_number(-2);
    write_number((int32_t)queue->status);
    write_number(queue->model->need.dim);
    write_number((int32_t)queue->model->need.extent);
    write_number((int32_t)length);
    for (i = 0; i < length; ++i) {
        write_number(queue->model->error[i]);
    }
}

static void launch(dk_queue* queue, const dk_batch* batch) {
    const dk_cell* cell = &queue->cells[batch->cell];
    int32_t i;
    for (i = 0; i < cell->results; ++i) {
        int32_t element;
        for (element = 0; element < batch->count * cell->elements[i]; ++element) {
            queue->pool[batch->results[i] + element] = 1.0f;
        }
    }
    write_number(batch->cell);
    write_number(batch->count);
    for (i = 0; i < cell->operands + cell->numbers; ++i) {
        write_numbers(batch->indices + (ptrdiff_t)i * batch->stride, batch->count);
    }
    write_numbers(batch->results, cell->results);
}

static int32_t make_input(dk_queue* queue) {
    const int32_t value = dk_take(queue, 2);
    if (value != 0) {
        if (queue->pool_used == queue->pool_count) {
            return dk_fail_pool(queue, 1);
        }
        queue->pool[queue->pool_used] = 1.0f;
        queue->words[value] = queue->pool_used++;
        queue->words[value + 1] = 0;
    }
    return value;
}

/* Record `count` nodes. An operand is the number of a value: the inputs, then the results of all nodes. */
static void record(dk_queue* queue, int32_t count, int32_t* values, int32_t* value_count) {
    for (; count > 0; --count) {
        const int32_t cell = next_number();
        const dk_cell* kind = &queue->cells[cell];
        int32_t* operands = next_numbers(kind->operands + kind->numbers);
        int32_t i;
        if (queue->status == DK_OK) {
            int32_t result;
            for (i = 0; i < kind->operands; ++i) {
                operands[i] = values[operands[i]];
            }
            result = dk_record(queue, cell, operands);
            for (i = 0; i < kind->results; ++i) {
                values[(*value_count)++] = result + 2 * i;
            }
        }
        free(operands);
    }
}

static void run_flushes(dk_queue* queue, int32_t inputs) {
    int32_t* values = malloc(((size_t)next_number() + 1) * sizeof *values);
    int32_t flushes = next_number();
    int32_t value_count = 0;
    int32_t nodes = 0;
    double recording = 0;
    double flushing = 0;
    if (values == NULL) {
        exit(2);
    }
    while (value_count < inputs) {
        values[value_count++] = make_input(queue);
    }
    for (; flushes > 0; --flushes) {
        const int32_t count = next_number();
        const clock_t start = clock();
        clock_t middle;
        dk_batch batch;
        record(queue, count, values, &value_count);
        middle = clock();
        while (dk_next_batch(queue, &batch)) {
            launch(queue, &batch);
        }
        flushing += (double)(clock() - middle) / CLOCKS_PER_SEC;
        recording += (double)(middle - start) / CLOCKS_PER_SEC;
        nodes += count;
        write_number(-1);
    }
    free(values);
    if (queue->status != DK_OK) {
        write_failure(queue);
    }
    write_number(-3);
    write_numbers(queue->launches, queue->cell_count);
    write_number(queue->words_used);
    write_number(nanoseconds_of(recording, nodes));
    write_number(nanoseconds_of(flushing, nodes));
}

static const dk_dim dims[] = {{"words", 1, -1, "words"}, {"pool", 1, -1, "pool"}};
static const dk_model_descriptor descriptor = {"m", 0, 0, 2, NULL, NULL, dims, 0, 0, sizeof(dk_model)};

static dk_cell next_cell(void) {
    dk_cell cell;
    cell.operands = next_number();
    cell.numbers = next_number();
    cell.results = next_number();
    cell.elements = next_numbers(cell.results);
    cell.shared = 0;
    return cell;
}

static void run_case(int32_t cell_count) {
    dk_cell* cells = malloc((size_t)cell_count * sizeof *cells);
    dk_model model;
    dk_queue queue;
    int32_t* entries;
    int32_t i;
    if (cells == NULL || dk_init(&model, &descriptor, NULL, 0, NULL, 0) != DK_OK) {
        exit(2);
    }
    for (i = 0; i < cell_count; ++i) {
        cells[i] = next_cell();
    }
    memset(&queue, 0x55, sizeof queue);
    queue.model = &model;
    queue.cells = cells;
    queue.cell_count = cell_count;
    queue.alignment = DK_ALIGNMENT / 4;
    queue.policy = (dk_policy)next_number();
    queue.part = next_number();
    queue.trace = 0;
    queue.table.encoding = (dk_encoding)next_number();
    queue.table.count = next_number();
    entries = next_numbers(2 * queue.table.count);
    queue.table.entries = (const uint32_t*)entries;
    queue.word_count = next_number();
    queue.words = malloc((size_t)queue.word_count * sizeof *queue.words);
    queue.words_dim = 0;
    queue.pool_count = next_number();
    queue.pool = malloc((size_t)queue.pool_count * sizeof *queue.pool);
    queue.pool_dim = 1;
    queue.launches = malloc((size_t)cell_count * sizeof *queue.launches);
    dk_queue_begin(&queue, 2, 1);
    run_flushes(&queue, next_number());
    for (i = 0; i < cell_count; ++i) {
        free((void*)(uintptr_t)cells[i].elements);
    }
    free(cells);
    free(entries);
    free(queue.words);
    free(queue.pool);
    free(queue.launches);
}

int main(void) {
    int32_t cell_count;
    while (read_number(&cell_count)) {
        run_case(cell_count);
    }
    return 0;
}
