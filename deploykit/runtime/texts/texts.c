/* Texts through a tokenizer and a model: which run together, the memory of a run, and what its outputs mean. */
#include "texts.h"

#include <string.h>

enum {
    INPUTS = 3,         /* at most */
    LONGEST_ANSWER = 30 /* tokens */
};

static bool is_ragged(const dk_texts* own) {
    return own->task->lengths >= 0;
}

/* How many inputs have an element for each token. */
static int32_t token_inputs(const dk_texts_task* task) {
    return 1 + (task->types >= 0) + (task->mask >= 0);
}

/* How many outputs have rows for each token. */
static int32_t token_outputs(const dk_texts_task* task) {
    return task->per_token ? task->descriptor->output_count : 0;
}

/* The most tokens that a text can have. */
static int32_t limit_of(const dk_texts* own, const dk_texts_room* room) {
    const int32_t most = own->task->most;
    return most > 0 && most < room->tokens ? most : room->tokens;
}

/* The arena for runs with this room; INT64_MAX if the model does not take so much. */
static int64_t arena_bytes(const dk_texts* own, const dk_texts_room* room) {
    const dk_texts_task* task = own->task;
    int64_t dims[DK_MAX_RANK] = {0};
    bool fits = task->descriptor->dim_count <= DK_MAX_RANK;
    for (int32_t i = 0; fits && i < task->descriptor->dim_count; ++i) {
        dims[i] = task->descriptor->dims[i].minimum;
    }
    if (is_ragged(own)) {
        fits = fits && dk_set_axis(task->descriptor, dims, task->lengths, 0, room->texts);
        fits = fits && dk_set_axis(task->descriptor, dims, task->ids, 0, room->tokens);
    } else {
        fits = fits && dk_set_axis(task->descriptor, dims, task->ids, 0, 1) &&
               dk_set_axis(task->descriptor, dims, task->ids, 1, room->tokens);
    }
    return fits ? task->arena_bytes(dims) : INT64_MAX;
}

size_t dk_texts_bytes(const dk_texts* own, const dk_texts_room* room) {
    const dk_texts_task* task = own->task;
    uint64_t texts, tokens, limit, scratch, bytes;
    int64_t arena;
    if (task == NULL || room->texts < 1 || room->tokens < 1 || room->text_bytes >= 1 << 30) {
        return SIZE_MAX;
    }
    arena = arena_bytes(own, room);
    if (arena > INT64_MAX / 4) {
        return SIZE_MAX;
    }
    texts = (uint64_t)room->texts;
    tokens = (uint64_t)room->tokens;
    limit = (uint64_t)limit_of(own, room);
    scratch = dk_text_workspace(&own->text, room->text_bytes);
    bytes = DK_TEXTS_BYTES(
        texts, tokens, (uint64_t)token_inputs(task), (uint64_t)token_outputs(task), (uint64_t)task->width, limit,
        scratch, (uint64_t)arena
    );
    return bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}

dk_status dk_texts_open(dk_texts* own, const dk_texts_task* task, dk_model* model, const void* tables, size_t bytes) {
    memset(own, 0, sizeof *own);
    if (dk_text_open(&own->text, tables, bytes) != DK_OK) {
        return dk_fail(model, DK_ERROR_WEIGHTS, own->text.error);
    }
    own->task = task;
    return DK_OK;
}

static void* take(dk_texts* own, size_t bytes) {
    void* taken = own->rest;
    bytes = DK_ROOM(bytes);
    own->rest += bytes;
    own->rest_bytes -= bytes;
    return taken;
}

