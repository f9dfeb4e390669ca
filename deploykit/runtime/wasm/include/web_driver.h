/* The driver of the GPU that JavaScript uses. */
#ifndef DEPLOYKIT_WEB_DRIVER_H
#define DEPLOYKIT_WEB_DRIVER_H

#include "driver.h"

extern dk_driver dk_web_driver;

#endif
