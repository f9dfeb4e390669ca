/* Models that continue texts: a prompt or a conversation in, an answer out, token by token. `model_messages.h` of a
   model has these functions with its own names and types.

   The memory is the caller's: one workspace, whose size is known beforehand. What an earlier answer has in common with
   the next prompt is not read again. Nothing here allocates or writes a global. */
#ifndef DEPLOYKIT_GENERATE_H
#define DEPLOYKIT_GENERATE_H

#include "answers.h"
#include "language.h"
#include "template.h"
#include "text.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DK_MOST_STOP_BYTES = 256, DK_PIECE_BYTES = 2048 };

/* What a model that generates is. */
typedef struct dk_language_task {
    const dk_model_descriptor* descriptor;
    int64_t (*arena_bytes)(const int64_t* dims);
    dk_status (*run)(dk_model* model, const dk_tensor* inputs, dk_tensor* outputs);
    int64_t (*state_bytes)(const int64_t* dims);
    dk_status (*reset_state)(const int64_t* dims, void* state, size_t bytes);
    dk_status (*set_state)(dk_model* model, void* state, size_t bytes);
    int32_t pages_dim; /* the dim that says how many pages there are */
    int32_t words;
    int32_t context; /* tokens of a sequence */
    int32_t page;    /* tokens of a page */
    int32_t window;  /* tokens that the model looks back; 0: all */
    int32_t whole;   /* 1: pages have states; see dk_pages */
    const int32_t* ends;
    int32_t end_count;
    const unsigned char* program; /* the template of conversations; see template.h */
    size_t program_bytes;         /* 0: it has none */
    /* The states, behind `state_header` bytes; see dk_caches. */
    int32_t state_header;
    int32_t state_count;
    const int64_t* page_bytes;
    const unsigned char* build;
} dk_language_task;

/* What a workspace is for. */
typedef struct dk_language_room {
    int32_t tokens;    /* of a prompt with its answer */
    int32_t at_once;   /* tokens that are read in one step; more are faster, and need more memory */
    size_t text_bytes; /* of the longest prompt or conversation; 0: all prompts are tokens */
} dk_language_room;

/* How an answer is written. Zeros mean: the most probable tokens, as many as there is room for. */
typedef struct dk_answering {
    dk_sampling sampling; /* from dk_sampling_greedy */
    uint64_t seed;
    int32_t most;    /* tokens of the answer; 0: as many as there is room for */
    bool ignore_end; /* go on behind the token that ends an answer */
    const char* const* stops;
    const size_t* stop_bytes; /* each at most DK_MOST_STOP_BYTES */
    int32_t stop_count;
    /* What becomes of a text that fills the room. false: a longer prompt is refused, and the answer ends. true: it goes
       on without its oldest tokens: the first `sinks` are kept, usually 4, and the newest, for half of the rest. They
       are read again then. */
    bool slides;
    int32_t sinks; /* at most 2 less than tokens of the room */
} dk_answering;

/* What a step added to an answer. */
typedef struct dk_piece {
    const char* text; /* UTF-8, in the workspace until the next call; it may be empty */
    size_t bytes;
    int32_t token;
    float logprob;
    bool last;    /* there are no more */
    bool stopped; /* the model or a stop ended the answer */
} dk_piece;

typedef struct dk_language {
    const dk_language_task* task;
    dk_text text;
    dk_language_room room;
    int64_t now; /* what the caller sets, if the template tells the date; see template.h */
    dk_pages pages;
    dk_caches caches;
    dk_answering asked;
    dk_text_stream stream;
    dk_stops stops;
    uint64_t random;
    int32_t count;    /* tokens of the sequence */
    int32_t answered; /* of these, tokens of the answer */
    bool going;
    /* Where things are in the workspace. */
    int32_t* tokens;
    int32_t* next; /* tokens of the next prompt */
    int64_t* inputs[5];
    float* scores;
    void* choosing;
    char* decoded;
    char* shown;
    char* prompt;
    void* scratch;
    size_t scratch_bytes;
} dk_language;

/* Begin. There is no workspace yet. */
dk_status
dk_language_open(dk_language* own, const dk_language_task* task, dk_model* model, const void* tables, size_t bytes);

/* Bytes of workspace for this room; SIZE_MAX if the model does not take so much. */
size_t dk_language_bytes(const dk_language* own, const dk_language_room* room);

/* Use a workspace for this room, at a multiple of 64 bytes; what was read is forgotten. After DK_ERROR_ARENA, `need` of
   the model has its size. */
dk_status
dk_language_use(dk_language* own, dk_model* model, const dk_language_room* room, void* workspace, size_t bytes);

/* Begin an answer that continues a text or tokens, or one to the last of several messages. In JSON there is an object
   with `messages`, which may be of any roles and have calls of tools, with `tools`, and what else the template knows.
 */
dk_status
dk_language_continue(dk_language* own, dk_model* model, const char* text, size_t bytes, const dk_answering* asked);
dk_status dk_language_continue_tokens(
    dk_language* own, dk_model* model, const int32_t* tokens, int32_t count, const dk_answering* asked
);
dk_status dk_language_chat(
    dk_language* own, dk_model* model, const dk_message* messages, size_t count, const dk_answering* asked
);
dk_status
dk_language_chat_json(dk_language* own, dk_model* model, const char* json, size_t bytes, const dk_answering* asked);

/* How many tokens of the prompt and the answer the model has not read yet; 0 without an answer. */
int32_t dk_language_unread(const dk_language* own);

/* Read the next of them, at most `at_once` of the room: for callers that do something else between the steps of a long
   prompt. DK_ERROR_USAGE: there is no answer. */
dk_status dk_language_read(dk_language* own, dk_model* model);

/* Read what is left, and write the next piece. DK_ERROR_USAGE: there is no answer. */
dk_status dk_language_next(dk_language* own, dk_model* model, dk_piece* piece);

/* Bytes of what is saved of the text so far, with a note of the caller; 0 without a text. */
size_t dk_language_saved_bytes(const dk_language* own, size_t note_bytes);

/* Save the text so far, with what the model remembers of it, and a note, to so many bytes. An answer may go on
   afterwards. */
dk_status dk_language_save(
    const dk_language* own, dk_model* model, const void* note, size_t note_bytes, void* saved, size_t bytes
);

/* Let the model remember what was saved, in place of what it remembers: the next prompt is read from where it differs.
   `found` receives its parts, unless it is NULL. DK_ERROR_DATA: it is cut off, altered, or something else.
   DK_ERROR_USAGE: it is of another model. DK_ERROR_CAPACITY: it has more tokens than the workspace is for. Nothing is
   changed then. */
dk_status dk_language_restore(dk_language* own, dk_model* model, const void* saved, size_t bytes, dk_saved* found);

#ifdef __cplusplus
}
#endif

#endif
