/* Answers: prompts become tokens, steps read them, and chosen tokens become text. */
#include "generate.h"

#include <string.h>

enum { TOKENS, POSITIONS, SEQUENCES, TABLE, ROWS, INPUTS };

static int32_t blocks_of(const dk_language_task* task, int32_t tokens) {
    return (tokens + task->page - 1) / task->page;
}

/* The dims of the largest step; false if the model does not take so much. */
static bool dims_of(const dk_language_task* task, const dk_language_room* room, int64_t* dims) {
    const int32_t blocks = blocks_of(task, room->tokens);
    if (task->descriptor->dim_count > DK_MAX_RANK || room->tokens < 1 || room->tokens > task->context) {
        return false;
    }
    memset(dims, 0, DK_MAX_RANK * sizeof *dims);
    dims[task->pages_dim] = blocks;
    return room->at_once >= 1 && dk_set_axis(task->descriptor, dims, TOKENS, 0, room->at_once) &&
           dk_set_axis(task->descriptor, dims, TABLE, 0, 1) && dk_set_axis(task->descriptor, dims, TABLE, 1, blocks) &&
           dk_set_axis(task->descriptor, dims, ROWS, 0, 1);
}

/* Where the parts of a workspace begin, and at last where it ends. */
enum { PAGES, SEQUENCE, NEXT, STEP, SCORES, CHOOSING, DECODED, SHOWN, HELD, PROMPT, SCRATCH, STATES, ARENA, PARTS };

/* Memory for the tokenizer, and before that, for the template. */
static uint64_t scratch_of(const dk_language* own, const dk_language_room* room) {
    const uint64_t encoding = room->text_bytes == 0 ? 0 : dk_text_workspace(&own->text, room->text_bytes);
    const uint64_t rendering = own->task->program_bytes == 0 ? 0 : 16384 + 16 * (uint64_t)room->text_bytes;
    return encoding > rendering ? encoding : rendering;
}

static bool layout(const dk_language* own, const dk_language_room* room, uint64_t* ends) {
    const dk_language_task* task = own->task;
    int64_t dims[DK_MAX_RANK], arena, states;
    uint64_t tokens, at_once, words, end = 0;
    if (task == NULL || room->text_bytes >= (size_t)1 << 30 || !dims_of(task, room, dims)) {
        return false;
    }
    arena = task->arena_bytes(dims);
    states = task->state_bytes(dims);
    if (arena > INT64_MAX / 4 || states > INT64_MAX / 4) {
        return false;
    }
    tokens = (uint64_t)room->tokens;
    at_once = (uint64_t)room->at_once;
    words = (uint64_t)task->words;
    const uint64_t sizes[PARTS] = {
        [PAGES] = dk_pages_bytes(blocks_of(task, room->tokens), 1, blocks_of(task, room->tokens)),
        [SEQUENCE] = 4 * tokens,
        [NEXT] = 4 * (tokens + room->text_bytes), /* a prompt that is shortened was longer */
        [STEP] = 8 * (3 * at_once + (uint64_t)blocks_of(task, room->tokens) + 1),
        [SCORES] = 4 * words,
        [CHOOSING] = dk_sample_bytes(task->words),
        [DECODED] = DK_PIECE_BYTES,
        [SHOWN] = DK_PIECE_BYTES + DK_MOST_STOP_BYTES,
        [HELD] = DK_MOST_STOP_BYTES,
        [PROMPT] = room->text_bytes,
        [SCRATCH] = scratch_of(own, room),
        [STATES] = (uint64_t)states,
        [ARENA] = (uint64_t)arena,
    };
    for (int32_t i = 0; i < PARTS; ++i) {
        end += DK_ROOM(sizes[i]);
        ends[i] = end;
    }
    return end < SIZE_MAX;
}

dk_status
dk_language_open(dk_language* own, const dk_language_task* task, dk_model* model, const void* tables, size_t bytes) {
    dk_status status;
    memset(own, 0, sizeof *own);
    status = dk_text_open(&own->text, tables, bytes);
    if (status != DK_OK) {
        return dk_fail(model, status, own->text.error);
    }
    own->task = task;
    return DK_OK;
}

size_t dk_language_bytes(const dk_language* own, const dk_language_room* room) {
    uint64_t ends[PARTS];
    return layout(own, room, ends) ? (size_t)ends[PARTS - 1] : SIZE_MAX;
}

