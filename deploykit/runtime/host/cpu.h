/* The features of the CPU that a program runs on. */
#ifndef DEPLOYKIT_CPU_H
#define DEPLOYKIT_CPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x86-64 */
#define DK_CPU_SSE3 (UINT64_C(1) << 0)
#define DK_CPU_SSSE3 (UINT64_C(1) << 1)
#define DK_CPU_FMA (UINT64_C(1) << 2)
#define DK_CPU_SSE4_1 (UINT64_C(1) << 3)
#define DK_CPU_SSE4_2 (UINT64_C(1) << 4)
#define DK_CPU_MOVBE (UINT64_C(1) << 5)
#define DK_CPU_POPCNT (UINT64_C(1) << 6)
#define DK_CPU_AVX (UINT64_C(1) << 7)
#define DK_CPU_F16C (UINT64_C(1) << 8)
#define DK_CPU_BMI (UINT64_C(1) << 9)
#define DK_CPU_AVX2 (UINT64_C(1) << 10)
#define DK_CPU_BMI2 (UINT64_C(1) << 11)
#define DK_CPU_AVX512F (UINT64_C(1) << 12)
#define DK_CPU_AVX512DQ (UINT64_C(1) << 13)
#define DK_CPU_AVX512IFMA (UINT64_C(1) << 14)
#define DK_CPU_AVX512CD (UINT64_C(1) << 15)
#define DK_CPU_AVX512BW (UINT64_C(1) << 16)
#define DK_CPU_AVX512VL (UINT64_C(1) << 17)
#define DK_CPU_AVX512VBMI (UINT64_C(1) << 18)
#define DK_CPU_AVX512VBMI2 (UINT64_C(1) << 19)
#define DK_CPU_GFNI (UINT64_C(1) << 20)
#define DK_CPU_VAES (UINT64_C(1) << 21)
#define DK_CPU_VPCLMULQDQ (UINT64_C(1) << 22)
#define DK_CPU_AVX512VNNI (UINT64_C(1) << 23)
#define DK_CPU_AVX512BITALG (UINT64_C(1) << 24)
#define DK_CPU_AVX512VPOPCNTDQ (UINT64_C(1) << 25)
#define DK_CPU_AVX512FP16 (UINT64_C(1) << 26)
#define DK_CPU_AVXVNNI (UINT64_C(1) << 27)
#define DK_CPU_AVX512BF16 (UINT64_C(1) << 28)
#define DK_CPU_LZCNT (UINT64_C(1) << 29)
#define DK_CPU_AMX_TILE (UINT64_C(1) << 30)
#define DK_CPU_AMX_BF16 (UINT64_C(1) << 31)
#define DK_CPU_AMX_INT8 (UINT64_C(1) << 32)

/* arm64 */
#define DK_CPU_FULLFP16 (UINT64_C(1) << 40)
#define DK_CPU_DOTPROD (UINT64_C(1) << 41)
#define DK_CPU_SVE (UINT64_C(1) << 42)
#define DK_CPU_I8MM (UINT64_C(1) << 43)
#define DK_CPU_BF16 (UINT64_C(1) << 44)

/* Those of the features `asked` that this CPU has, and whose registers the operating system saves. Linux saves the tile
   registers of AMX only in processes that ask for it; this function does if they are among `asked`. */
uint64_t dk_cpu_features(uint64_t asked);

#ifdef __cplusplus
}
#endif

#endif
