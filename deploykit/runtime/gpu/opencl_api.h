/* The part of OpenCL 1.2 that the driver uses. No other header of OpenCL is needed. Source: Khronos, "The OpenCL
   Specification", version 1.2. */
#ifndef DEPLOYKIT_OPENCL_API_H
#define DEPLOYKIT_OPENCL_API_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;
typedef uint64_t cl_bits;
typedef struct cl_platform_object* cl_platform_id;
typedef struct cl_device_object* cl_device_id;
typedef struct cl_context_object* cl_context;
typedef struct cl_queue_object* cl_command_queue;
typedef struct cl_memory_object* cl_mem;
typedef struct cl_program_object* cl_program;
typedef struct cl_kernel_object* cl_kernel;
typedef struct cl_event_object* cl_event;
typedef void (*cl_context_callback)(const char*, const void*, size_t, void*);
typedef void (*cl_program_callback)(cl_program, void*);

#define CL_SUCCESS 0
#define CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)
#define CL_OUT_OF_RESOURCES (-5)
#define CL_OUT_OF_HOST_MEMORY (-6)
#define CL_INVALID_BUFFER_SIZE (-61)

#define CL_PLATFORM_NAME 0x0902u
#define CL_DEVICE_TYPE 0x1000u
#define CL_DEVICE_MAX_WORK_GROUP_SIZE 0x1004u
#define CL_DEVICE_MAX_MEM_ALLOC_SIZE 0x1010u
#define CL_DEVICE_SINGLE_FP_CONFIG 0x101bu
#define CL_DEVICE_GLOBAL_MEM_SIZE 0x101fu
#define CL_DEVICE_ENDIAN_LITTLE 0x1026u
#define CL_DEVICE_AVAILABLE 0x1027u
#define CL_DEVICE_COMPILER_AVAILABLE 0x1028u
#define CL_DEVICE_NAME 0x102bu
#define CL_DRIVER_VERSION 0x102du
#define CL_DEVICE_VERSION 0x102fu
#define CL_DEVICE_EXTENSIONS 0x1030u
#define CL_DEVICE_HOST_UNIFIED_MEMORY 0x1035u
#define CL_CONTEXT_PLATFORM 0x1084
#define CL_PROGRAM_BINARY_SIZES 0x1165u
#define CL_PROGRAM_BINARIES 0x1166u
#define CL_PROGRAM_BUILD_LOG 0x1183u
#define CL_KERNEL_WORK_GROUP_SIZE 0x11b0u
#define CL_PROFILING_COMMAND_START 0x1282u
#define CL_PROFILING_COMMAND_END 0x1283u

#define CL_DEVICE_TYPE_CPU 2u
#define CL_DEVICE_TYPE_GPU 4u
#define CL_DEVICE_TYPE_ALL 0xffffffffu
#define CL_FP_INF_NAN 2u
#define CL_FP_ROUND_TO_NEAREST 4u
#define CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT 128u
#define CL_QUEUE_PROFILING_ENABLE 2u
#define CL_MEM_READ_WRITE 1u
#define CL_MEM_READ_ONLY 4u

/* The functions: result, name without `cl`, parameters. */
#define DK_OPENCL_FUNCTIONS(F)                                                                                         \
    F(cl_int, GetPlatformIDs, (cl_uint, cl_platform_id*, cl_uint*))                                                    \
    F(cl_int, GetPlatformInfo, (cl_platform_id, cl_uint, size_t, void*, size_t*))                                      \
    F(cl_int, GetDeviceIDs, (cl_platform_id, cl_bits, cl_uint, cl_device_id*, cl_uint*))                               \
    F(cl_int, GetDeviceInfo, (cl_device_id, cl_uint, size_t, void*, size_t*))                                          \
    F(cl_context, CreateContext, (const intptr_t*, cl_uint, const cl_device_id*, cl_context_callback, void*, cl_int*)) \
    F(cl_int, ReleaseContext, (cl_context))                                                                            \
    F(cl_command_queue, CreateCommandQueue, (cl_context, cl_device_id, cl_bits, cl_int*))                              \
    F(cl_int, ReleaseCommandQueue, (cl_command_queue))                                                                 \
    F(cl_mem, CreateBuffer, (cl_context, cl_bits, size_t, void*, cl_int*))                                             \
    F(cl_int, ReleaseMemObject, (cl_mem))                                                                              \
    F(cl_program, CreateProgramWithSource, (cl_context, cl_uint, const char**, const size_t*, cl_int*))                \
    F(cl_program, CreateProgramWithBinary,                                                                             \
      (cl_context, cl_uint, const cl_device_id*, const size_t*, const unsigned char**, cl_int*, cl_int*))              \
    F(cl_int, BuildProgram, (cl_program, cl_uint, const cl_device_id*, const char*, cl_program_callback, void*))       \
    F(cl_int, GetProgramInfo, (cl_program, cl_uint, size_t, void*, size_t*))                                           \
    F(cl_int, GetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void*, size_t*))                        \
    F(cl_int, ReleaseProgram, (cl_program))                                                                            \
    F(cl_kernel, CreateKernel, (cl_program, const char*, cl_int*))                                                     \
    F(cl_int, GetKernelWorkGroupInfo, (cl_kernel, cl_device_id, cl_uint, size_t, void*, size_t*))                      \
    F(cl_int, SetKernelArg, (cl_kernel, cl_uint, size_t, const void*))                                                 \
    F(cl_int, ReleaseKernel, (cl_kernel))                                                                              \
    F(cl_int, EnqueueNDRangeKernel,                                                                                    \
      (cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*, cl_uint, const cl_event*,    \
       cl_event*))                                                                                                     \
    F(cl_int, EnqueueReadBuffer,                                                                                       \
      (cl_command_queue, cl_mem, cl_uint, size_t, size_t, void*, cl_uint, const cl_event*, cl_event*))                 \
    F(cl_int, EnqueueWriteBuffer,                                                                                      \
      (cl_command_queue, cl_mem, cl_uint, size_t, size_t, const void*, cl_uint, const cl_event*, cl_event*))           \
    F(cl_int, EnqueueCopyBuffer,                                                                                       \
      (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event*, cl_event*))                 \
    F(cl_int, EnqueueFillBuffer,                                                                                       \
      (cl_command_queue, cl_mem, const void*, size_t, size_t, size_t, cl_uint, const cl_event*, cl_event*))            \
    F(cl_int, Flush, (cl_command_queue))                                                                               \
    F(cl_int, Finish, (cl_command_queue))                                                                              \
    F(cl_int, GetEventProfilingInfo, (cl_event, cl_uint, size_t, void*, size_t*))                                      \
    F(cl_int, ReleaseEvent, (cl_event))

/* The functions of a loaded library. */
typedef struct dk_opencl_api {
#define DK_OPENCL_MEMBER(result, name, parameters) result(*name) parameters;
    DK_OPENCL_FUNCTIONS(DK_OPENCL_MEMBER)
#undef DK_OPENCL_MEMBER
} dk_opencl_api;

#endif
