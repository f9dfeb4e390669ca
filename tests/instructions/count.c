/* A plugin of QEMU's user mode emulation that counts the instructions of one function and of all that it calls.
 *
 *     qemu-aarch64 -plugin count.so,function=NAME,result=PATH PROGRAM ...
 *
 * At the end, the number is in the file PATH. The function must be a symbol of the program, for arm64, and not call
 * itself. The prototypes are those of the first version of QEMU's interface of plugins, as far as they are needed here.
 */
#include <inttypes.h>
#include <stdio.h>
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

static const unsigned char RETURN[4] = {0xc0, 0x03, 0x5f, 0xd6};

static char function[256], path[4096];
static uint64_t first; /* The function's address, once it is known. */
static uint64_t inside, total;

static void enter(unsigned int cpu, void* data) {
    (void)cpu, (void)data;
    inside = 1;
}

static void leave(unsigned int cpu, void* data) {
    (void)cpu, (void)data;
    inside = 0;
}

static void step(unsigned int cpu, void* data) {
    (void)cpu, (void)data;
    total += inside;
}

/* The callbacks of an instruction run in the order in which they are registered, before it does. */
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(block);
    for (size_t i = 0; i < count; ++i) {
        struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(block, i);
        const char* symbol = qemu_plugin_insn_symbol(insn);
        int own = symbol != NULL && strcmp(symbol, function) == 0;
        if (own && first == 0) {
            first = qemu_plugin_insn_vaddr(insn);
        }
        if (own && qemu_plugin_insn_vaddr(insn) == first) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, enter, NO_REGISTERS, NULL);
        }
        qemu_plugin_register_vcpu_insn_exec_cb(insn, step, NO_REGISTERS, NULL);
        if (own && memcmp(qemu_plugin_insn_data(insn), RETURN, sizeof RETURN) == 0) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, leave, NO_REGISTERS, NULL);
        }
    }
}

static void finish(qemu_plugin_id_t id, void* data) {
    (void)id, (void)data;
    FILE* result = fopen(path, "w");
    if (result != NULL) {
        (void)fprintf(result, "%" PRIu64 "\n", total);
        (void)fclose(result);
    }
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
