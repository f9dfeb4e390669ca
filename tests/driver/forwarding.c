/* An OpenCL library that passes calls on to the system's, and lets some fail: DK_FAIL is the name of a function, the
   number of a call from 1, and the code it returns. With DK_GUARD, memory that kernels must not touch comes right
   behind each buffer (1) or right before it (2). Its functions are had like those of some Android devices. At the end
   it prints how many objects are left. */
#define _DEFAULT_SOURCE

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "opencl_api.h"

#define PAGE 4096

static void* library;
static dk_opencl_api real;
static int buffers, events, sources, binaries;

static const char* const names[] = {
#define NAME(result, name, parameters) "cl" #name,
    DK_OPENCL_FUNCTIONS(NAME)
#undef NAME
};

/* The code with which this call of a function fails, or 0. */
static cl_int failure(const char* name) {
    static int calls;
    const char* wanted = getenv("DK_FAIL");
    char function[64];
    int number = 0, code = 0;
    if (wanted == NULL || sscanf(wanted, "%63s %d %d", function, &number, &code) != 3 || strcmp(function, name) != 0) {
        return 0;
    }
    return ++calls == number ? code : 0;
}

static cl_int dispatch(
    cl_command_queue queue, cl_kernel kernel, cl_uint axes, const size_t* offset, const size_t* global,
    const size_t* local, cl_uint count, const cl_event* list, cl_event* event
) {
    const cl_int code = failure("clEnqueueNDRangeKernel");
    events += event != NULL && code == 0;
    return code ? code : real.EnqueueNDRangeKernel(queue, kernel, axes, offset, global, local, count, list, event);
}

static cl_int copy(
    cl_command_queue queue, cl_mem source, cl_mem target, size_t from, size_t to, size_t bytes, cl_uint count,
    const cl_event* list, cl_event* event
) {
    const cl_int code = failure("clEnqueueCopyBuffer");
    events += event != NULL && code == 0;
    return code ? code : real.EnqueueCopyBuffer(queue, source, target, from, to, bytes, count, list, event);
}

static cl_int finish(cl_command_queue queue) {
    const cl_int code = failure("clFinish"), found = real.Finish(queue);
    return code ? code : found;
}

static cl_int read_buffer(
    cl_command_queue queue, cl_mem source, cl_uint blocking, size_t from, size_t bytes, void* target, cl_uint count,
    const cl_event* list, cl_event* event
) {
    const cl_int code = failure("clEnqueueReadBuffer");
    events += event != NULL && code == 0;
    return code ? code : real.EnqueueReadBuffer(queue, source, blocking, from, bytes, target, count, list, event);
}

static cl_int write_buffer(
    cl_command_queue queue, cl_mem target, cl_uint blocking, size_t to, size_t bytes, const void* source, cl_uint count,
    const cl_event* list, cl_event* event
) {
    const cl_int code = failure("clEnqueueWriteBuffer");
    events += event != NULL && code == 0;
    return code ? code : real.EnqueueWriteBuffer(queue, target, blocking, to, bytes, source, count, list, event);
}

static cl_mem create_buffer(cl_context context, cl_bits flags, size_t bytes, void* host, cl_int* code) {
    const char* guard = getenv("DK_GUARD");
    *code = failure("clCreateBuffer");
    if (*code) {
        return NULL;
    }
    if (guard != NULL) {
        const size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
        char* all = mmap(NULL, pages + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(all + PAGE, pages, PROT_READ | PROT_WRITE);
        host = all + PAGE + (guard[0] == '1' ? pages - bytes : 0);
        flags |= 8; /* CL_MEM_USE_HOST_PTR */
    }
    ++buffers;
    return real.CreateBuffer(context, flags, bytes, host, code);
}

static cl_int release_buffer(cl_mem buffer) {
    --buffers;
    return real.ReleaseMemObject(buffer);
}

static cl_int release_event(cl_event event) {
    --events;
    return real.ReleaseEvent(event);
}

static cl_program
with_source(cl_context context, cl_uint count, const char** texts, const size_t* bytes, cl_int* code) {
    ++sources;
    return real.CreateProgramWithSource(context, count, texts, bytes, code);
}

static cl_program with_binary(
    cl_context context, cl_uint count, const cl_device_id* devices, const size_t* bytes, const unsigned char** texts,
    cl_int* each, cl_int* code
) {
    ++binaries;
    *code = failure("clCreateProgramWithBinary");
    return *code ? NULL : real.CreateProgramWithBinary(context, count, devices, bytes, texts, each, code);
}

static cl_kernel create_kernel(cl_program program, const char* name, cl_int* code) {
    *code = failure("clCreateKernel");
    return *code ? NULL : real.CreateKernel(program, name, code);
}

void enableOpenCL(void);
void* loadOpenCLPointer(const char* name);

void enableOpenCL(void) {
    library = dlopen("libOpenCL.so.1", RTLD_NOW);
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        void* found = dlsym(library, names[i]);
        memcpy((char*)&real + i * sizeof found, &found, sizeof found);
    }
}

void* loadOpenCLPointer(const char* name) {
    dk_opencl_api own = real;
    own.EnqueueNDRangeKernel = dispatch;
    own.EnqueueCopyBuffer = copy;
    own.EnqueueReadBuffer = read_buffer;
    own.EnqueueWriteBuffer = write_buffer;
    own.Finish = finish;
    own.CreateBuffer = create_buffer;
    own.ReleaseMemObject = release_buffer;
    own.ReleaseEvent = release_event;
    own.CreateProgramWithSource = with_source;
    own.CreateProgramWithBinary = with_binary;
    own.CreateKernel = create_kernel;
    void* found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        if (strcmp(names[i], name) == 0) {
            memcpy(&found, (char*)&own + i * sizeof found, sizeof found);
        }
    }
    return found;
}

__attribute__((destructor)) static void report(void) {
    if (getenv("DK_REPORT") != NULL) {
        fprintf(stderr, "buffers %d, events %d, sources %d, binaries %d\n", buffers, events, sources, binaries);
    }
}
