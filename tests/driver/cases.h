/* What every driver of the device interface must do. The host of the cases has the kernel ADD, `to[i] = from[i] + by`
   of int32_t with operands (from, to) and the scalar (by), and buffers of BUFFER_BYTES with the numbers FIRST and
   SECOND; a third, KEPT, is the first that the driver keeps between runs. */
#ifndef DRIVER_CASES_H
#define DRIVER_CASES_H

#include "driver.h"

#include <stdint.h>

#define ADD 0
#define FIRST DK_BUFFER_PORTS
#define SECOND (DK_BUFFER_PORTS + 1)
#define KEPT DK_BUFFER_KEPT
#define COUNT (65535 * 64 + 100) /* more than one axis of a grid allows */
#define BUFFER_BYTES (4 * COUNT + 4096)

typedef struct driver_case {
    const char* name;
    dk_status (*ask)(dk_driver* driver);
    int32_t (*holds)(void);
} driver_case;

extern const driver_case driver_cases[];
extern const int32_t driver_case_count;

#endif