dk_status
dk_language_use(dk_language* own, dk_model* model, const dk_language_room* room, void* workspace, size_t bytes) {
    uint64_t ends[PARTS];
    int64_t dims[DK_MAX_RANK];
    unsigned char* base = workspace;
    dk_status status;
    own->going = false;
    own->tokens = NULL;
    if (own->task == NULL || !layout(own, room, ends)) {
        return dk_fail(model, DK_ERROR_USAGE, "the model does not take so many tokens at once, or in all");
    }
    status = dk_check_workspace(model, "this room", workspace, bytes, (size_t)ends[PARTS - 1]);
    if (status != DK_OK) {
        return status;
    }
#define PLACE(part) ((void*)(base + ((part) == 0 ? 0 : ends[(part) - 1])))
    dims_of(own->task, room, dims);
    status = own->task->reset_state(dims, PLACE(STATES), (size_t)(ends[STATES] - ends[STATES - 1]));
    if (status == DK_OK) {
        status = own->task->set_state(model, PLACE(STATES), (size_t)(ends[STATES] - ends[STATES - 1]));
    }
    if (status != DK_OK) {
        return status;
    }
    status = dk_set_arena(model, PLACE(ARENA), (size_t)(ends[ARENA] - ends[ARENA - 1]));
    if (status != DK_OK) {
        return status;
    }
    own->room = *room;
    own->pages.count = own->pages.blocks = blocks_of(own->task, room->tokens);
    own->pages.sequences = 1;
    own->pages.size = own->task->page;
    own->pages.window = own->task->window;
    own->pages.whole = own->task->whole;
    dk_pages_open(&own->pages, PLACE(PAGES));
    dk_pages_begin(&own->pages);
    own->caches.states = (unsigned char*)PLACE(STATES) + own->task->state_header;
    own->caches.page_bytes = own->task->page_bytes;
    own->caches.build = own->task->build;
    own->caches.count = own->task->state_count;
    own->tokens = PLACE(SEQUENCE);
    own->next = PLACE(NEXT);
    own->inputs[TOKENS] = PLACE(STEP);
    own->inputs[POSITIONS] = own->inputs[TOKENS] + room->at_once;
    own->inputs[SEQUENCES] = own->inputs[POSITIONS] + room->at_once;
    own->inputs[TABLE] = own->inputs[SEQUENCES] + room->at_once;
    own->inputs[ROWS] = own->inputs[TABLE] + own->pages.blocks;
    own->scores = PLACE(SCORES);
    own->choosing = PLACE(CHOOSING);
    own->decoded = PLACE(DECODED);
    own->shown = PLACE(SHOWN);
    own->stops.held = PLACE(HELD);
    own->prompt = PLACE(PROMPT);
    own->scratch = PLACE(SCRATCH);
    own->scratch_bytes = (size_t)(ends[SCRATCH] - ends[SCRATCH - 1]);
#undef PLACE
    own->count = 0;
    return DK_OK;
}

static const char* fault_of(const dk_language* own, const dk_answering* asked) {
    if (own->tokens == NULL) {
        return "there is no workspace";
    }
    if (asked == NULL || dk_sampling_fault(&asked->sampling) != NULL) {
        return asked == NULL ? "how to answer is NULL" : dk_sampling_fault(&asked->sampling);
    }
    for (int32_t i = 0; i < asked->stop_count; ++i) {
        if (asked->stop_bytes[i] < 1 || asked->stop_bytes[i] > DK_MOST_STOP_BYTES) {
            return "a stop is empty, or longer than DK_MOST_STOP_BYTES";
        }
    }
    if (asked->slides && (asked->sinks < 0 || asked->sinks > own->room.tokens - 2)) {
        return "sinks";
    }
    return NULL;
}

/* How many of the newest tokens are kept of a text that fills the room: half of what the sinks leave. */
static int32_t newest_of(const dk_language* own, const dk_answering* asked) {
    return (own->room.tokens - asked->sinks) / 2;
}

/* Keep the first and the newest of so many tokens. Returns how many are left. */
static int32_t slide(int32_t* tokens, int32_t count, int32_t sinks, int32_t newest) {
    memmove(tokens + sinks, tokens + count - newest, 4 * (size_t)newest);
    return sinks + newest;
}

