/* A plugin of QEMU's system emulation that counts the instructions between two places of an image.
 *
 *     qemu-system-arm -plugin count.so,begin=ADDRESS,end=ADDRESS,result=PATH ...
 *
 * The places are the addresses of functions, in hexadecimal and without 0x. Counting starts when the first is entered
 * for the last time, and stops when the second is; neither of them is counted. The file PATH then has a line `all
 * NUMBER`, and for each block of code that ran in between a line `at ADDRESS NUMBER SYMBOL`, as `bench.instructions`
 * reads them. Each instruction counts once, whatever it takes; no interrupt may occur in between.
 *
 * The prototypes are those of the first version of QEMU's interface of plugins, as far as they are needed here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { FIRST_VERSION = 1, NO_REGISTERS = 0, ADD = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(
    qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t, struct qemu_plugin_tb*)
);
void qemu_plugin_register_vcpu_tb_exec_cb(
    struct qemu_plugin_tb* block, void (*callback)(unsigned int, void*), int flags, void* data
);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb* block, int op, void* counter, uint64_t operand);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t, void*), void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb* block);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* block, size_t index);
const char* qemu_plugin_insn_symbol(const struct qemu_plugin_insn* insn);

#define EXPORT __attribute__((visibility("default")))

/* Instructions that are executed together: how many, how often, and how often between the two places. */
struct block {
    struct block* before;
    const char* symbol;
    uint64_t address, instructions, runs, counted;
};

static uint64_t first, last;
static char path[4096];
static struct block* blocks;

static void begin(unsigned int cpu, void* data) {
    (void)cpu, (void)data;
    for (struct block* at = blocks; at != NULL; at = at->before) {
        at->runs = 0;
    }
}

static void end(unsigned int cpu, void* data) {
    (void)cpu, (void)data;
    for (struct block* at = blocks; at != NULL; at = at->before) {
        at->counted = at->runs;
    }
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
    (void)id;
    uint64_t address = qemu_plugin_tb_vaddr(block);
    if (address == first || address == last) {
        qemu_plugin_register_vcpu_tb_exec_cb(block, address == first ? begin : end, NO_REGISTERS, NULL);
        return;
    }
    struct block* made = calloc(1, sizeof *made);
    if (made == NULL) {
        abort();
    }
    *made = (struct block){blocks,  qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(block, 0)),
                           address, qemu_plugin_tb_n_insns(block),
                           0,       0};
    blocks = made;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD, &made->runs, 1);
}

static void finish(qemu_plugin_id_t id, void* data) {
    (void)id, (void)data;
    FILE* result = fopen(path, "w");
    if (result == NULL) {
        return;
    }
    uint64_t total = 0;
    for (const struct block* at = blocks; at != NULL; at = at->before) {
        total += at->counted * at->instructions;
    }
    (void)fprintf(result, "all %" PRIu64 "\n", total);
    for (const struct block* at = blocks; at != NULL; at = at->before) {
        if (at->counted > 0) {
            const char* symbol = at->symbol == NULL || at->symbol[0] == 0 ? "?" : at->symbol;
            uint64_t number = at->counted * at->instructions;
            (void)fprintf(result, "at %" PRIx64 " %" PRIu64 " %s\n", at->address, number, symbol);
        }
    }
    (void)fclose(result);
}

EXPORT int qemu_plugin_version = FIRST_VERSION;

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t* info, int argc, char** argv) {
    (void)info;
    for (int i = 0; i < argc; ++i) {
        if (sscanf(argv[i], "begin=%" SCNx64, &first) != 1 && sscanf(argv[i], "end=%" SCNx64, &last) != 1 &&
            sscanf(argv[i], "result=%4095s", path) != 1) {
            return 1;
        }
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finish, NULL);
    return 0;
}