dk_status dk_texts_use(dk_texts* own, dk_model* model, const dk_texts_room* room, void* workspace, size_t bytes) {
    const size_t needed = room == NULL ? SIZE_MAX : dk_texts_bytes(own, room);
    own->lengths = NULL;
    if (own->task == NULL) {
        return DK_ERROR_USAGE; /* opening failed, and the model says why */
    }
    if (needed == SIZE_MAX) {
        return dk_fail(
            model, DK_ERROR_USAGE, "the model does not take so many texts or tokens at once, or none at all"
        );
    }
    if (dk_check_workspace(model, "this room", workspace, bytes, needed) != DK_OK) {
        return DK_ERROR_ARENA;
    }
    own->room = *room;
    own->rest = (unsigned char*)workspace;
    own->rest_bytes = bytes;
    own->lengths = (int64_t*)take(own, 8 * (size_t)room->texts);
    for (int32_t i = 0; i < token_inputs(own->task); ++i) {
        own->inputs[i] = (int64_t*)take(own, 8 * (size_t)room->tokens);
    }
    if (own->task->per_token) {
        own->places = (int32_t*)take(own, 8 * (size_t)room->tokens);
        own->origins = (int8_t*)take(own, (size_t)room->tokens);
    }
    return DK_OK;
}

/* An error of a text, which has a number unless it is the only one. */
static dk_status fail_text(dk_model* model, dk_status status, int64_t number, const char* words) {
    dk_start_error(model);
    if (number >= 0) {
        dk_add_number(model, "text ", number);
        dk_add_text(model, ": ");
    }
    dk_add_text(model, words);
    return status;
}

/* Tokenize a text behind those of the part. Returns DK_PENDING if it has no room beside them. */
static dk_status add(dk_texts* own, dk_model* model, const dk_text_input* input, int64_t number) {
    const int32_t limit = limit_of(own, &own->room);
    const size_t staged = 2 * DK_ROOM(4 * (size_t)limit);
    int32_t* ids = (int32_t*)(void*)own->rest;
    int32_t* types = ids + DK_ROOM(4 * (size_t)limit) / 4;
    dk_text_tokens found = {0};
    int64_t* to[INPUTS];
    dk_status status;
    if (own->texts == (is_ragged(own) ? own->room.texts : 1)) {
        return DK_PENDING;
    }
    found.capacity = own->room.tokens - own->tokens < limit ? own->room.tokens - own->tokens : limit;
    found.ids = ids;
    found.types = types;
    found.bytes = own->places == NULL ? NULL : own->places + 2 * own->tokens;
    found.texts = own->origins == NULL ? NULL : own->origins + own->tokens;
    status = dk_text_encode(&own->text, input, own->rest + staged, own->rest_bytes - staged, &found);
    if (status == DK_ERROR_CAPACITY && own->texts > 0) {
        return DK_PENDING;
    }
    if (status == DK_ERROR_CAPACITY) {
        fail_text(model, status, number, "");
        dk_add_number(model, "it has ", found.count);
        dk_add_number(model, " tokens, more than the workspace has room for: ", own->room.tokens);
        model->need.extent = found.count;
        return status;
    }
    if (status != DK_OK) {
        return fail_text(model, status, number, own->text.error);
    }
    for (int32_t i = 0; i < INPUTS; ++i) {
        to[i] = own->inputs[i] == NULL ? NULL : own->inputs[i] + own->tokens;
    }
    for (int32_t i = 0; i < found.count; ++i) {
        int32_t next = 0;
        to[next++][i] = ids[i];
        if (own->task->types >= 0) {
            to[next++][i] = types[i];
        }
        if (own->task->mask >= 0) {
            to[next][i] = 1;
        }
    }
    own->lengths[own->texts++] = found.count;
    own->tokens += found.count;
    return DK_OK;
}

static void give_tokens(const dk_texts* own, dk_tensor* tensor, int64_t* values) {
    dk_fill_tensor(tensor, values, 8 * (size_t)own->tokens, DK_INT64);
    tensor->rank = is_ragged(own) ? 1 : 2;
    tensor->shape[0] = is_ragged(own) ? own->tokens : 1;
    tensor->shape[1] = own->tokens;
}

/* Run the texts of the part. `rows` receives a row for each text, or points at the rows of all tokens afterwards, an
   array for each output. */
