/* Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID, and volume 1, 14.3 and 15.2,
   detection of AVX and AVX-512; for arm64 the Linux kernel's documentation, ELF hwcaps, and Apple's, determining
   instruction set characteristics; for AMX the kernel's documentation, using XSTATE features in user space
   applications. */
#include "cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <stddef.h>

/* The register state that the operating system must save for a feature: bits of XCR0. */
#define NONE 0u
#define YMM 0x06u
#define ZMM 0xe6u
#define TILES 0x60000u

#define OSXSAVE (1u << 27)

enum { LEAF_1, LEAF_7, LEAF_7_1, LEAF_EXTENDED, LEAVES };
enum { EAX, EBX, ECX, EDX, REGISTERS };

static const struct {
    uint64_t feature;
    int leaf;
    int where;
    int bit;
    unsigned state;
} known[] = {
    {DK_CPU_SSE3, LEAF_1, ECX, 0, NONE},         {DK_CPU_SSSE3, LEAF_1, ECX, 9, NONE},
    {DK_CPU_FMA, LEAF_1, ECX, 12, YMM},          {DK_CPU_SSE4_1, LEAF_1, ECX, 19, NONE},
    {DK_CPU_SSE4_2, LEAF_1, ECX, 20, NONE},      {DK_CPU_MOVBE, LEAF_1, ECX, 22, NONE},
    {DK_CPU_POPCNT, LEAF_1, ECX, 23, NONE},      {DK_CPU_AVX, LEAF_1, ECX, 28, YMM},
    {DK_CPU_F16C, LEAF_1, ECX, 29, YMM},         {DK_CPU_BMI, LEAF_7, EBX, 3, NONE},
    {DK_CPU_AVX2, LEAF_7, EBX, 5, YMM},          {DK_CPU_BMI2, LEAF_7, EBX, 8, NONE},
    {DK_CPU_AVX512F, LEAF_7, EBX, 16, ZMM},      {DK_CPU_AVX512DQ, LEAF_7, EBX, 17, ZMM},
    {DK_CPU_AVX512IFMA, LEAF_7, EBX, 21, ZMM},   {DK_CPU_AVX512CD, LEAF_7, EBX, 28, ZMM},
    {DK_CPU_AVX512BW, LEAF_7, EBX, 30, ZMM},     {DK_CPU_AVX512VL, LEAF_7, EBX, 31, ZMM},
    {DK_CPU_AVX512VBMI, LEAF_7, ECX, 1, ZMM},    {DK_CPU_AVX512VBMI2, LEAF_7, ECX, 6, ZMM},
    {DK_CPU_GFNI, LEAF_7, ECX, 8, NONE},         {DK_CPU_VAES, LEAF_7, ECX, 9, YMM},
    {DK_CPU_VPCLMULQDQ, LEAF_7, ECX, 10, YMM},   {DK_CPU_AVX512VNNI, LEAF_7, ECX, 11, ZMM},
    {DK_CPU_AVX512BITALG, LEAF_7, ECX, 12, ZMM}, {DK_CPU_AVX512VPOPCNTDQ, LEAF_7, ECX, 14, ZMM},
    {DK_CPU_AVX512FP16, LEAF_7, EDX, 23, ZMM},   {DK_CPU_AVXVNNI, LEAF_7_1, EAX, 4, YMM},
    {DK_CPU_AVX512BF16, LEAF_7_1, EAX, 5, ZMM},  {DK_CPU_LZCNT, LEAF_EXTENDED, ECX, 5, NONE},
    {DK_CPU_AMX_BF16, LEAF_7, EDX, 22, TILES},   {DK_CPU_AMX_TILE, LEAF_7, EDX, 24, TILES},
    {DK_CPU_AMX_INT8, LEAF_7, EDX, 25, TILES},
};