/* Begin an answer to so many tokens, which are in `next`. */
static dk_status begin_next(dk_language* own, dk_model* model, int32_t count, const dk_answering* asked) {
    int32_t common = 0;
    if (count < 1) {
        return dk_fail(model, DK_ERROR_USAGE, "the text is empty: there is nothing to continue");
    }
    while (common < own->count && common < count && own->tokens[common] == own->next[common]) {
        ++common;
    }
    /* The last token is read again: the scores of what follows are asked for. */
    dk_pages_cut(&own->pages, 0, common < count ? common : count - 1);
    memcpy(own->tokens, own->next, 4 * (size_t)count);
    own->count = count;
    own->answered = 0;
    own->asked = *asked;
    own->random = asked->seed;
    memset(&own->stream, 0, sizeof own->stream);
    own->stops.texts = asked->stops;
    own->stops.lengths = asked->stop_bytes;
    own->stops.count = asked->stop_count;
    own->stops.held_bytes = 0;
    own->going = true;
    return DK_OK;
}

/* Begin an answer to a text. */
static dk_status
begin(dk_language* own, dk_model* model, const char* text, size_t bytes, bool bare, const dk_answering* asked) {
    dk_text_input input = {0};
    dk_text_tokens tokens = {0};
    dk_status status;
    if (bytes > own->room.text_bytes) {
        return dk_fail(model, DK_ERROR_CAPACITY, "the text has more bytes than the workspace is for");
    }
    input.first = text;
    input.first_bytes = bytes;
    input.bare = bare;
    tokens.capacity = own->room.tokens + (int32_t)own->room.text_bytes;
    tokens.ids = own->next;
    status = dk_text_encode(&own->text, &input, own->scratch, own->scratch_bytes, &tokens);
    if (status == DK_OK && tokens.count > own->room.tokens) {
        if (asked->slides) {
            tokens.count = slide(own->next, tokens.count, asked->sinks, newest_of(own, asked));
        } else {
            status = DK_ERROR_CAPACITY;
        }
    }
    if (status == DK_ERROR_CAPACITY) {
        return dk_fail(model, status, "the text has more tokens than the workspace is for");
    }
    if (status != DK_OK) {
        return dk_fail(model, status, own->text.error);
    }
    return begin_next(own, model, tokens.count, asked);
}

dk_status
dk_language_continue(dk_language* own, dk_model* model, const char* text, size_t bytes, const dk_answering* asked) {
    const char* fault = fault_of(own, asked);
    own->going = false;
    if (fault != NULL || text == NULL) {
        return dk_fail(model, DK_ERROR_USAGE, fault != NULL ? fault : "the text is NULL");
    }
    return begin(own, model, text, bytes, false, asked);
}

dk_status dk_language_continue_tokens(
    dk_language* own, dk_model* model, const int32_t* tokens, int32_t count, const dk_answering* asked
) {
    const char* fault = fault_of(own, asked);
    own->going = false;
    if (fault != NULL || (tokens == NULL && count > 0)) {
        return dk_fail(model, DK_ERROR_USAGE, fault != NULL ? fault : "the tokens are NULL");
    }
    const bool slides = count > own->room.tokens;
    if (slides && !asked->slides) {
        return dk_fail(model, DK_ERROR_CAPACITY, "there are more tokens than the workspace is for");
    }
    const int32_t sinks = slides ? asked->sinks : count, kept = slides ? sinks + newest_of(own, asked) : count;
    for (int32_t i = 0; i < count; ++i) {
        if (tokens[i] < 0 || tokens[i] >= own->task->words) {
            return dk_fail(model, DK_ERROR_DATA, "there is no such token in this model");
        }
    }
    for (int32_t i = 0; i < kept; ++i) {
        own->next[i] = tokens[i < sinks ? i : count - kept + i];
    }
    return begin_next(own, model, kept, asked);
}