static dk_status run(dk_texts* own, dk_model* model, float** rows) {
    const dk_texts_task* task = own->task;
    const int32_t given[INPUTS] = {task->ids, task->types >= 0 ? task->types : task->mask, task->mask};
    const size_t token_rows = 4 * (size_t)own->room.tokens * (size_t)task->width;
    unsigned char* const rest = own->rest;
    const size_t rest_bytes = own->rest_bytes;
    dk_tensor inputs[INPUTS], outputs[2];
    dk_status status;
    for (int32_t i = 0; i < token_inputs(task); ++i) {
        give_tokens(own, &inputs[given[i]], own->inputs[i]);
    }
    if (is_ragged(own)) {
        dk_fill_tensor(&inputs[task->lengths], own->lengths, 8 * (size_t)own->texts, DK_INT64);
        inputs[task->lengths].rank = 1;
        inputs[task->lengths].shape[0] = own->texts;
    }
    for (int32_t i = 0; i < task->descriptor->output_count; ++i) {
        size_t bytes = 4 * (size_t)own->texts * (size_t)task->width;
        if (task->per_token) {
            bytes = token_rows;
            rows[i] = (float*)take(own, bytes);
        }
        dk_fill_tensor(&outputs[i], rows[i], bytes, DK_FLOAT32);
    }
    status = dk_set_arena(model, own->rest, own->rest_bytes);
    if (status == DK_OK) {
        status = task->run(model, inputs, outputs);
    }
    own->rest = rest;
    own->rest_bytes = rest_bytes;
    return status;
}

/* Begin a part. */
static void begin(dk_texts* own) {
    own->texts = 0;
    own->tokens = 0;
}

static size_t length_of(const char* text, const size_t* lengths, size_t index) {
    return lengths != NULL ? lengths[index] : strlen(text);
}

/* Tokenize the texts from `first` on that fit into a part. */
static dk_status
take_part(dk_texts* own, dk_model* model, const char* const* texts, const size_t* lengths, size_t first, size_t count) {
    begin(own);
    for (size_t i = first; i < count; ++i) {
        dk_text_input input = {0};
        dk_status status;
        if (texts[i] == NULL) {
            return fail_text(model, DK_ERROR_USAGE, (int64_t)i, "it is NULL");
        }
        input.first = texts[i];
        input.first_bytes = length_of(texts[i], lengths, i);
        input.most = own->task->most;
        status = add(own, model, &input, (int64_t)i);
        if (status != DK_OK) {
            return status == DK_PENDING ? DK_OK : status;
        }
    }
    return DK_OK;
}

static dk_status check(const dk_texts* own, dk_model* model, const void* texts, const void* results, size_t count) {
    if (own->task == NULL) {
        return DK_ERROR_USAGE; /* opening failed, and the model says why */
    }
    if (own->lengths == NULL) {
        return dk_fail(model, DK_ERROR_USAGE, "there is no workspace: set one");
    }
    return count > 0 && (texts == NULL || results == NULL)
               ? dk_fail(model, DK_ERROR_USAGE, "the texts or the results are NULL")
               : DK_OK;
}

dk_status dk_texts_rows(
    dk_texts* own, dk_model* model, const char* const* texts, const size_t* lengths, size_t count, float* rows
) {
    dk_status status = check(own, model, texts, rows, count);
    for (size_t done = 0; status == DK_OK && done < count; done += (size_t)own->texts) {
        status = take_part(own, model, texts, lengths, done, count);
        if (status == DK_OK) {
            float* next = rows + done * (size_t)own->task->width;
            status = run(own, model, &next);
        }
    }
    return status;
}

dk_status dk_texts_classify(
    dk_texts* own, dk_model* model, const char* const* texts, const size_t* lengths, size_t count, float* scores
) {
    const dk_texts_task* task = own->task;
    const dk_status status = dk_texts_rows(own, model, texts, lengths, count, scores);
    for (size_t i = 0; status == DK_OK && i < count; ++i) {
        dk_make_scores(task->scores, scores + i * (size_t)task->width, task->width);
    }
    return status;
}

