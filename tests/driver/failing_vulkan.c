/* A Vulkan library for tests that forwards to the system's one. Calls of some functions are counted, and can be made to
   fail; what an adapter says of itself can be made worse.

   Where no test can call it, because another program loads it in the place of the system's library, which is REAL then,
   the environment variable FAILING has a function, n, and the result of its n-th call: `QueueSubmit 2 -4`; with the
   result CRASH the call ends the process. LACKING has what the adapters lack; those without `results` compute nothing,
   and without `life` the first call ends the process. */
#define _POSIX_C_SOURCE 200809L

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vulkan_functions.h"

#ifndef REAL
#define REAL "libvulkan.so.1"
#endif

#define WATCHED(X) X(AllocateMemory) X(BeginCommandBuffer) X(QueueSubmit) X(WaitForFences) X(CreateComputePipelines)

enum {
#define NUMBER(name) name##_number,
    WATCHED(NUMBER) COUNT
};

static const char* const names[COUNT] = {
#define NAME(name) "vk" #name,
    WATCHED(NAME)
};

/* A result that no function of Vulkan has. */
#define CRASH 134

static PFN_vkVoidFunction real[COUNT];
static PFN_vkGetInstanceProcAddr real_instance;
static PFN_vkGetDeviceProcAddr real_device;
static int32_t calls[COUNT], failing[COUNT];
static VkResult results[COUNT];

static int32_t number_of(const char* name) {
    int32_t number = 0;
    while (number < COUNT && strcmp(names[number], name) != 0) {
        ++number;
    }
    return number;
}

/* The calls of a function since this was asked for last. */
__attribute__((visibility("default"))) int32_t failing_calls(const char* name) {
    const int32_t number = number_of(name), count = calls[number];
    calls[number] = 0;
    return count;
}

/* Let the n-th call from now on return a result, once. */
__attribute__((visibility("default"))) void failing_call(const char* name, int32_t n, VkResult result) {
    failing[number_of(name)] = n;
    results[number_of(name)] = result;
}

/* The result that a call must return; VK_SUCCESS: it is made. */
static VkResult count_call(int32_t number) {
    VkResult result;
    __atomic_add_fetch(&calls[number], 1, __ATOMIC_RELAXED);
    result = failing[number] > 0 && --failing[number] == 0 ? results[number] : VK_SUCCESS;
    if ((int)result == CRASH) {
        abort();
    }
    return result;
}

