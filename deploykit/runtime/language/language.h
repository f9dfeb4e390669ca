/* Language models that generate: the pages of sequences, what is saved of them, the choice of tokens, and texts that
   end an answer.

   All memory is the caller's. Nothing here allocates or writes a global. The numbers are the same on every target. */
#ifndef DEPLOYKIT_LANGUAGE_H
#define DEPLOYKIT_LANGUAGE_H

#include "deploykit.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Pages of keys and values. A sequence holds pages for its tokens, in order; two sequences may share those of the
   tokens that they have in common. */
typedef struct dk_pages {
    int32_t count;     /* pages in the memory of the model */
    int32_t sequences; /* that may be there at once */
    int32_t blocks;    /* pages of one sequence */
    int32_t size;      /* tokens of a page */
    int32_t window;    /* tokens that the model looks back, with the newest one; 0: all */
    int32_t whole;     /* 1: a page also has a state, which goes on: what is cut ends where a page ends */
    int32_t unused;    /* pages that no sequence holds */
    int64_t* table;    /* (sequences, blocks): the pages of each sequence; -1: none */
    int32_t* lengths;  /* tokens of each sequence whose keys and values are there; -1: no such sequence */
    int32_t* first;    /* the first page of each sequence that is still held */
    int32_t* holders;  /* of each page: how many sequences hold it */
} dk_pages;

/* Bytes of memory for so many pages and sequences, at a multiple of 8. */
size_t dk_pages_bytes(int32_t count, int32_t sequences, int32_t blocks);

/* Begin: no sequences. The fields up to `whole` are set, and `memory` has `dk_pages_bytes`. */
void dk_pages_open(dk_pages* pages, void* memory);

/* A new sequence without tokens: its row of the table, or -1 if there are too many. */
int32_t dk_pages_begin(dk_pages* pages);

/* A new sequence that shares the first `length` tokens of another one, as far as they fill whole pages: its length says
   how many those are. -1 if there are too many sequences. */
int32_t dk_pages_fork(dk_pages* pages, int32_t sequence, int32_t length);

/* Hold pages for `more` tokens behind those of a sequence. False, with nothing changed, if there are not enough. */
bool dk_pages_reserve(dk_pages* pages, int32_t sequence, int32_t more);

/* So many tokens behind those of a sequence have keys and values now. Pages that are out of the window are given
   back. */
void dk_pages_append(dk_pages* pages, int32_t sequence, int32_t more);

/* Forget all tokens of a sequence but the first `length`. Those that remain in a page that others hold, too, are
   forgotten with it, and with `whole` those of any page that does not remain as a whole: its length says how many are
   left. With pages given back that these tokens need, none is left. */
void dk_pages_cut(dk_pages* pages, int32_t sequence, int32_t length);

/* A step with tokens behind those of a sequence did not end: forget what it may have changed. */
void dk_pages_fail(dk_pages* pages, int32_t sequence);

/* End a sequence. */
void dk_pages_end(dk_pages* pages, int32_t sequence);

enum { DK_BUILD_BYTES = 32 };

/* The states of a model: each has pages as its first axis, and begins at a multiple of DK_ALIGNMENT behind the one
   before. */
typedef struct dk_caches {
    unsigned char* states;      /* the first one */
    const int64_t* page_bytes;  /* of each: the bytes of a page */
    const unsigned char* build; /* DK_BUILD_BYTES that tell models from each other */
    int32_t count;
} dk_caches;

/* Bytes of what is saved of a sequence of `count` tokens, with a note of the caller. */
size_t
dk_saved_bytes(const dk_pages* pages, int32_t sequence, int32_t count, const dk_caches* caches, size_t note_bytes);

/* Save a sequence: its tokens, and what the model remembers of them. */
void dk_save(
    const dk_pages* pages, int32_t sequence, const int32_t* tokens, int32_t count, const dk_caches* caches,
    const void* note, size_t note_bytes, void* saved
);

/* What was saved. */
typedef struct dk_saved {
    int32_t count;               /* tokens */
    int32_t read;                /* of these, those that the model remembers */
    int32_t first;               /* the first block whose page is there */
    const unsigned char* tokens; /* int32_t each, anywhere in memory */
    const unsigned char* note;
    size_t note_bytes;
    const unsigned char* pages;
} dk_saved;

/* Look at what was saved; it must stay. DK_ERROR_DATA: it is cut off, altered, or something else. DK_ERROR_USAGE: it is
   of another model. */
dk_status dk_saved_open(
    dk_saved* own, const dk_pages* pages, const dk_caches* caches, int32_t words, const void* saved, size_t bytes
);

/* The same in parts, for callers who have the states elsewhere. `dk_save_head` writes what is in front of the
   pages, and returns its bytes. Of each block from `first` of the sequence to its end, a page of each state follows,
   and then the checksum: `dk_saved_sum` of all that, beginning with DK_SAVED_SUM. */
