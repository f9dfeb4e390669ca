/* A plugin of QEMU's user mode emulation that counts the instructions of one function and of all that it calls.
 *
 *     qemu-aarch64 -plugin count.so,function=NAME,result=PATH PROGRAM ...
 *
 * At the end the file PATH has a line `KIND NUMBER` for each kind of instructions: `all`, and those that kernels are
 * about, `fma` (multiply-adds of vectors of floats), `dot` (dot products of groups of 4 integers of 8 bits) and `mmla`
 * (products of 2 by 8 and 8 by 2 such integers). For each block of code that ran, a line `at ADDRESS NUMBER SYMBOL`
 * follows, with the instructions that were executed in it; the symbol is `?` outside of the program.
 *
 * The function must be a symbol of the program, for arm64, and not call itself; only one thread is counted. The
 * prototypes are those of the first version of QEMU's interface of plugins, as far as they are needed here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { FIRST_VERSION = 1, NO_REGISTERS = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(
    qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t, struct qemu_plugin_tb*)
);
void qemu_plugin_register_vcpu_insn_exec_cb(
    struct qemu_plugin_insn* insn, void (*callback)(unsigned int, void*), int flags, void* data
);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t, void*), void* data);
void qemu_plugin_register_vcpu_tb_exec_cb(
    struct qemu_plugin_tb* block, void (*callback)(unsigned int, void*), int flags, void* data
);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* block, size_t index);
const void* qemu_plugin_insn_data(const struct qemu_plugin_insn* insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn* insn);
const char* qemu_plugin_insn_symbol(const struct qemu_plugin_insn* insn);

#define EXPORT __attribute__((visibility("default")))

#define RETURN 0xd65f03c0u

enum { ALL, FMA, DOT, MMLA, KINDS };

static const char* const names[KINDS] = {"all", "fma", "dot", "mmla"};

/* Source: Arm Architecture Reference Manual for A-profile, C4.1, Advanced SIMD: FMLA, FMLS, FMLAL, SDOT, UDOT, USDOT,
   SMMLA, UMMLA and USMMLA, by vector and by element. */
static const struct {
    uint32_t mask, bits;
    int kind;
} known[] = {
    {0xbf20fc00, 0x0e20cc00, FMA},  {0xbf80b400, 0x0f801000, FMA}, {0xbf60fc00, 0x0e400c00, FMA},
    {0xbfc0b400, 0x0f001000, FMA},  {0x9fe0fc00, 0x0e809400, DOT}, {0x9fc0f400, 0x0f80e000, DOT},
    {0xbfe0fc00, 0x0e809c00, DOT},  {0xbfc0f400, 0x0f80f000, DOT}, {0xdfe0fc00, 0x4e80a400, MMLA},
    {0xffe0fc00, 0x4e80ac00, MMLA},
};

/* Neighbouring instructions that are executed together, from `address` on: how many of each kind, and how often. */
struct stretch {
    struct stretch* before;
    const char* symbol;
    uint64_t address, runs;
    unsigned counts[KINDS];
};

static char function[256], path[4096];
static uint64_t first; /* The function's address, once it is known. */
static uint64_t inside;
static struct stretch* last;

static void enter(unsigned int cpu, void* data) {
    (void)cpu, (void)data;
    inside = 1;
}

static void leave(unsigned int cpu, void* data) {
    (void)cpu, (void)data;
    inside = 0;
}

static void step(unsigned int cpu, void* data) {
    (void)cpu;
    ((struct stretch*)data)->runs += inside;
}

static struct stretch* begin(const struct qemu_plugin_insn* insn) {
    struct stretch* made = calloc(1, sizeof *made);
    if (made == NULL) {
        abort();
    }
    made->before = last;
    made->symbol = qemu_plugin_insn_symbol(insn);
    made->address = qemu_plugin_insn_vaddr(insn);
    return last = made;
}

static uint32_t word_of(const struct qemu_plugin_insn* insn) {
    uint32_t word;
    memcpy(&word, qemu_plugin_insn_data(insn), sizeof word);
    return word;
}

static void add(struct stretch* stretch, const struct qemu_plugin_insn* insn) {
    uint32_t word = word_of(insn);
    ++stretch->counts[ALL];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
        if ((word & known[i].mask) == known[i].bits) {
            ++stretch->counts[known[i].kind];
            return;
        }
    }
}

static int is_own(const struct qemu_plugin_insn* insn) {
    const char* symbol = qemu_plugin_insn_symbol(insn);
    return symbol != NULL && strcmp(symbol, function) == 0;
}

/* The callbacks of an instruction run in the order in which they are registered, before it does. */
static void by_instruction(struct qemu_plugin_insn* insn) {
    int own = is_own(insn);
    if (own && first == 0) {
        first = qemu_plugin_insn_vaddr(insn);
    }
    if (own && qemu_plugin_insn_vaddr(insn) == first) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, enter, NO_REGISTERS, NULL);
    }
    struct stretch* stretch = begin(insn);
    add(stretch, insn);
    qemu_plugin_register_vcpu_insn_exec_cb(insn, step, NO_REGISTERS, stretch);
    if (own && word_of(insn) == RETURN) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, leave, NO_REGISTERS, NULL);
    }
}

/* Blocks of the function itself are counted by instruction, all others at once. */
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(block);
    int own = 0;
    for (size_t i = 0; i < count; ++i) {
        own |= is_own(qemu_plugin_tb_get_insn(block, i));
    }
    for (size_t i = 0; own && i < count; ++i) {
        by_instruction(qemu_plugin_tb_get_insn(block, i));
    }
    if (!own && count > 0) {
        struct stretch* stretch = begin(qemu_plugin_tb_get_insn(block, 0));
        for (size_t i = 0; i < count; ++i) {
            add(stretch, qemu_plugin_tb_get_insn(block, i));
        }
        qemu_plugin_register_vcpu_tb_exec_cb(block, step, NO_REGISTERS, stretch);
    }
}

static void finish(qemu_plugin_id_t id, void* data) {
    (void)id, (void)data;
    FILE* result = fopen(path, "w");
    if (result == NULL) {
        return;
    }
    for (int kind = 0; kind < KINDS; ++kind) {
        uint64_t total = 0;
        for (const struct stretch* at = last; at != NULL; at = at->before) {
            total += at->runs * at->counts[kind];
        }
        (void)fprintf(result, "%s %" PRIu64 "\n", names[kind], total);
    }
    for (const struct stretch* at = last; at != NULL; at = at->before) {
        if (at->runs > 0) {
            const char* symbol = at->symbol == NULL || at->symbol[0] == 0 ? "?" : at->symbol;
            (void)fprintf(result, "at %" PRIx64 " %" PRIu64 " %s\n", at->address, at->runs * at->counts[ALL], symbol);
        }
    }
    (void)fclose(result);
}

EXPORT int qemu_plugin_version = FIRST_VERSION;

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t* info, int argc, char** argv) {
    (void)info;
    for (int i = 0; i < argc; ++i) {
        if (sscanf(argv[i], "function=%255s", function) != 1 && sscanf(argv[i], "result=%4095s", path) != 1) {
            return 1;
        }
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finish, NULL);
    return 0;
}
