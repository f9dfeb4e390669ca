/* Models of texts: texts in, answers out. `model_texts.h` of a model has these functions with its own names and types.

   A text is tokenized, and texts run together as long as there is room for their tokens. The room is the caller's
   choice, and with it the memory: one workspace, whose size is known beforehand. Nothing here allocates or writes a
   global. One `dk_texts` with its model serves one thread at a time; any number of them may share weights and tables.

   Errors have their text in the model, as those of its runs. */
#ifndef DEPLOYKIT_TEXTS_H
#define DEPLOYKIT_TEXTS_H

#include "answers.h"
#include "text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a model does with texts. */
typedef struct dk_texts_task {
    const dk_model_descriptor* descriptor;
    int64_t (*arena_bytes)(const int64_t* dims);
    dk_status (*run)(dk_model* model, const dk_tensor* inputs, dk_tensor* outputs);
    /* Indices of inputs; -1: there is no such input. */
    int32_t ids;
    int32_t types;
    int32_t lengths; /* of a ragged model */
    int32_t mask;    /* of a model that takes padded batches: texts run alone, so that they need no padding */
    int32_t width;   /* values of a row of an output: of a text, or of a token with `per_token` */
    int32_t most;    /* tokens of a text, which is cut off behind them; 0: as many as there are */
    bool per_token;
    dk_scores scores;
    int32_t mask_token;    /* stands for what is to be filled in; -1: there is no such token */
    const char* mask_text; /* the same as it is in texts, or NULL */
} dk_texts_task;

/* What a workspace is for. */
typedef struct dk_texts_room {
    size_t text_bytes; /* of the longest text; of a question and its context together */
    int32_t texts;     /* that run at once */
    int32_t tokens;    /* of these texts in all */
} dk_texts_room;

/* A part of a text: bytes `begin` up to, but not including, `end`. */
typedef struct dk_span {
    int32_t label; /* index of a class; 0 where there are no classes */
    float score;
    size_t begin;
    size_t end;
} dk_span;

/* A token that may be what a mask stands for. */
typedef struct dk_word {
    int32_t token;
    float score;
} dk_word;

typedef struct dk_texts {
    const dk_texts_task* task;
    dk_text text;
    dk_texts_room room;
    /* Where things are in the workspace. */
    int64_t* lengths;
    int64_t* inputs[3]; /* ids, types and mask */
    int32_t* places;    /* where tokens begin and end, in bytes */
    int8_t* origins;    /* the text that a token is from, or -1 */
    unsigned char* rest;
    size_t rest_bytes;
    /* The texts that run next. */
    int32_t texts;
    int32_t tokens;
} dk_texts;

/* Bytes of a workspace: `inputs` have an element for each token, `outputs` have `width` for each; `limit` bounds the
   tokens of one text, and `scratch` is what the tokenizer needs. All are of one integer type, and none is negative. */
#define DK_TEXTS_BYTES(texts, tokens, inputs, outputs, width, limit, scratch, arena)                                   \
    (DK_ROOM(8 * (texts)) + (inputs) * DK_ROOM(8 * (tokens)) +                                                         \
     ((outputs) > 0 ? DK_ROOM(8 * (tokens)) + DK_ROOM(tokens) : 0) +                                                   \
     DK_LARGER(                                                                                                        \
         2 * DK_ROOM(4 * (limit)) + DK_ROOM(scratch), (outputs) * DK_ROOM(4 * (tokens) * (width)) + DK_ROOM(arena)     \
     ))

/* Begin. There is no workspace yet. */
dk_status dk_texts_open(dk_texts* own, const dk_texts_task* task, dk_model* model, const void* tables, size_t bytes);

/* Bytes of workspace for this room; SIZE_MAX if the model does not take so much at once. */
size_t dk_texts_bytes(const dk_texts* own, const dk_texts_room* room);

/* Use a workspace for this room, at a multiple of 64 bytes. After DK_ERROR_ARENA, `need` of the model has its size. */
dk_status dk_texts_use(dk_texts* own, dk_model* model, const dk_texts_room* room, void* workspace, size_t bytes);

/* A row of the output for each text, without scores. */
dk_status dk_texts_rows(
    dk_texts* own, dk_model* model, const char* const* texts, const size_t* lengths, size_t count, float* rows
);

/* The scores of the classes of each text. */
dk_status dk_texts_classify(
    dk_texts* own, dk_model* model, const char* const* texts, const size_t* lengths, size_t count, float* scores
);

/* The best class of each token, without special tokens. `counts` receives how many spans each text has; the spans of
   all texts follow each other. After DK_ERROR_CAPACITY, `need.extent` of the model says how many there are. */
dk_status dk_texts_tokens(
    dk_texts* own, dk_model* model, const char* const* texts, const size_t* lengths, size_t count, dk_span* spans,
    size_t capacity, size_t* counts
);

/* The `best` most probable tokens for each mask, the best first. `counts` receives how many masks each text has; the
   words of all masks follow each other. After DK_ERROR_CAPACITY, `need.extent` of the model says how many there are. */
dk_status dk_texts_fill(
    dk_texts* own, dk_model* model, const char* const* texts, const size_t* lengths, size_t count, int32_t best,
    dk_word* words, size_t capacity, size_t* counts
);

/* The text of a token in UTF-8, without a zero byte at its end. `bytes` receives its length, also after
   DK_ERROR_CAPACITY. */
dk_status dk_texts_word(dk_texts* own, dk_model* model, int32_t token, char* text, size_t capacity, size_t* bytes);

/* The most probable answer to a question. */
dk_status dk_texts_answer(dk_texts* own, dk_model* model, const dk_text_input* question, dk_span* answer);

#ifdef __cplusplus
}
#endif

#endif
