/* The cases as exports of a WebAssembly module: the page waits for the device between asking and looking. */
#include "cases.h"
#include "web_driver.h"

#define EXPORT(name) __attribute__((export_name(#name)))

EXPORT(count) int32_t count(void) {
    return driver_case_count;
}

EXPORT(name) const char* name(int32_t index) {
    return driver_cases[index].name;
}

EXPORT(first_buffer) int32_t first_buffer(void) {
    return FIRST;
}

EXPORT(buffer_bytes) int32_t buffer_bytes(void) {
    return BUFFER_BYTES;
}

EXPORT(ask) int32_t ask(int32_t index) {
    return driver_cases[index].ask(&dk_web_driver);
}

EXPORT(wait) int32_t wait_for(void) {
    return dk_web_driver.wait(&dk_web_driver);
}

EXPORT(holds) int32_t holds(int32_t index) {
    return driver_cases[index].holds();
}
