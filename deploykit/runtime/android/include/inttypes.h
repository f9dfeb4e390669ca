/* The part of <inttypes.h> that the runtime needs. */
#ifndef DEPLOYKIT_INTTYPES_H
#define DEPLOYKIT_INTTYPES_H

#include <stdint.h>

#define PRId64 __INT64_FMTd__
#define PRId32 __INT32_FMTd__

#endif
