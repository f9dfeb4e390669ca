/* Unpacks the code of kernels, which the compiler packs (compiler/codegen/shaders/spirv/packing.py). */
#ifndef DEPLOYKIT_UNPACK_H
#define DEPLOYKIT_UNPACK_H

#include <stdint.h>

/* Unpack code of `code_bytes` bytes, a multiple of 4. Returns it, on the heap, or NULL if there is not enough memory.
   Of `packed` only `packed_bytes` are read. If they are damaged, the code is another one; its hash says so. */
uint32_t* dk_unpack(const void* packed, int64_t packed_bytes, int64_t code_bytes);

#endif
