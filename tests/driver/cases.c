/* A case asks the driver for work, waits as driver.h says, and then tells whether the host's memory holds the result.
 */
#include "cases.h"

#include <stddef.h>

#define CHAIN 2500 /* dispatches: more than there are blocks of scalars in a driver's buffer */
#define GUARD 0x55

static int32_t data[COUNT];
static int32_t result[COUNT + 1];

static dk_slice at(int32_t buffer, int64_t offset, int64_t bytes) {
    const dk_slice slice = {buffer, "tensor", offset, bytes};
    return slice;
}

static void fill(int32_t count, int32_t factor) {
    for (int32_t i = 0; i < count; ++i) {
        data[i] = i * factor;
        result[i] = -1;
    }
}

static dk_status add(dk_driver* driver, dk_slice from, dk_slice to, int32_t by, int32_t count) {
    const dk_slice slices[] = {from, to};
    return driver->dispatch(driver, ADD, slices, 2, &by, 1, count);
}

/* A number of bytes that is not a whole number of words comes back. The host's memory behind them is unchanged. */
static dk_status bytes_ask(dk_driver* driver) {
    const dk_slice place = at(FIRST, 256, 7);
    fill(4, 0x01020304);
    result[1] = result[2] = GUARD * 0x01010101;
    dk_status status = driver->upload(driver, &place, data + 1);
    return status != DK_OK ? status : driver->download(driver, result, &place);
}

static int32_t bytes_hold(void) {
    const uint8_t* found = (const uint8_t*)result;
    const uint8_t* wanted = (const uint8_t*)(data + 1);
    for (int32_t i = 0; i < 7; ++i) {
        if (found[i] != wanted[i]) {
            return 0;
        }
    }
    return found[7] == GUARD && found[8] == GUARD;
}

/* Host memory may change as soon as an upload returns. Work sees the last upload before it. */
static dk_status order_ask(dk_driver* driver) {
    const dk_slice place = at(FIRST, 0, 4), one = at(SECOND, 0, 4), two = at(SECOND, 256, 4);
    const dk_slice both = at(SECOND, 0, 260);
    dk_status status = DK_OK;
    for (int32_t turn = 0; turn < 2 && status == DK_OK; ++turn) {
        data[0] = 10 + turn;
        status = driver->upload(driver, &place, data);
        data[0] = -5;
        if (status == DK_OK) {
            status = add(driver, place, turn ? two : one, 100, 1);
        }
    }
    return status != DK_OK ? status : driver->download(driver, result, &both);
}

static int32_t order_holds(void) {
    return result[0] == 110 && result[64] == 111;
}

/* An upload to a place that no work before it uses. */
static dk_status apart_ask(dk_driver* driver) {
    const dk_slice both = at(SECOND, 0, 260);
    dk_status status = DK_OK;
    for (int32_t turn = 0; turn < 2 && status == DK_OK; ++turn) {
        const dk_slice from = at(FIRST, 256 * turn, 256), to = at(SECOND, 256 * turn, 256);
        fill(64, 1 + turn);
        status = driver->upload(driver, &from, data);
        status = status != DK_OK ? status : add(driver, from, to, 100, 64);
    }
    return status != DK_OK ? status : driver->download(driver, result, &both);
}

static int32_t apart_holds(void) {
    return result[63] == 163 && result[64] == 100;
}

/* Copies between buffers, within a buffer, and to a place after the beginning of a tensor. */
static dk_status copies_ask(dk_driver* driver) {
    const dk_slice source = at(FIRST, 0, 400), apart = at(FIRST, 1024, 400), target = at(SECOND, 256, 800);
    const dk_slice none = at(SECOND, 0, 0);
    fill(200, 3);
    dk_status status = driver->upload(driver, &source, data);
    const dk_slice* steps[][2] = {{&apart, &source}, {&target, &apart}, {&target, &source}, {&none, &none}};
    for (int32_t i = 0; i < 4 && status == DK_OK; ++i) {
        status = driver->copy(driver, steps[i][0], i == 2 ? 400 : 0, steps[i][1]);
    }
    return status != DK_OK ? status : driver->download(driver, result, &target);
}

static int32_t copies_hold(void) {
    for (int32_t i = 0; i < 200; ++i) {
        if (result[i] != data[i % 100]) {
            return 0;
        }
    }
    return 1;
}