/* The spans of the tokens of the part, at most `capacity`. Returns how many there are. */
static size_t write_spans(const dk_texts* own, float* rows, dk_span* spans, size_t capacity, size_t* counts) {
    const int32_t width = own->task->width;
    size_t written = 0;
    int32_t token = 0;
    for (int32_t i = 0; i < own->texts; ++i) {
        const size_t before = written;
        for (int64_t last = token + own->lengths[i]; token < last; ++token) {
            float* row = rows == NULL ? NULL : rows + (size_t)token * (size_t)width;
            dk_span span = {0, 0, (size_t)own->places[2 * token], (size_t)own->places[2 * token + 1]};
            if (own->origins[token] < 0) {
                continue;
            }
            if (row != NULL && written < capacity) {
                dk_softmax(row, width);
                for (int32_t j = 1; j < width; ++j) {
                    span.label = row[j] > row[span.label] ? j : span.label;
                }
                span.score = row[span.label];
                spans[written] = span;
            }
            ++written;
        }
        counts[i] = written - before;
    }
    return written;
}

dk_status dk_texts_tokens(
    dk_texts* own, dk_model* model, const char* const* texts, const size_t* lengths, size_t count, dk_span* spans,
    size_t capacity, size_t* counts
) {
    dk_status status = check(own, model, texts, spans == NULL && capacity > 0 ? NULL : counts, count);
    size_t written = 0;
    for (size_t done = 0; status == DK_OK && done < count; done += (size_t)own->texts) {
        float* rows[2] = {NULL, NULL};
        status = take_part(own, model, texts, lengths, done, count);
        if (status == DK_OK && spans != NULL && written <= capacity) {
            status = run(own, model, rows);
        }
        if (status == DK_OK) {
            const size_t room = written < capacity ? capacity - written : 0;
            written += write_spans(own, rows[0], room == 0 ? spans : spans + written, room, counts + done);
        }
    }
    if (status == DK_OK && written > capacity) {
        dk_fail(model, DK_ERROR_CAPACITY, "");
        dk_add_number(model, "the texts have ", (int64_t)written);
        dk_add_number(model, " tokens, and there is room for spans of ", (int64_t)capacity);
        model->need.extent = (int64_t)written;
        return DK_ERROR_CAPACITY;
    }
    return status;
}

/* Count the masks of the texts of the part, of which the first has the number `first`. A text without one is an error.
 */
static dk_status count_masks(const dk_texts* own, dk_model* model, size_t first, size_t* counts, size_t* total) {
    const dk_texts_task* task = own->task;
    int32_t token = 0;
    *total = 0;
    for (int32_t i = 0; i < own->texts; ++i) {
        counts[i] = 0;
        for (int64_t last = token + own->lengths[i]; token < last; ++token) {
            counts[i] += own->inputs[0][token] == task->mask_token;
        }
        if (counts[i] == 0) {
            fail_text(model, DK_ERROR_USAGE, (int64_t)first + i, "it has no ");
            dk_add_text(model, task->mask_text);
            dk_add_text(model, ", or is cut off before it: put it where a token is to be filled in");
            return DK_ERROR_USAGE;
        }
        *total += counts[i];
    }
    return DK_OK;
}

/* The best tokens by their scores; of equal ones, the first. */
static void write_best(const float* scores, int32_t width, dk_word* words, int32_t best) {
    for (int32_t token = 0; token < width; ++token) {
        int32_t at = token < best ? token : best - 1;
        if (token >= best && !(scores[token] > words[at].score)) {
            continue;
        }
        for (; at > 0 && scores[token] > words[at - 1].score; --at) {
            words[at] = words[at - 1];
        }
        words[at].token = token;
        words[at].score = scores[token];
    }
}

/* The best tokens for the masks of the part. */
static void write_words(const dk_texts* own, float* rows, dk_word* words, int32_t best) {
    const int32_t width = own->task->width;
    for (int32_t token = 0; token < own->tokens; ++token) {
        if (own->inputs[0][token] == own->task->mask_token) {
            float* row = rows + (size_t)token * (size_t)width;
            dk_softmax(row, width);
            write_best(row, width, words, best);
            words += best;
        }
    }
}

