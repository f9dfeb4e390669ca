/* The system's Vulkan library. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vulkan.h"

static PFN_vkVoidFunction function_of(const dk_vk_system* system, const char* name) {
    return system->load(system->instance, name);
}

/* Fill a table of functions, whose names follow each other. */
static int32_t load_instance(dk_vk_system* system) {
    const char* name = DK_VK_INSTANCE_FUNCTIONS(DK_VK_NAME);
    unsigned char* field = (unsigned char*)&system->call;
    for (; *name != '\0'; name += strlen(name) + 1) {
        const PFN_vkVoidFunction function = function_of(system, name);
        if (function == NULL) {
            return 0;
        }
        memcpy(field, &function, sizeof function);
        field += sizeof function;
    }
    return 1;
}

static int32_t load_library(dk_vk_system* system, const char* path) {
    void* symbol;
    system->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (system->library == NULL) {
        return 0;
    }
    symbol = dlsym(system->library, "vkGetInstanceProcAddr");
    memcpy(&system->load, &symbol, sizeof symbol);
    return symbol != NULL;
}

static int32_t refuse(dk_vk_system* system, char* error, size_t error_bytes, const char* why) {
    snprintf(error, error_bytes, "%s", why);
    dk_vk_close_system(system);
    return 0;
}

/* The version of the library's interface: Vulkan 1.0 has no function for it. */
static uint32_t version_of(const dk_vk_system* system) {
    uint32_t version = VK_MAKE_VERSION(1, 0);
    VkResult (*enumerate)(uint32_t*);
    const PFN_vkVoidFunction function = function_of(system, "vkEnumerateInstanceVersion");
    memcpy(&enumerate, &function, sizeof enumerate);
    return enumerate != NULL && enumerate(&version) == VK_SUCCESS ? version : VK_MAKE_VERSION(1, 0);
}

static VkResult make_instance(dk_vk_system* system) {
    const VkApplicationInfo application = {
        VK_STRUCTURE_TYPE_APPLICATION_INFO, NULL, "deploykit", 0, "deploykit", 0, VK_MAKE_VERSION(1, 3),
    };
    const VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, NULL, 0, &application, 0, NULL, 0, NULL};
    VkResult (*create)(const VkInstanceCreateInfo*, const void*, VkInstance*);
    const PFN_vkVoidFunction function = function_of(system, "vkCreateInstance");
    memcpy(&create, &function, sizeof create);
    return create == NULL ? VK_ERROR_INCOMPATIBLE_DRIVER : create(&info, NULL, &system->instance);
}

int32_t dk_vk_open_system(dk_vk_system* system, const dk_gpu_options* options, char* error, size_t error_bytes) {
    const char* path = options != NULL ? options->library : NULL;
    VkResult result;
    memset(system, 0, sizeof *system);
    system->before = dk_vk_loaded();
    if (!(path != NULL ? load_library(system, path)
                       : load_library(system, "libvulkan.so.1") || load_library(system, "libvulkan.so"))) {
        const char* why = system->library != NULL ? "it is none of Vulkan" : dlerror();
        snprintf(error, error_bytes, "there is no Vulkan library: %s", why != NULL ? why : "unknown");
        dk_vk_close_system(system);
        return 0;
    }
    if (version_of(system) < VK_MAKE_VERSION(1, 1)) {
        return refuse(system, error, error_bytes, "the Vulkan library has version 1.0: at least 1.1 is needed");
    }
    result = make_instance(system);
    if (result != VK_SUCCESS) {
        system->instance = NULL;
    }
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
#ifdef DK_PHONE
        return refuse(system, error, error_bytes, "this device has no Vulkan driver");
#else
        return refuse(system, error, error_bytes, "there is no Vulkan driver: install that of the GPU");
#endif
    }
    if (result != VK_SUCCESS || !load_instance(system)) {
        snprintf(error, error_bytes, "Vulkan cannot be used: result %d", (int)result);
        dk_vk_close_system(system);
        return 0;
    }
    dk_vk_keep_loaded(system->before);
    return 1;
}

void dk_vk_close_system(dk_vk_system* system) {
    if (system->instance != NULL && system->call.DestroyInstance != NULL) {
        system->call.DestroyInstance(system->instance, NULL);
    }
    if (system->library != NULL) {
        dlclose(system->library);
    }
    free(system->before);
    memset(system, 0, sizeof *system);
}
