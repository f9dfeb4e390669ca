/* Flushes of a dynamic model whose cells run on a device with memory of its own, such as a GPU (driver.h).

   The control flow and the queue stay on the host. The words and the pool have the same places in the arena of the
   device as in that of the host. Tensors stay in the device's pool. The host's pool has the tensors that instances
   hold, and those of a single element, which are all that control flow can ask for; at the end of a run, also the
   tensors of the results.

   A flush is planned as a whole: which nodes are launched together depends on the structure of the instances alone, not
   on any tensor. The indices of all its batches lie side by side in the words, and are uploaded together. */
#ifndef DEPLOYKIT_DEVICE_H
#define DEPLOYKIT_DEVICE_H

#include "driver.h"
#include "stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The batches of a flush, as the word of the first, and of the one to take next; 0: none. */
typedef struct dk_plan {
    int32_t first;
    int32_t next;
} dk_plan;

/* Where host memory of the arena lies on the device: its offset, in the form of an address. NULL has none. */
static inline void* dk_place(const dk_queue* queue, const void* memory) {
    const unsigned char* bytes = (const unsigned char*)memory;
    return bytes == NULL ? NULL : (void*)(uintptr_t)(bytes - queue->model->arena);
}

/* The first `elements` of the pool. */
dk_slice dk_pool_slice(const dk_queue* queue, int64_t elements);

/* Upload the tensors of the instances, the first `elements` of the pool. */
dk_status dk_upload_instances(const dk_queue* queue, dk_driver* driver, int64_t elements);

/* Choose all batches of a flush that has begun, and upload their indices. */
dk_status dk_plan_flush(dk_queue* queue, dk_driver* driver, dk_plan* plan);

/* The next batch of a flush. Returns 0 when there are no more. */
int32_t dk_planned_batch(const dk_queue* queue, dk_plan* plan, dk_batch* batch);

/* Download what a flush computes and the control flow may ask for: tensors of one element. Like all downloads, they are
   there after the next `wait` of the driver. */
dk_status dk_fetch_numbers(const dk_queue* queue, dk_driver* driver, const dk_plan* plan);

/* Download tensors of results: see dk_give_tensors and dk_give_records. */
dk_status dk_fetch_tensors(
    const dk_queue* queue, dk_driver* driver, int32_t first, int32_t stride, int64_t count, int32_t elements
);
dk_status dk_fetch_records(const dk_queue* queue, dk_driver* driver, const dk_type* types, const dk_records* found);

#ifdef __cplusplus
}
#endif

#endif
