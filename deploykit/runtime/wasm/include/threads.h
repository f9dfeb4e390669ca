/* The pool of a WebAssembly module: workers, which JavaScript starts, each with an instance on the same memory and a
   stack of its own. There is one pool in a memory. */
#ifndef DEPLOYKIT_THREADS_H
#define DEPLOYKIT_THREADS_H

#include "deploykit.h"

/* Who runs parallel loops on `threads` threads, at most 256, the caller's among them; NULL for one. `patient` tells
   whether the caller may sleep. */
dk_executor* dk_pool_share(int32_t threads, int patient);

/* Take part in loops for ever, on the stack that ends at `stack`, a multiple of 16. */
_Noreturn void dk_pool_work(void* stack);

/* Leave the loop in the middle of which this worker failed. */
void dk_pool_abandon(void);

/* How many workers failed since this was asked. */
int32_t dk_pool_failures(void);

#endif
