/* The thread pool of a WebAssembly module. JavaScript starts the workers; each has an instance of the module with its
   own stack, and all share one memory. A memory has one pool. */
#ifndef DEPLOYKIT_THREADS_H
#define DEPLOYKIT_THREADS_H

#include "deploykit.h"

/* The executor that runs parallel loops on `threads` threads, at most 256, including the caller's; NULL for one thread.
   `patient` says whether the caller may sleep. */
dk_executor* dk_pool_share(int32_t threads, int patient);

/* Take part in loops for ever, on the stack whose end is `stack`, a multiple of 16. */
_Noreturn void dk_pool_work(void* stack);

/* Leave the loop in which this worker failed. */
void dk_pool_abandon(void);

/* The number of workers that failed since the last call. */
int32_t dk_pool_failures(void);

#endif
