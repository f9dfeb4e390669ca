/* The adapters that the system's Vulkan library knows, and what they can do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vulkan.h"

/* What a device must have, for kernels of any model. */
#define LEAST_BINDINGS 9
#define LEAST_WORKGROUP 64
#define LEAST_SUBGROUP 4
#define MOST_FAMILIES 16

/* Extensions that later became parts of Vulkan itself. */
enum { DRIVER, SIZES, DOT, EXTENSIONS };
static const struct {
    const char* name;
    uint32_t version; /* that it is a part of */
} extensions[EXTENSIONS] = {
    {"VK_KHR_driver_properties", VK_MAKE_VERSION(1, 2)},
    {"VK_EXT_subgroup_size_control", VK_MAKE_VERSION(1, 3)},
    {"VK_KHR_shader_integer_dot_product", VK_MAKE_VERSION(1, 3)},
};

/* What the device is asked for; the chains have only structures that it knows. */
typedef struct answers {
    VkPhysicalDeviceProperties2 properties;
    VkPhysicalDeviceMaintenance3Properties maintenance;
    VkPhysicalDeviceSubgroupProperties subgroups;
    VkPhysicalDeviceDriverProperties driver;
    VkPhysicalDeviceSubgroupSizeControlProperties sizes;
} answers;

typedef struct features {
    VkPhysicalDeviceFeatures2 features;
    VkPhysicalDevice16BitStorageFeatures storage;
    VkPhysicalDeviceSubgroupSizeControlFeatures sizes;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot;
} features;

/* Put a structure behind the first one of a chain. */
static void chain(void* first, void* next, VkStructureType type) {
    VkBaseOutStructure* head = (VkBaseOutStructure*)first;
    VkBaseOutStructure* added = (VkBaseOutStructure*)next;
    added->sType = type;
    added->pNext = head->pNext;
    head->pNext = added;
}

/* Bit i: the device has extension i. */
static uint32_t extensions_of(const dk_vk_system* system, VkPhysicalDevice device) {
    VkExtensionProperties* all;
    uint32_t count = 0, found = 0;
    if (system->call.EnumerateDeviceExtensionProperties(device, NULL, &count, NULL) != VK_SUCCESS || count == 0) {
        return 0;
    }
    all = (VkExtensionProperties*)calloc(count, sizeof *all);
    if (all == NULL) {
        return 0;
    }
    system->call.EnumerateDeviceExtensionProperties(device, NULL, &count, all);
    for (uint32_t i = 0; i < count; ++i) {
        for (uint32_t j = 0; j < EXTENSIONS; ++j) {
            found |= strcmp(all[i].extensionName, extensions[j].name) == 0 ? 1u << j : 0;
        }
    }
    free(all);
    return found;
}

static int32_t has(const dk_vk_facts* facts, uint32_t extension) {
    return (facts->extensions >> extension & 1) || facts->properties.apiVersion >= extensions[extension].version;
}

