/* The driver of the GPU that JavaScript uses. */
#ifndef DEPLOYKIT_WASM_GPU_H
#define DEPLOYKIT_WASM_GPU_H

#include "driver.h"

extern dk_driver dk_web_driver;

#endif