dk_status dk_texts_fill(
    dk_texts* own, dk_model* model, const char* const* texts, const size_t* lengths, size_t count, int32_t best,
    dk_word* words, size_t capacity, size_t* counts
) {
    dk_status status = check(own, model, texts, words == NULL && capacity > 0 ? NULL : counts, count);
    size_t needed = 0;
    if (status == DK_OK && (best < 1 || best > own->task->width)) {
        dk_fail(model, DK_ERROR_USAGE, "");
        dk_add_number(model, "a mask has from 1 to ", own->task->width);
        dk_add_number(model, " words; asked for ", best);
        return DK_ERROR_USAGE;
    }
    for (size_t done = 0; status == DK_OK && done < count; done += (size_t)own->texts) {
        float* rows[2] = {NULL, NULL};
        const size_t before = needed;
        size_t masks = 0;
        status = take_part(own, model, texts, lengths, done, count);
        if (status == DK_OK) {
            status = count_masks(own, model, done, counts + done, &masks);
            needed += masks * (size_t)best;
        }
        if (status == DK_OK && needed <= capacity) {
            status = run(own, model, rows);
            if (status == DK_OK) {
                write_words(own, rows[0], words + before, best);
            }
        }
    }
    if (status == DK_OK && needed > capacity) {
        dk_fail(model, DK_ERROR_CAPACITY, "");
        dk_add_number(model, "the masks of the texts have ", (int64_t)needed);
        dk_add_number(model, " words, and there is room for ", (int64_t)capacity);
        model->need.extent = (int64_t)needed;
        return DK_ERROR_CAPACITY;
    }
    return status;
}

dk_status dk_texts_word(dk_texts* own, dk_model* model, int32_t token, char* text, size_t capacity, size_t* bytes) {
    const dk_text_ids ids = {&token, 1, false};
    dk_text_stream stream = {0};
    dk_status status;
    if (own->task == NULL) {
        return DK_ERROR_USAGE; /* opening failed, and the model says why */
    }
    if (bytes == NULL || (text == NULL && capacity > 0)) {
        return dk_fail(model, DK_ERROR_USAGE, "the text of a token or its length is NULL");
    }
    status = dk_text_decode(&own->text, &stream, &ids, true, text, capacity, bytes);
    return status == DK_OK ? DK_OK : dk_fail(model, status, own->text.error);
}

dk_status dk_texts_answer(dk_texts* own, dk_model* model, const dk_text_input* question, dk_span* answer) {
    float* rows[2] = {NULL, NULL};
    dk_text_input input = *question;
    int32_t first = -1, last = -1;
    dk_status status = check(own, model, input.second == NULL ? NULL : input.first, answer, 1);
    if (status != DK_OK) {
        return status;
    }
    input.most = own->task->most;
    input.cut = DK_TEXT_CUT_SECOND;
    begin(own);
    status = add(own, model, &input, -1);
    if (status == DK_OK) {
        status = run(own, model, rows);
    }
    if (status != DK_OK) {
        return status;
    }
    dk_softmax(rows[0], own->tokens);
    dk_softmax(rows[1], own->tokens);
    for (int32_t i = 0; i < own->tokens; ++i) {
        for (int32_t j = i; own->origins[i] == 1 && j < own->tokens && j < i + LONGEST_ANSWER; ++j) {
            if (own->origins[j] == 1 && (first < 0 || rows[0][i] * rows[1][j] > answer->score)) {
                answer->score = rows[0][i] * rows[1][j];
                first = i;
                last = j;
            }
        }
    }
    if (first < 0) {
        return dk_fail(model, DK_ERROR_USAGE, "the question leaves no room for the context: it has too many tokens");
    }
    answer->label = 0;
    answer->begin = (size_t)own->places[2 * first];
    answer->end = (size_t)own->places[2 * last + 1];
    return DK_OK;
}