/* Begin an answer to a conversation. */
static dk_status chat(dk_language* own, dk_model* model, dk_rendering* given, const dk_answering* asked) {
    dk_status status;
    if (own->task->program_bytes == 0) {
        return dk_fail(model, DK_ERROR_USAGE, "this model has no template of conversations: continue a text");
    }
    given->program = own->task->program;
    given->program_bytes = own->task->program_bytes;
    given->now = own->now;
    given->workspace = own->scratch;
    given->workspace_bytes = own->scratch_bytes;
    given->text = own->prompt;
    given->capacity = own->room.text_bytes;
    status = dk_render(given);
    if (status == DK_ERROR_BUFFER || status == DK_ERROR_ARENA) {
        return dk_fail(model, DK_ERROR_CAPACITY, "the conversation has more bytes than the workspace is for");
    }
    return status == DK_OK ? begin(own, model, own->prompt, given->bytes, true, asked)
                           : dk_fail(model, status, given->error);
}

dk_status dk_language_chat(
    dk_language* own, dk_model* model, const dk_message* messages, size_t count, const dk_answering* asked
) {
    const char* fault = fault_of(own, asked);
    dk_rendering given = {0};
    own->going = false;
    if (fault != NULL || messages == NULL || count == 0) {
        return dk_fail(model, DK_ERROR_USAGE, fault != NULL ? fault : "there are no messages");
    }
    given.messages = messages;
    given.count = count;
    return chat(own, model, &given, asked);
}

dk_status
dk_language_chat_json(dk_language* own, dk_model* model, const char* json, size_t bytes, const dk_answering* asked) {
    const char* fault = fault_of(own, asked);
    dk_rendering given = {0};
    own->going = false;
    if (fault != NULL || json == NULL) {
        return dk_fail(model, DK_ERROR_USAGE, fault != NULL ? fault : "the JSON is NULL");
    }
    given.json = json;
    given.json_bytes = bytes;
    return chat(own, model, &given, asked);
}

/* Read the next tokens that were not read yet, of which there are some; after the last ones, the scores of what follows
   are there. */
static dk_status read_some(dk_language* own, dk_model* model) {
    static const int32_t ranks[INPUTS] = {1, 1, 1, 2, 1};
    const int32_t start = own->pages.lengths[0], left = own->count - start;
    const int32_t more = left < own->room.at_once ? left : own->room.at_once;
    const int32_t blocks = blocks_of(own->task, start + more);
    const int64_t extents[INPUTS] = {more, more, more, 1, more == left};
    dk_tensor inputs[INPUTS], scores;
    dk_status status;
    if (!dk_pages_reserve(&own->pages, 0, more)) {
        return dk_fail(model, DK_ERROR_CAPACITY, "the workspace has no room for more tokens");
    }
    for (int32_t i = 0; i < more; ++i) {
        own->inputs[TOKENS][i] = own->tokens[start + i];
        own->inputs[POSITIONS][i] = start + i;
        own->inputs[SEQUENCES][i] = 0;
    }
    for (int32_t i = 0; i < blocks; ++i) {
        own->inputs[TABLE][i] = own->pages.table[i] < 0 ? 0 : own->pages.table[i];
    }
    own->inputs[ROWS][0] = more - 1;
    for (int32_t i = 0; i < INPUTS; ++i) {
        const int64_t elements = i == TABLE ? blocks : extents[i];
        dk_fill_tensor(&inputs[i], own->inputs[i], 8 * (size_t)elements, DK_INT64);
        inputs[i].rank = ranks[i];
        inputs[i].shape[0] = extents[i];
        inputs[i].shape[1] = blocks;
    }
    dk_fill_tensor(&scores, own->scores, 4 * (size_t)own->task->words, DK_FLOAT32);
    status = own->task->run(model, inputs, &scores);
    if (status == DK_OK) {
        dk_pages_append(&own->pages, 0, more);
    } else {
        dk_pages_fail(&own->pages, 0);
    }
    return status;
}

int32_t dk_language_unread(const dk_language* own) {
    return own->going ? own->count - own->pages.lengths[0] : 0;
}

dk_status dk_language_read(dk_language* own, dk_model* model) {
    dk_status status = DK_OK;
    if (!own->going) {
        return dk_fail(model, DK_ERROR_USAGE, "there is no answer to go on with");
    }
    if (dk_language_unread(own) > 0) {
        status = read_some(own, model);
        own->going = status == DK_OK;
    }
    return status;
}

