/* The part of <sys/auxv.h> that the runtime needs. */
#ifndef DEPLOYKIT_AUXV_H
#define DEPLOYKIT_AUXV_H

#define AT_HWCAP 16
#define AT_HWCAP2 26

unsigned long getauxval(unsigned long kind);

#endif
