/* Tokenizers: text to token ids and back, over tables that the build packed (`tokenizer.bin`).

   The tables are read where they are, in a file that is mapped into memory or in a constant array; nothing is parsed or
   copied. Nothing here allocates or writes a global. A `dk_text` serves one thread at a time, and any number of them
   may share the tables. Damaged tables give wrong tokens or an error, but nothing outside of them is read. */
#ifndef DEPLOYKIT_TEXT_H
#define DEPLOYKIT_TEXT_H

#include "deploykit.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DK_TEXT_TABLES 24
/* The tables start at a multiple of this, in bytes; so does the workspace. */
#define DK_TEXT_ALIGNMENT 8

typedef struct dk_text {
    const void* table[DK_TEXT_TABLES];
    uint32_t count[DK_TEXT_TABLES]; /* elements of each table */
    size_t need;                    /* after DK_ERROR_ARENA: bytes of the workspace that this text may need */
    char error[DK_ERROR_TEXT];      /* text of the last error, always terminated */
} dk_text;

/* Which text becomes shorter when there are more tokens than `most`. */
typedef enum dk_text_cut { DK_TEXT_CUT_LONGEST = 0, DK_TEXT_CUT_FIRST = 1, DK_TEXT_CUT_SECOND = 2 } dk_text_cut;

/* A text, or a pair of texts. Bytes that are not UTF-8 count as U+FFFD, as in Python's bytes.decode("utf-8",
 * "replace"). */
typedef struct dk_text_input {
    const char* first;
    size_t first_bytes;
    const char* second; /* NULL: there is one text */
    size_t second_bytes;
    int32_t most; /* tokens, with special ones; 0: as many as there are */
    dk_text_cut cut;
    bool cut_left; /* cut tokens at the beginning of texts instead of at their end */
    bool bare;     /* add no special tokens */
} dk_text_input;

/* The tokens. Arrays are the caller's, and those that are NULL are left out. */
typedef struct dk_text_tokens {
    int32_t capacity; /* tokens that the arrays have room for */
    int32_t count;    /* tokens found; after DK_ERROR_CAPACITY, more than `capacity` */
    int32_t* ids;
    int32_t* types;   /* the segment of each token, as BERT's models want it */
    int32_t* bytes;   /* two for each token: where it begins and ends in its text */
    int32_t* chars;   /* the same in characters */
    int8_t* texts;    /* 0 or 1: the text that the token is from; -1: none, it was added */
    uint8_t* special; /* 1: the token was added */
} dk_text_tokens;

/* A text that is decoded piece by piece; begin with all zeros. */
typedef struct dk_text_stream {
    unsigned char bytes[4]; /* of a character that is not complete */
    uint32_t waiting;
    uint32_t stripped;
    bool started;
} dk_text_stream;

/* Tokens to decode. Those that the vocabulary does not have are left out. */
typedef struct dk_text_ids {
    const int32_t* ids;
    int32_t count;
    bool skip_special;
} dk_text_ids;

/* Use these tables. DK_ERROR_WEIGHTS: they are damaged, misaligned, or of another version. */
dk_status dk_text_open(dk_text* text, const void* tables, size_t bytes);

/* The bytes of workspace that suffice for any texts of `bytes` bytes in all. Most texts need far less. */
size_t dk_text_workspace(const dk_text* text, size_t bytes);

/* The greatest number of tokens that the model was made for; 0 if that is not known. */
int32_t dk_text_limit(const dk_text* text);

/* Encode. DK_ERROR_ARENA: the workspace is too small; DK_ERROR_CAPACITY: the arrays are; DK_ERROR_USAGE: a text of 1
   GiB or more, or the special tokens alone are more than `most`. */
dk_status
dk_text_encode(dk_text* text, const dk_text_input* input, void* workspace, size_t bytes, dk_text_tokens* tokens);

/* Write the text of further tokens in UTF-8, without a zero byte at its end. What is not a whole character yet stays in
   the stream. With `end`, there are no further tokens: what is left is written as U+FFFD, and the stream is as new.
   Tokens of single bytes that are no UTF-8 become U+FFFD each; whether they are is decided for those in a row, as far
   as they are in one call. `bytes` receives the length of the text; DK_ERROR_CAPACITY: it is more than `capacity`, and
   the stream is as before. */
dk_status dk_text_decode(
    dk_text* text, dk_text_stream* stream, const dk_text_ids* ids, bool end, char* out, size_t capacity, size_t* bytes
);

#ifdef __cplusplus
}
#endif

#endif