/* More invocations than one axis of a grid allows. The last group is not full. */
static dk_status large_ask(dk_driver* driver) {
    const dk_slice from = at(FIRST, 0, 4 * (int64_t)COUNT), to = at(SECOND, 256, 4 * (int64_t)COUNT);
    const dk_slice behind = at(SECOND, 256 + 4 * (int64_t)(COUNT - 1), 8);
    const int32_t guard[] = {0, GUARD};
    fill(COUNT, 1);
    dk_status status = driver->upload(driver, &from, data);
    status = status != DK_OK ? status : driver->upload(driver, &behind, guard);
    status = status != DK_OK ? status : add(driver, from, to, 7, COUNT);
    const dk_slice more = at(SECOND, 256, 4 * (int64_t)COUNT + 4);
    return status != DK_OK ? status : driver->download(driver, result, &more);
}

static int32_t large_holds(void) {
    for (int32_t i = 0; i < COUNT; ++i) {
        if (result[i] != i + 7) {
            return 0;
        }
    }
    return result[COUNT] == GUARD;
}

/* Each dispatch reads what the previous one wrote. */
static dk_status chain_ask(dk_driver* driver) {
    const dk_slice ends[] = {at(FIRST, 0, 400), at(SECOND, 512, 400)};
    fill(100, 5);
    dk_status status = driver->upload(driver, &ends[0], data);
    for (int32_t i = 0; i < CHAIN && status == DK_OK; ++i) {
        status = add(driver, ends[i % 2], ends[(i + 1) % 2], i % 3, 100);
    }
    return status != DK_OK ? status : driver->download(driver, result, &ends[CHAIN % 2]);
}

static int32_t chain_holds(void) {
    int32_t sum = 0;
    for (int32_t i = 0; i < CHAIN; ++i) {
        sum += i % 3;
    }
    for (int32_t i = 0; i < 100; ++i) {
        if (result[i] != 5 * i + sum) {
            return 0;
        }
    }
    return 1;
}

/* A buffer that is kept between runs is used as any other. */
static dk_status kept_ask(dk_driver* driver) {
    const dk_slice first = at(KEPT, 0, 400), second = at(KEPT, 1024, 800), target = at(SECOND, 256, 400);
    const dk_slice end = at(KEPT, 1024, 400);
    fill(100, 3);
    dk_status status = driver->upload(driver, &first, data);
    status = status != DK_OK ? status : add(driver, first, target, 5, 100);
    status = status != DK_OK ? status : add(driver, target, end, 7, 100);
    status = status != DK_OK ? status : driver->copy(driver, &second, 400, &first);
    return status != DK_OK ? status : driver->download(driver, result, &second);
}

static int32_t kept_holds(void) {
    for (int32_t i = 0; i < 100; ++i) {
        if (result[i] != data[i] + 12 || result[100 + i] != data[i]) {
            return 0;
        }
    }
    return 1;
}

/* The parts of a tensor are windows of one buffer, which a dispatch binds side by side. */
static dk_status windows_ask(dk_driver* driver) {
    const dk_slice all = at(FIRST, 0, 2048);
    fill(512, 1);
    dk_status status = driver->upload(driver, &all, data);
    for (int32_t i = 1; i < 4 && status == DK_OK; ++i) {
        status = add(driver, at(FIRST, 512 * (i - 1), 512), at(FIRST, 512 * i, 512), 1000, 128);
    }
    return status != DK_OK ? status : driver->download(driver, result, &all);
}

static int32_t windows_hold(void) {
    for (int32_t i = 0; i < 512; ++i) {
        if (result[i] != i % 128 + i / 128 * 1000) {
            return 0;
        }
    }
    return 1;
}

const driver_case driver_cases[] = {
    {"kept", kept_ask, kept_holds},         {"windows", windows_ask, windows_hold}, {"bytes", bytes_ask, bytes_hold},
    {"order", order_ask, order_holds},      {"apart", apart_ask, apart_holds},      {"copies", copies_ask, copies_hold},
    {"large grid", large_ask, large_holds}, {"chain", chain_ask, chain_holds},
};

const int32_t driver_case_count = (int32_t)(sizeof driver_cases / sizeof *driver_cases);
