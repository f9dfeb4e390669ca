/* The functions of Vulkan that the driver calls, as tables that are filled when a device is opened. */
#ifndef DEPLOYKIT_VULKAN_FUNCTIONS_H
#define DEPLOYKIT_VULKAN_FUNCTIONS_H

#include "vulkan_structs.h"

/* Functions, as X(result, name without its prefix, parameters). The last parameter of those that create or destroy is
   an allocator, which is always NULL. */
#define DK_VK_INSTANCE_FUNCTIONS(X)                                                                                    \
    X(void, DestroyInstance, (VkInstance, const void*))                                                                \
    X(VkResult, EnumeratePhysicalDevices, (VkInstance, uint32_t*, VkPhysicalDevice*))                                  \
    X(void, GetPhysicalDeviceProperties, (VkPhysicalDevice, VkPhysicalDeviceProperties*))                              \
    X(void, GetPhysicalDeviceProperties2, (VkPhysicalDevice, VkPhysicalDeviceProperties2*))                            \
    X(void, GetPhysicalDeviceFeatures2, (VkPhysicalDevice, VkPhysicalDeviceFeatures2*))                                \
    X(void, GetPhysicalDeviceQueueFamilyProperties, (VkPhysicalDevice, uint32_t*, VkQueueFamilyProperties*))           \
    X(void, GetPhysicalDeviceMemoryProperties, (VkPhysicalDevice, VkPhysicalDeviceMemoryProperties*))                  \
    X(VkResult, EnumerateDeviceExtensionProperties,                                                                    \
      (VkPhysicalDevice, const char*, uint32_t*, VkExtensionProperties*))                                              \
    X(VkResult, CreateDevice, (VkPhysicalDevice, const VkDeviceCreateInfo*, const void*, VkDevice*))                   \
    X(PFN_vkVoidFunction, GetDeviceProcAddr, (VkDevice, const char*))

