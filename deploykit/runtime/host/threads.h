/* A pool of POSIX threads that runs parallel loops. Optional: a model without one runs them on the caller's thread.

       dk_pool* pool = dk_pool_start(4);
       model.base.executor = dk_pool_executor(pool);
       ...
       dk_pool_stop(pool);

   Models on several threads may share a pool. Its workers help one of them at a time; meanwhile the others run their
   loops on their own thread. */
#ifndef DEPLOYKIT_THREADS_H
#define DEPLOYKIT_THREADS_H

#include "deploykit.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dk_pool dk_pool;

/* Start a pool that runs each loop on `threads` threads, including the caller's; NULL if there is no memory. The pool
   has fewer threads if the system does not give as many. */
dk_pool* dk_pool_start(int threads);

/* The number of threads, including the caller's. */
int dk_pool_threads(const dk_pool* pool);

dk_executor* dk_pool_executor(dk_pool* pool);

/* End the threads and free the pool. No loop may be running. */
void dk_pool_stop(dk_pool* pool);

#ifdef __cplusplus
}
#endif

#endif