static unsigned kept_state(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

/* Whether this process may use tile registers: its signals need larger stacks then. */
static int tiles_permitted(void) {
#ifdef __linux__
    const long arch_prctl = 158, req_xcomp_perm = 0x1023, tile_data = 18;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(arch_prctl), "D"(req_xcomp_perm), "S"(tile_data)
                     : "rcx", "r11", "memory");
    return result == 0;
#else
    return 0;
#endif
}

uint64_t dk_cpu_features(uint64_t asked) {
    const uint64_t tiles = DK_CPU_AMX_TILE | DK_CPU_AMX_BF16 | DK_CPU_AMX_INT8;
    unsigned found[LEAVES][REGISTERS] = {{0}};
    unsigned state = 0;
    uint64_t features = 0;
    size_t index;
    __get_cpuid(1, &found[LEAF_1][EAX], &found[LEAF_1][EBX], &found[LEAF_1][ECX], &found[LEAF_1][EDX]);
    __get_cpuid_count(7, 0, &found[LEAF_7][EAX], &found[LEAF_7][EBX], &found[LEAF_7][ECX], &found[LEAF_7][EDX]);
    if (found[LEAF_7][EAX] >= 1) { /* EAX is the highest subleaf */
        unsigned* next = found[LEAF_7_1];
        __get_cpuid_count(7, 1, &next[EAX], &next[EBX], &next[ECX], &next[EDX]);
    }
    {
        unsigned* extended = found[LEAF_EXTENDED];
        __get_cpuid(0x80000001u, &extended[EAX], &extended[EBX], &extended[ECX], &extended[EDX]);
    }
    if (found[LEAF_1][ECX] & OSXSAVE) {
        state = kept_state();
    }
    for (index = 0; index < sizeof known / sizeof known[0]; ++index) {
        if ((found[known[index].leaf][known[index].where] >> known[index].bit & 1u) &&
            (state & known[index].state) == known[index].state) {
            features |= known[index].feature;
        }
    }
    features &= asked;
    return ((features & tiles) && !tiles_permitted()) ? (features & ~tiles) : features;
}

#elif defined(__aarch64__) && defined(__linux__)

#include <stddef.h>
#include <sys/auxv.h>

static const struct {
    uint64_t feature;
    unsigned long kind;
    int bit;
} known[] = {
    {DK_CPU_FULLFP16, AT_HWCAP, 10}, {DK_CPU_DOTPROD, AT_HWCAP, 20}, {DK_CPU_SVE, AT_HWCAP, 22},
    {DK_CPU_I8MM, AT_HWCAP2, 13},    {DK_CPU_BF16, AT_HWCAP2, 14},
};

uint64_t dk_cpu_features(uint64_t asked) {
    uint64_t features = 0;
    size_t index;
    for (index = 0; index < sizeof known / sizeof known[0]; ++index) {
        if (getauxval(known[index].kind) >> known[index].bit & 1u) {
            features |= known[index].feature;
        }
    }
    return features & asked;
}

#elif defined(__aarch64__) && defined(__APPLE__)

#include <stddef.h>
#include <sys/sysctl.h>

static const struct {
    uint64_t feature;
    const char* name;
} known[] = {
    {DK_CPU_FULLFP16, "hw.optional.arm.FEAT_FP16"},
    {DK_CPU_DOTPROD, "hw.optional.arm.FEAT_DotProd"},
    {DK_CPU_I8MM, "hw.optional.arm.FEAT_I8MM"},
    {DK_CPU_BF16, "hw.optional.arm.FEAT_BF16"},
};

/* Systems before macOS 12 do not know these names: their kernels are those that every CPU runs. */
uint64_t dk_cpu_features(uint64_t asked) {
    uint64_t features = 0;
    size_t index;
    for (index = 0; index < sizeof known / sizeof known[0]; ++index) {
        int found = 0;
        size_t bytes = sizeof found;
        if (sysctlbyname(known[index].name, &found, &bytes, NULL, 0) == 0 && found) {
            features |= known[index].feature;
        }
    }
    return features & asked;
}

#else

uint64_t dk_cpu_features(uint64_t asked) {
    return asked;
}

#endif
