/* What models that generate need of `language.h`, exported by the module of the tokenizer. JavaScript puts arrays into
   its memory. One table of pages is kept. */
#include "language.h"
#include "template.h"

#define EXPORT(name) __attribute__((export_name(#name)))

static dk_pages pages;
static dk_caches caches; /* whose states are elsewhere */
static dk_saved saved;

EXPORT(pages_bytes) size_t dk_web_pages_bytes(int32_t count, int32_t sequences, int32_t blocks) {
    return dk_pages_bytes(count, sequences, blocks);
}

EXPORT(pages_open)
void dk_web_pages_open(
    int32_t count, int32_t sequences, int32_t blocks, int32_t size, int32_t window, int32_t whole, void* memory
) {
    pages.count = count;
    pages.sequences = sequences;
    pages.blocks = blocks;
    pages.size = size;
    pages.window = window;
    pages.whole = whole;
    dk_pages_open(&pages, memory);
}

EXPORT(pages_begin) int32_t dk_web_pages_begin(void) {
    return dk_pages_begin(&pages);
}

EXPORT(pages_reserve) int32_t dk_web_pages_reserve(int32_t sequence, int32_t more) {
    return dk_pages_reserve(&pages, sequence, more);
}

EXPORT(pages_append) void dk_web_pages_append(int32_t sequence, int32_t more) {
    dk_pages_append(&pages, sequence, more);
}

EXPORT(pages_cut) void dk_web_pages_cut(int32_t sequence, int32_t length) {
    dk_pages_cut(&pages, sequence, length);
}

EXPORT(pages_fail) void dk_web_pages_fail(int32_t sequence) {
    dk_pages_fail(&pages, sequence);
}

EXPORT(pages_end) void dk_web_pages_end(int32_t sequence) {
    dk_pages_end(&pages, sequence);
}

/* The length of a sequence, its first page that is held, and its row of the table. */
EXPORT(pages_length) int32_t dk_web_pages_length(int32_t sequence) {
    return pages.lengths[sequence];
}

EXPORT(pages_first) int32_t dk_web_pages_first(int32_t sequence) {
    return pages.first[sequence];
}

EXPORT(pages_row) const int64_t* dk_web_pages_row(int32_t sequence) {
    return pages.table + (size_t)sequence * (size_t)pages.blocks;
}

/* What is saved, in parts; `page_bytes` and `build` are those of dk_caches, and stay. */
EXPORT(saved_of) void dk_web_saved_of(const int64_t* page_bytes, const unsigned char* build, int32_t count) {
    caches.page_bytes = page_bytes;
    caches.build = build;
    caches.count = count;
}

EXPORT(saved_head)
size_t dk_web_saved_head(
    int32_t sequence, const int32_t* tokens, int32_t count, const void* note, size_t note_bytes, void* head
) {
    return dk_save_head(&pages, sequence, tokens, count, &caches, note, note_bytes, head);
}

EXPORT(saved_sum) uint64_t dk_web_saved_sum(uint64_t sum, const void* bytes, size_t count) {
    return dk_saved_sum(sum, bytes, count);
}

/* Look at what was saved, of which the first bytes are `there`. `found` receives how many tokens there are, how many
   the model remembers, the first block whose page is there, and where the note begins. Returns a status. */
EXPORT(saved_look)
int32_t dk_web_saved_look(int32_t words, const unsigned char* head, size_t there, size_t bytes, int32_t* found) {
    const dk_status status = dk_saved_look(&saved, &pages, &caches, words, head, there, bytes);
    if (status == DK_OK) {
        found[0] = saved.count;
        found[1] = saved.read;
        found[2] = saved.first;
        found[3] = (int32_t)(saved.note - head);
    }
    return (int32_t)status;
}

/* Hold pages for what was looked at. False, with nothing changed, if there are not enough. */
EXPORT(saved_hold) int32_t dk_web_saved_hold(int32_t sequence) {
    return dk_saved_hold(&saved, &pages, sequence);
}

EXPORT(sample_bytes) size_t dk_web_sample_bytes(int32_t words) {
    return dk_sample_bytes(words);
}

/* `settings` are the numbers of `dk_sampling` in their order, then the number of biases; `choice` receives the token
   and its log-probability. Returns a status. */
EXPORT(sample)
int32_t dk_web_sample(
    const double* settings, const dk_bias* biases, const float* scores, int32_t words, const int32_t* earlier,
    int32_t count, uint64_t* random, void* workspace, dk_choice* choice
) {
    const dk_sampling sampling = {
        .temperature = (float)settings[0],
        .top_k = (int32_t)settings[1],
        .typical_p = (float)settings[2],
        .top_p = (float)settings[3],
        .min_p = (float)settings[4],
        .repetition_penalty = (float)settings[5],
        .presence_penalty = (float)settings[6],
        .frequency_penalty = (float)settings[7],
        .penalty_last = (int32_t)settings[8],
        .bias_count = (int32_t)settings[9],
        .biases = biases,
    };
    return (int32_t)dk_sample(&sampling, scores, words, earlier, count, random, workspace, choice);
}

/* The text of a conversation; `found` receives its bytes, and the address of an error. Returns a status. */
EXPORT(render)
int32_t dk_web_render(
    const unsigned char* program, size_t program_bytes, const char* json, size_t json_bytes, double now,
    void* workspace, size_t workspace_bytes, char* text, size_t capacity, uint32_t* found
) {
    dk_rendering own = {
        .program = program,
        .program_bytes = program_bytes,
        .json = json,
        .json_bytes = json_bytes,
        .now = (int64_t)now,
        .workspace = workspace,
        .workspace_bytes = workspace_bytes,
        .text = text,
        .capacity = capacity,
    };
    const dk_status status = dk_render(&own);
    found[0] = (uint32_t)own.bytes;
    found[1] = (uint32_t)(uintptr_t)own.error;
    return (int32_t)status;
}