#define DK_VK_DEVICE_FUNCTIONS(X)                                                                                      \
    X(void, DestroyDevice, (VkDevice, const void*))                                                                    \
    X(VkResult, DeviceWaitIdle, (VkDevice))                                                                            \
    X(void, GetDeviceQueue, (VkDevice, uint32_t, uint32_t, VkQueue*))                                                  \
    X(VkResult, QueueSubmit, (VkQueue, uint32_t, const VkSubmitInfo*, VkFence))                                        \
    X(VkResult, CreateFence, (VkDevice, const VkFenceCreateInfo*, const void*, VkFence*))                              \
    X(void, DestroyFence, (VkDevice, VkFence, const void*))                                                            \
    X(VkResult, ResetFences, (VkDevice, uint32_t, const VkFence*))                                                     \
    X(VkResult, WaitForFences, (VkDevice, uint32_t, const VkFence*, VkBool32, uint64_t))                               \
    X(VkResult, AllocateMemory, (VkDevice, const VkMemoryAllocateInfo*, const void*, VkDeviceMemory*))                 \
    X(void, FreeMemory, (VkDevice, VkDeviceMemory, const void*))                                                       \
    X(VkResult, MapMemory, (VkDevice, VkDeviceMemory, VkDeviceSize, VkDeviceSize, VkFlags, void**))                    \
    X(VkResult, InvalidateMappedMemoryRanges, (VkDevice, uint32_t, const VkMappedMemoryRange*))                        \
    X(VkResult, CreateBuffer, (VkDevice, const VkBufferCreateInfo*, const void*, VkBuffer*))                           \
    X(void, DestroyBuffer, (VkDevice, VkBuffer, const void*))                                                          \
    X(void, GetBufferMemoryRequirements, (VkDevice, VkBuffer, VkMemoryRequirements*))                                  \
    X(VkResult, BindBufferMemory, (VkDevice, VkBuffer, VkDeviceMemory, VkDeviceSize))                                  \
    X(VkResult, CreateShaderModule, (VkDevice, const VkShaderModuleCreateInfo*, const void*, VkShaderModule*))         \
    X(void, DestroyShaderModule, (VkDevice, VkShaderModule, const void*))                                              \
    X(VkResult, CreatePipelineCache, (VkDevice, const VkPipelineCacheCreateInfo*, const void*, VkPipelineCache*))      \
    X(void, DestroyPipelineCache, (VkDevice, VkPipelineCache, const void*))                                            \
    X(VkResult, GetPipelineCacheData, (VkDevice, VkPipelineCache, size_t*, void*))                                     \
    X(VkResult, CreateComputePipelines,                                                                                \
      (VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo*, const void*, VkPipeline*))             \
    X(void, DestroyPipeline, (VkDevice, VkPipeline, const void*))                                                      \
    X(VkResult, CreatePipelineLayout, (VkDevice, const VkPipelineLayoutCreateInfo*, const void*, VkPipelineLayout*))   \
    X(void, DestroyPipelineLayout, (VkDevice, VkPipelineLayout, const void*))                                          \
    X(VkResult, CreateDescriptorSetLayout,                                                                             \
      (VkDevice, const VkDescriptorSetLayoutCreateInfo*, const void*, VkDescriptorSetLayout*))                         \
    X(void, DestroyDescriptorSetLayout, (VkDevice, VkDescriptorSetLayout, const void*))                                \
    X(VkResult, CreateDescriptorPool, (VkDevice, const VkDescriptorPoolCreateInfo*, const void*, VkDescriptorPool*))   \
    X(void, DestroyDescriptorPool, (VkDevice, VkDescriptorPool, const void*))                                          \
    X(VkResult, ResetDescriptorPool, (VkDevice, VkDescriptorPool, VkFlags))                                            \
    X(VkResult, AllocateDescriptorSets, (VkDevice, const VkDescriptorSetAllocateInfo*, VkDescriptorSet*))              \
    X(void, UpdateDescriptorSets, (VkDevice, uint32_t, const VkWriteDescriptorSet*, uint32_t, const void*))            \
    X(VkResult, CreateCommandPool, (VkDevice, const VkCommandPoolCreateInfo*, const void*, VkCommandPool*))            \
    X(void, DestroyCommandPool, (VkDevice, VkCommandPool, const void*))                                                \
    X(VkResult, AllocateCommandBuffers, (VkDevice, const VkCommandBufferAllocateInfo*, VkCommandBuffer*))              \
    X(VkResult, BeginCommandBuffer, (VkCommandBuffer, const VkCommandBufferBeginInfo*))                                \
    X(VkResult, EndCommandBuffer, (VkCommandBuffer))                                                                   \
    X(void, CmdBindPipeline, (VkCommandBuffer, uint32_t, VkPipeline))                                                  \
    X(void, CmdBindDescriptorSets,                                                                                     \
      (VkCommandBuffer, uint32_t, VkPipelineLayout, uint32_t, uint32_t, const VkDescriptorSet*, uint32_t,              \
       const uint32_t*))                                                                                               \
    X(void, CmdPushConstants, (VkCommandBuffer, VkPipelineLayout, VkFlags, uint32_t, uint32_t, const void*))           \
    X(void, CmdDispatch, (VkCommandBuffer, uint32_t, uint32_t, uint32_t))                                              \
    X(void, CmdCopyBuffer, (VkCommandBuffer, VkBuffer, VkBuffer, uint32_t, const VkBufferCopy*))                       \
    X(void, CmdFillBuffer, (VkCommandBuffer, VkBuffer, VkDeviceSize, VkDeviceSize, uint32_t))                          \
    X(void, CmdPipelineBarrier,                                                                                        \
      (VkCommandBuffer, VkFlags, VkFlags, VkFlags, uint32_t, const VkMemoryBarrier*, uint32_t, const void*, uint32_t,  \
       const void*))                                                                                                   \
    X(VkResult, CreateQueryPool, (VkDevice, const VkQueryPoolCreateInfo*, const void*, VkQueryPool*))                  \
    X(void, DestroyQueryPool, (VkDevice, VkQueryPool, const void*))                                                    \
    X(void, CmdResetQueryPool, (VkCommandBuffer, VkQueryPool, uint32_t, uint32_t))                                     \
    X(void, CmdWriteTimestamp, (VkCommandBuffer, VkFlags, VkQueryPool, uint32_t))                                      \
    X(VkResult, GetQueryPoolResults, (VkDevice, VkQueryPool, uint32_t, uint32_t, size_t, void*, VkDeviceSize, VkFlags))

#define DK_VK_FIELD(result, name, parameters) result(*name) parameters;
#define DK_VK_NAME(result, name, parameters) "vk" #name "\0"

typedef struct dk_vk_instance_functions {
    DK_VK_INSTANCE_FUNCTIONS(DK_VK_FIELD)
} dk_vk_instance_functions;

typedef struct dk_vk_device_functions {
    DK_VK_DEVICE_FUNCTIONS(DK_VK_FIELD)
} dk_vk_device_functions;

#endif