/* Chain the structures of the features that the driver uses. */
static void chain_features(const dk_vk_facts* facts, features* all) {
    memset(all, 0, sizeof *all);
    all->features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    chain(&all->features, &all->storage, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
    if (has(facts, SIZES)) {
        chain(&all->features, &all->sizes, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
    }
    if (has(facts, DOT)) {
        chain(&all->features, &all->dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES);
    }
}

static void ask(const dk_vk_system* system, const dk_vk_facts* facts, answers* all) {
    memset(all, 0, sizeof *all);
    all->properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    chain(&all->properties, &all->maintenance, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
    chain(&all->properties, &all->subgroups, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
    if (has(facts, DRIVER)) {
        chain(&all->properties, &all->driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
    }
    if (has(facts, SIZES)) {
        chain(&all->properties, &all->sizes, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
    }
    system->call.GetPhysicalDeviceProperties2(facts->device, &all->properties);
}

static int32_t power_of_two(uint32_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

/* Teams need subgroups of a fixed size that are full. Where the size can be asked for, that is sure. */
static void find_features(const dk_vk_system* system, dk_vk_facts* facts, const answers* all, uint32_t without) {
    const VkPhysicalDeviceSubgroupProperties* subgroups = &all->subgroups;
    const VkPhysicalDeviceSubgroupSizeControlProperties* sizes = &all->sizes;
    const uint32_t wanted = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    const uint32_t size = subgroups->subgroupSize;
    features found;
    chain_features(facts, &found);
    system->call.GetPhysicalDeviceFeatures2(facts->device, &found.features);
    facts->adapter.subgroup = (int32_t)size;
    facts->sized = found.sizes.subgroupSizeControl && found.sizes.computeFullSubgroups &&
                   (sizes->requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                   size >= sizes->minSubgroupSize && size <= sizes->maxSubgroupSize;
    facts->most_subgroups = facts->sized ? sizes->maxComputeWorkgroupSubgroups : UINT32_MAX;
    facts->adapter.features |= found.storage.storageBuffer16BitAccess ? DK_GPU_F16 : 0;
    if ((subgroups->supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
        (subgroups->supportedOperations & wanted) == wanted && size >= LEAST_SUBGROUP && power_of_two(size)) {
        facts->adapter.features |= DK_GPU_SUBGROUPS;
    }
    facts->adapter.features |= found.dot.shaderIntegerDotProduct ? DK_GPU_DOT : 0;
    facts->adapter.features &= ~without;
    if (!found.features.features.robustBufferAccess) {
        facts->adapter.unusable = "it does not check the bounds of buffers";
    }
}

static int64_t least(uint64_t one, int64_t option) {
    const uint64_t most = one < INT64_MAX ? one : INT64_MAX;
    return option > 0 && (uint64_t)option < most ? option : (int64_t)most;
}

static void
find_limits(const dk_vk_system* system, dk_vk_facts* facts, const answers* all, const dk_gpu_options* options) {
    const int64_t block = DK_VK_BLOCK;
    dk_gpu_adapter* adapter = &facts->adapter;
    VkPhysicalDeviceMemoryProperties memory;
    uint64_t most = 0;
    system->call.GetPhysicalDeviceMemoryProperties(facts->device, &memory);
    for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
        const VkMemoryHeap* heap = &memory.memoryHeaps[i];
        most = (heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && heap->size > most ? heap->size : most;
    }
    adapter->memory_bytes = least(most, 0);
    most = all->maintenance.maxMemoryAllocationSize < most ? all->maintenance.maxMemoryAllocationSize : most;
    adapter->buffer_bytes = least(most, options != NULL ? options->buffer_bytes : 0) / block * block;
    most = facts->properties.limits.maxStorageBufferRange;
    most = most < (uint64_t)adapter->buffer_bytes ? most : (uint64_t)adapter->buffer_bytes;
    adapter->binding_bytes = least(most, options != NULL ? options->binding_bytes : 0) / block * block;
}

/* Choose the first family of queues that compute. */
static void find_family(const dk_vk_system* system, dk_vk_facts* facts) {
    VkQueueFamilyProperties families[MOST_FAMILIES];
    uint32_t count = MOST_FAMILIES;
    system->call.GetPhysicalDeviceQueueFamilyProperties(facts->device, &count, families);
    for (facts->family = 0; facts->family < count; ++facts->family) {
        if (families[facts->family].queueFlags & VK_QUEUE_COMPUTE_BIT) {
            facts->clock_bits = families[facts->family].timestampValidBits;
            return;
        }
    }
    facts->adapter.unusable = "it has no queue that computes";
}

static void check_limits(dk_vk_facts* facts) {
    const VkPhysicalDeviceLimits* limits = &facts->properties.limits;
    facts->bindings = limits->maxPerStageDescriptorStorageBuffers;
    if (facts->bindings < LEAST_BINDINGS) {
        facts->adapter.unusable = "its kernels have fewer than 9 buffers";
    }
    if (limits->maxPushConstantsSize < 4 * DK_VK_MOST_WORDS) {
        facts->adapter.unusable = "its kernels have fewer than 128 bytes of constants";
    }
    if (limits->maxComputeWorkGroupInvocations < LEAST_WORKGROUP ||
        limits->maxComputeWorkGroupSize[0] < LEAST_WORKGROUP) {
        facts->adapter.unusable = "its workgroups have fewer than 64 invocations";
    }
}

static void name_driver(dk_gpu_adapter* adapter, const dk_vk_facts* facts, const answers* all) {
    const uint32_t version = facts->properties.driverVersion;
    const char* name = all->driver.driverName[0] != '\0' ? all->driver.driverName : "Vulkan driver";
    if (all->driver.driverInfo[0] != '\0') {
        snprintf(adapter->driver, sizeof adapter->driver, "%.60s %.60s", name, all->driver.driverInfo);
    } else {
        snprintf(
            adapter->driver, sizeof adapter->driver, "%.60s %u.%u.%u", name, (unsigned)(version >> 22),
            (unsigned)(version >> 12 & 0x3ff), (unsigned)(version & 0xfff)
        );
    }
}

static dk_gpu_kind kind_of(VkPhysicalDeviceType type) {
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return DK_GPU_INTEGRATED;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return DK_GPU_DISCRETE;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return DK_GPU_SOFTWARE;
    default:
        return DK_GPU_OTHER;
    }
}

static void describe(const dk_vk_system* system, const dk_gpu_options* options, dk_vk_facts* facts) {
    dk_gpu_adapter* adapter = &facts->adapter;
    answers all;
    system->call.GetPhysicalDeviceProperties(facts->device, &facts->properties);
    snprintf(adapter->name, sizeof adapter->name, "%.127s", facts->properties.deviceName);
    adapter->kind = kind_of(facts->properties.deviceType);
    if (facts->properties.apiVersion < VK_MAKE_VERSION(1, 1)) {
        adapter->unusable = "its driver has Vulkan 1.0: at least 1.1 is needed";
        return;
    }
    facts->extensions = extensions_of(system, facts->device);
    ask(system, facts, &all);
    find_limits(system, facts, &all, options);
    find_features(system, facts, &all, options != NULL ? options->without : 0);
    check_limits(facts);
    find_family(system, facts);
    name_driver(adapter, facts, &all);
}

int32_t
dk_vk_list(dk_vk_system* system, const dk_gpu_options* options, dk_vk_facts* facts, char* error, size_t error_bytes) {
    VkPhysicalDevice devices[DK_VK_MOST_ADAPTERS];
    uint32_t count = DK_VK_MOST_ADAPTERS;
    const VkResult result = system->call.EnumeratePhysicalDevices(system->instance, &count, devices);
    if ((result != VK_SUCCESS && result != VK_INCOMPLETE) || count == 0) {
        snprintf(error, error_bytes, "there is no GPU with a Vulkan driver");
        return 0;
    }
    memset(facts, 0, count * sizeof *facts);
    for (uint32_t i = 0; i < count; ++i) {
        facts[i].device = devices[i];
        describe(system, options, &facts[i]);
    }
    return (int32_t)count;
}

int32_t dk_vulkan_adapters(
    const dk_gpu_options* options, dk_gpu_adapter* adapters, int32_t most, char* error, size_t error_bytes
) {
    dk_vk_facts* facts = (dk_vk_facts*)calloc(DK_VK_MOST_ADAPTERS, sizeof *facts);
    dk_vk_system system;
    int32_t count = 0;
    if (facts == NULL) {
        snprintf(error, error_bytes, "there is not enough memory");
        return 0;
    }
    if (dk_vk_open_system(&system, options, error, error_bytes)) {
        count = dk_vk_list(&system, options, facts, error, error_bytes);
        dk_vk_close_system(&system);
    }
    for (int32_t i = 0; i < count && i < most; ++i) {
        adapters[i] = facts[i].adapter;
    }
    free(facts);
    return count;
}

VkResult dk_vk_make_device(const dk_vk_system* system, const dk_vk_facts* facts, VkDevice* device) {
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, facts->family, 1, &priority,
    };
    const char* names[EXTENSIONS];
    VkDeviceCreateInfo info = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, NULL, 0, 1, &queue, 0, NULL, 0, names, NULL};
    features wanted;
    chain_features(facts, &wanted);
    wanted.features.features.robustBufferAccess = 1;
    wanted.storage.storageBuffer16BitAccess = (facts->adapter.features & DK_GPU_F16) != 0;
    wanted.sizes.subgroupSizeControl = wanted.sizes.computeFullSubgroups = (VkBool32)facts->sized;
    wanted.dot.shaderIntegerDotProduct = (facts->adapter.features & DK_GPU_DOT) != 0;
    info.pNext = &wanted.features;
    for (uint32_t i = 0; i < EXTENSIONS; ++i) {
        if (i != DRIVER && (facts->extensions >> i & 1)) {
            names[info.enabledExtensionCount++] = extensions[i].name;
        }
    }
    return system->call.CreateDevice(facts->device, &info, NULL, device);
}