#define DK_SAVED_SUM UINT64_C(0xcbf29ce484222325)

uint64_t dk_saved_sum(uint64_t sum, const void* bytes, size_t count);

size_t dk_save_head(
    const dk_pages* pages, int32_t sequence, const int32_t* tokens, int32_t count, const dk_caches* caches,
    const void* note, size_t note_bytes, void* saved
);

/* `dk_saved_open` for a caller who has compared the checksum. Of all `bytes`, the first ones are `there`, with those in
   front of the pages. */
dk_status dk_saved_look(
    dk_saved* own, const dk_pages* pages, const dk_caches* caches, int32_t words, const void* saved, size_t there,
    size_t bytes
);

/* Let a sequence without tokens hold pages for what was saved; `dk_pages_append` says that they are filled. False, with
   nothing changed, if there are not enough. */
bool dk_saved_hold(const dk_saved* own, dk_pages* pages, int32_t sequence);

/* Let a sequence without tokens have what was saved. False, with nothing changed, if there are not enough pages. */
bool dk_restore(const dk_saved* own, dk_pages* pages, int32_t sequence, const dk_caches* caches);

/* What is added to the score of a token. */
typedef struct dk_bias {
    int32_t token;
    float value;
} dk_bias;

/* How the next token is chosen. These steps follow each other: biases, penalties, top_k, typical_p, top_p, min_p,
   temperature. */
typedef struct dk_sampling {
    float temperature;        /* scores are divided by it; 0: the token with the greatest score */
    int32_t top_k;            /* only so many tokens with the greatest scores; 0: all */
    float typical_p;          /* only those whose information is nearest to the average, with this probability in all */
    float top_p;              /* only the most probable ones with this probability in all; 1: all */
    float min_p;              /* only those with this part of the greatest probability; 0: all */
    float repetition_penalty; /* scores of earlier tokens are divided by it, or multiplied if negative; 1: none */
    float presence_penalty;   /* subtracted from those of earlier tokens */
    float frequency_penalty;  /* the same for each time that they occurred */
    int32_t penalty_last;     /* how many of the last tokens count as earlier ones; -1: all */
    int32_t bias_count;
    const dk_bias* biases;
} dk_sampling;

/* A token, and the logarithm of its probability as the model gives it. */
typedef struct dk_choice {
    int32_t token;
    float logprob;
} dk_choice;

/* The settings that choose the token with the greatest score. */
dk_sampling dk_sampling_greedy(void);

/* The name of the first setting that is not a possible number; NULL if there is none. */
const char* dk_sampling_fault(const dk_sampling* sampling);

/* Bytes of workspace for a vocabulary of so many words, at a multiple of 8. */
size_t dk_sample_bytes(int32_t words);

/* Choose a token by the scores (words) that follow the tokens `earlier`. `random` is the state of the random numbers,
   at first the seed. DK_ERROR_DATA: the scores are no numbers, or no token is possible. */
dk_status dk_sample(
    const dk_sampling* sampling, const float* scores, int32_t words, const int32_t* earlier, int32_t count,
    uint64_t* random, void* workspace, dk_choice* choice
);

/* The probabilities (words) with which dk_sample chooses each token. */
dk_status dk_probabilities(
    const dk_sampling* sampling, const float* scores, int32_t words, const int32_t* earlier, int32_t count,
    void* workspace, float* probabilities
);

/* The same as dk_sample where another model guessed a token, drawn with the probabilities `guessed` (words). The guess
   is chosen with the probability p / q, at most 1, of what dk_sample would choose it with and of what it was guessed
   with; else a token is drawn by what p has more than q. So each token has the probability p. (Source: Leviathan et
   al., "Fast Inference from Transformers via Speculative Decoding", 2023.) */
dk_status dk_confirm(
    const dk_sampling* sampling, const float* scores, int32_t words, const int32_t* earlier, int32_t count,
    int32_t guess, const float* guessed, uint64_t* random, void* workspace, dk_choice* choice
);

/* The logarithm of the sum of the exponentials of scores: what is subtracted from a score for its log-probability. */
double dk_log_sum(const float* scores, int32_t words);

/* Texts that end an answer. Text that may be the beginning of one is held back until that is decided. */
typedef struct dk_stops {
    const char* const* texts; /* in UTF-8, none of them empty */
    const size_t* lengths;
    int32_t count;
    char* held; /* as many bytes as the longest of them has */
    size_t held_bytes;
} dk_stops;

/* Take further text, and write what can be shown, at most `held_bytes + bytes`. True: a stop was found; what is in
   front of it was written, and the rest is dropped. */
bool dk_stops_add(dk_stops* stops, const char* text, size_t bytes, char* shown, size_t* shown_bytes);

#ifdef __cplusplus
}
#endif

#endif
