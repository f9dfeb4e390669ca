/* Conversations as texts: programs that templates in the language Jinja became when the model was built.

   A program is bytes that `deploykit/language/programs` writes. It works in memory of the caller, and ends after a
   bounded number of steps. Nothing here allocates or writes a global. */
#ifndef DEPLOYKIT_TEMPLATE_H
#define DEPLOYKIT_TEMPLATE_H

#include "deploykit.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Who says a message. */
typedef enum dk_role { DK_SYSTEM = 0, DK_USER = 1, DK_ASSISTANT = 2 } dk_role;

typedef struct dk_message {
    dk_role role;
    const char* text; /* UTF-8 */
    size_t bytes;
} dk_message;

/* A conversation, and where its text goes. */
typedef struct dk_rendering {
    const unsigned char* program;
    size_t program_bytes;
    /* An object in JSON: `messages`, `tools`, and whatever else the template knows. If it is NULL, the messages are
       these. */
    const char* json;
    size_t json_bytes;
    const dk_message* messages;
    size_t count;
    int64_t now;     /* the time that the template may tell: seconds since 1970, of the local clock; 0: unknown */
    void* workspace; /* any memory; what is too little is an error */
    size_t workspace_bytes;
    char* text; /* UTF-8; not terminated */
    size_t capacity;
    size_t bytes;      /* of the text, afterwards */
    const char* error; /* what went wrong; it may lie in the workspace */
} dk_rendering;

/* Make the text. DK_ERROR_BUFFER: `capacity` is too small. DK_ERROR_ARENA: the workspace is. DK_ERROR_USAGE: the
   template refuses these messages. DK_ERROR_DATA: the JSON or the program is none. */
dk_status dk_render(dk_rendering* own);

#ifdef __cplusplus
}
#endif

#endif
