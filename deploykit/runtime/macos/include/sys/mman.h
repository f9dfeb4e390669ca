/* The system's <sys/mman.h> with what the one for Android declares, too; files of any size need no name of their own.
 */
#ifndef DEPLOYKIT_MACOS_MMAN_H
#define DEPLOYKIT_MACOS_MMAN_H

#include_next <sys/mman.h>

#include <fcntl.h>
#include <unistd.h>

#define mmap64 mmap

#endif