#define FORWARD(name, type, ...)                                                                                       \
    type call;                                                                                                         \
    const VkResult result = count_call(name##_number);                                                                 \
    memcpy(&call, &real[name##_number], sizeof call);                                                                  \
    return result != VK_SUCCESS ? result : call(__VA_ARGS__)

typedef VkResult (*allocate_type)(VkDevice, const VkMemoryAllocateInfo*, const void*, VkDeviceMemory*);
static VkResult AllocateMemory(VkDevice a, const VkMemoryAllocateInfo* b, const void* c, VkDeviceMemory* d) {
    FORWARD(AllocateMemory, allocate_type, a, b, c, d);
}

typedef VkResult (*begin_type)(VkCommandBuffer, const VkCommandBufferBeginInfo*);
static VkResult BeginCommandBuffer(VkCommandBuffer a, const VkCommandBufferBeginInfo* b) {
    FORWARD(BeginCommandBuffer, begin_type, a, b);
}

typedef VkResult (*submit_type)(VkQueue, uint32_t, const VkSubmitInfo*, VkFence);
static VkResult QueueSubmit(VkQueue a, uint32_t b, const VkSubmitInfo* c, VkFence d) {
    FORWARD(QueueSubmit, submit_type, a, b, c, d);
}

typedef VkResult (*wait_type)(VkDevice, uint32_t, const VkFence*, VkBool32, uint64_t);
static VkResult WaitForFences(VkDevice a, uint32_t b, const VkFence* c, VkBool32 d, uint64_t e) {
    FORWARD(WaitForFences, wait_type, a, b, c, d, e);
}

typedef VkResult (*create_type)(
    VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo*, const void*, VkPipeline*
);
static VkResult CreateComputePipelines(
    VkDevice a, VkPipelineCache b, uint32_t c, const VkComputePipelineCreateInfo* d, const void* e, VkPipeline* f
) {
    FORWARD(CreateComputePipelines, create_type, a, b, c, d, e, f);
}

static PFN_vkVoidFunction watched(int32_t number) {
    static const PFN_vkVoidFunction functions[COUNT] = {
#define FUNCTION(name) (PFN_vkVoidFunction) name,
        WATCHED(FUNCTION)
    };
    return functions[number];
}

static void (*real_properties)(VkPhysicalDevice, VkPhysicalDeviceProperties*);
static void (*real_features)(VkPhysicalDevice, VkPhysicalDeviceFeatures2*);
static void (*real_families)(VkPhysicalDevice, uint32_t*, VkQueueFamilyProperties*);
static const char* lacking = "";

/* Let adapters lack something from now on. */
__attribute__((visibility("default"))) void failing_adapters(const char* what) {
    lacking = what;
}

__attribute__((constructor)) static void read_environment(void) {
    const char* wanted = getenv("FAILING");
    char name[64] = "vk";
    int32_t n, result;
    if (wanted != NULL && sscanf(wanted, "%60s %d %d", name + 2, &n, &result) == 3) {
        failing_call(name, n, (VkResult)result);
    }
    lacking = getenv("LACKING") != NULL ? getenv("LACKING") : lacking;
}

static int32_t lacks(const char* what) {
    return strcmp(lacking, what) == 0;
}

static void GetPhysicalDeviceProperties(VkPhysicalDevice device, VkPhysicalDeviceProperties* properties) {
    real_properties(device, properties);
    properties->apiVersion = lacks("version") ? VK_MAKE_VERSION(1, 0) : properties->apiVersion;
    if (lacks("bindings")) {
        properties->limits.maxPerStageDescriptorStorageBuffers = 8;
    }
    if (lacks("range")) {
        properties->limits.maxStorageBufferRange = 1024;
    }
    if (lacks("constants")) {
        properties->limits.maxPushConstantsSize = 64;
    }
    if (lacks("invocations")) {
        properties->limits.maxComputeWorkGroupInvocations = 32;
    }
}

static void GetPhysicalDeviceFeatures2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* features) {
    real_features(device, features);
    for (VkBaseOutStructure* next = features->pNext; next != NULL; next = next->pNext) {
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES && lacks("16-bit storage")) {
            ((VkPhysicalDevice16BitStorageFeatures*)(void*)next)->storageBuffer16BitAccess = 0;
        }
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES && lacks("dots")) {
            ((VkPhysicalDeviceShaderIntegerDotProductFeatures*)(void*)next)->shaderIntegerDotProduct = 0;
        }
    }
}

static void
GetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice device, uint32_t* count, VkQueueFamilyProperties* families) {
    real_families(device, count, families);
    for (uint32_t i = 0; i < *count; ++i) {
        families[i].queueFlags &= lacks("queue") ? ~(VkFlags)VK_QUEUE_COMPUTE_BIT : ~(VkFlags)0;
        families[i].timestampValidBits = lacks("clock") ? 0 : families[i].timestampValidBits;
    }
}

static void CmdDispatch(VkCommandBuffer buffer, uint32_t x, uint32_t y, uint32_t z) {
    (void)buffer;
    (void)x;
    (void)y;
    (void)z;
}

static PFN_vkVoidFunction GetDeviceProcAddr(VkDevice device, const char* name) {
    const int32_t number = number_of(name);
    if (strcmp(name, "vkCmdDispatch") == 0 && lacks("results")) {
        return (PFN_vkVoidFunction)CmdDispatch;
    }
    if (number == COUNT) {
        return real_device(device, name);
    }
    real[number] = real_device(device, name);
    return watched(number);
}

__attribute__((visibility("default"))) PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char* name) {
    PFN_vkVoidFunction found;
    if (lacks("life")) {
        abort();
    }
    if (real_instance == NULL) {
        void* symbol = dlsym(dlopen(REAL, RTLD_NOW), "vkGetInstanceProcAddr");
        memcpy(&real_instance, &symbol, sizeof symbol);
    }
    found = real_instance(instance, name);
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) {
        memcpy(&real_device, &found, sizeof found);
        return (PFN_vkVoidFunction)GetDeviceProcAddr;
    }
    if (strcmp(name, "vkGetPhysicalDeviceProperties") == 0) {
        memcpy(&real_properties, &found, sizeof found);
        return (PFN_vkVoidFunction)GetPhysicalDeviceProperties;
    }
    if (strcmp(name, "vkGetPhysicalDeviceFeatures2") == 0) {
        memcpy(&real_features, &found, sizeof found);
        return (PFN_vkVoidFunction)GetPhysicalDeviceFeatures2;
    }
    if (strcmp(name, "vkGetPhysicalDeviceQueueFamilyProperties") == 0) {
        memcpy(&real_families, &found, sizeof found);
        return (PFN_vkVoidFunction)GetPhysicalDeviceQueueFamilyProperties;
    }
    return found;
}