dk_status dk_language_next(dk_language* own, dk_model* model, dk_piece* piece) {
    dk_choice choice = {0, 0.0f};
    dk_text_ids ids = {&choice.token, 1, true};
    size_t decoded = 0, shown = 0;
    bool ended = false, found, full;
    dk_status status;
    if (!own->going || piece == NULL) {
        return dk_fail(model, DK_ERROR_USAGE, piece == NULL ? "the piece is NULL" : "there is no answer to go on with");
    }
    do {
        status = dk_language_read(own, model);
        if (status != DK_OK) {
            return status;
        }
    } while (dk_language_unread(own) > 0);
    own->going = false; /* unless this step succeeds */
    status = dk_sample(
        &own->asked.sampling, own->scores, own->task->words, own->tokens, own->count, &own->random, own->choosing,
        &choice
    );
    if (status != DK_OK) {
        return dk_fail(model, status, "no token is possible: the scores are no numbers, or all were ruled out");
    }
    for (int32_t i = 0; i < own->task->end_count && !own->asked.ignore_end; ++i) {
        ended = ended || own->task->ends[i] == choice.token;
    }
    ids.count = ended ? 0 : 1;
    own->answered += ids.count;
    full = own->count >= own->room.tokens;
    piece->last = ended || (full && !own->asked.slides) || own->answered == own->asked.most;
    status = dk_text_decode(&own->text, &own->stream, &ids, piece->last, own->decoded, DK_PIECE_BYTES, &decoded);
    if (status != DK_OK) {
        return dk_fail(model, status, "the text of a token is longer than DK_PIECE_BYTES");
    }
    found = dk_stops_add(&own->stops, own->decoded, decoded, own->shown, &shown);
    if (piece->last && !found) {
        memcpy(own->shown + shown, own->stops.held, own->stops.held_bytes);
        shown += own->stops.held_bytes;
    }
    piece->text = own->shown;
    piece->bytes = shown;
    piece->token = choice.token;
    piece->logprob = choice.logprob;
    piece->stopped = ended || found;
    piece->last = piece->last || found;
    if (!piece->last) {
        if (full) {
            /* The new token is one of the newest. */
            own->count = slide(own->tokens, own->count, own->asked.sinks, newest_of(own, &own->asked) - 1);
            dk_pages_cut(&own->pages, 0, own->asked.sinks);
        }
        own->tokens[own->count++] = choice.token;
        own->going = true;
    }
    return DK_OK;
}

size_t dk_language_saved_bytes(const dk_language* own, size_t note_bytes) {
    return own->tokens == NULL || own->count < 1 ? 0
                                                 : dk_saved_bytes(&own->pages, 0, own->count, &own->caches, note_bytes);
}

dk_status dk_language_save(
    const dk_language* own, dk_model* model, const void* note, size_t note_bytes, void* saved, size_t bytes
) {
    const size_t needed = dk_language_saved_bytes(own, note_bytes);
    if (needed == 0 || saved == NULL) {
        return dk_fail(model, DK_ERROR_USAGE, needed == 0 ? "there is no text to save" : "the memory is NULL");
    }
    if (bytes < needed) {
        return dk_fail(model, DK_ERROR_BUFFER, "there are fewer bytes than saved_bytes says");
    }
    dk_save(&own->pages, 0, own->tokens, own->count, &own->caches, note, note_bytes, saved);
    return DK_OK;
}

dk_status dk_language_restore(dk_language* own, dk_model* model, const void* saved, size_t bytes, dk_saved* found) {
    dk_saved parts;
    dk_status status;
    if (own->tokens == NULL || saved == NULL) {
        return dk_fail(model, DK_ERROR_USAGE, saved == NULL ? "what was saved is NULL" : "there is no workspace");
    }
    status = dk_saved_open(&parts, &own->pages, &own->caches, own->task->words, saved, bytes);
    if (status != DK_OK) {
        return dk_fail(
            model, status,
            status == DK_ERROR_USAGE ? "what was saved is of another model, or of another build of it"
                                     : "this is no saved text, or it is cut off or altered"
        );
    }
    if (parts.count > own->room.tokens) {
        return dk_fail(model, DK_ERROR_CAPACITY, "what was saved has more tokens than the workspace is for");
    }
    dk_pages_cut(&own->pages, 0, 0);
    dk_restore(&parts, &own->pages, 0, &own->caches);
    memcpy(own->tokens, parts.tokens, 4 * (size_t)parts.count);
    own->count = parts.count;
    own->going = false;
    if (found != NULL) {
        *found = parts;
    }
    return DK_OK;
}
