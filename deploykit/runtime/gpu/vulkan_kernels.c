/* Kernels: layouts of their bindings, and pipelines. */
#include <stdlib.h>
#include <string.h>

#include "unpack.h"
#include "vulkan.h"

/* Kernels with as many tensors have the same layout: bindings 1, 2, ..., and constants. */
static VkResult make_layout(dk_vulkan* self, int32_t bindings) {
    const VkPushConstantRange constants = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 4 * DK_VK_MOST_WORDS};
    VkDescriptorSetLayoutBinding entries[DK_VK_MOST_BINDINGS];
    VkDescriptorSetLayoutCreateInfo sets = {
        VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, NULL, 0, (uint32_t)bindings, entries,
    };
    VkPipelineLayoutCreateInfo layout = {
        VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, NULL, 0, 1, &self->set_layouts[bindings], 1, &constants,
    };
    VkResult result;
    if (self->layouts[bindings] != 0) {
        return VK_SUCCESS;
    }
    for (uint32_t i = 0; i < sets.bindingCount; ++i) {
        const VkDescriptorSetLayoutBinding entry = {
            i + 1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL,
        };
        entries[i] = entry;
    }
    result = self->call.CreateDescriptorSetLayout(self->device, &sets, NULL, &self->set_layouts[bindings]);
    if (result != VK_SUCCESS) {
        self->set_layouts[bindings] = 0;
        return result;
    }
    result = self->call.CreatePipelineLayout(self->device, &layout, NULL, &self->layouts[bindings]);
    if (result != VK_SUCCESS) {
        self->layouts[bindings] = 0;
    }
    return result;
}

static int32_t fits(const dk_vulkan* self, const dk_gpu_form* form) {
    return (form->needs & ~self->facts.adapter.features) == 0 && form->binding_bytes <= self->gpu.driver.binding_bytes;
}

/* How many of the invocations that a step asks for a workgroup runs. */
static int32_t stride_of(const dk_vulkan* self, const dk_gpu_kernel* kernel, const dk_gpu_form* form) {
    const int32_t size = self->facts.adapter.subgroup;
    if (!kernel->team || !(form->needs & DK_GPU_SUBGROUPS) || size >= self->workgroup) {
        return self->workgroup;
    }
    return self->workgroup * (self->workgroup / size);
}

static VkResult make_module(dk_vulkan* self, const dk_gpu_form* form, const void* code, VkShaderModule* module) {
    VkShaderModuleCreateInfo info = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, NULL, 0, (size_t)form->bytes, NULL};
    uint32_t* words = (uint32_t*)malloc(info.codeSize);
    VkResult result;
    if (words == NULL) {
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    memcpy(words, (const unsigned char*)code + form->offset, info.codeSize);
    info.pCode = words;
    result = self->call.CreateShaderModule(self->device, &info, NULL, module);
    free(words);
    return result;
}

/* Whether the driver can be told that subgroups are full and of the size that it reports. Others are trusted. */
static int32_t size_is_sure(const dk_vulkan* self) {
    const int32_t size = self->facts.adapter.subgroup;
    return self->facts.sized && self->workgroup % size == 0 &&
           (uint32_t)(self->workgroup / size) <= self->facts.most_subgroups;
}

static VkResult
make_pipeline(dk_vulkan* self, VkPipelineCache cache, dk_vk_kernel* kernel, const dk_gpu_form* form, const void* code) {
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        NULL,
        (uint32_t)self->facts.adapter.subgroup,
    };
    VkComputePipelineCreateInfo info;
    VkResult result;
    memset(&info, 0, sizeof info);
    result = make_module(self, form, code, &info.stage.module);
    if (result != VK_SUCCESS) {
        return result;
    }
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.pName = "main";
    info.layout = self->layouts[kernel->bindings];
    if ((form->needs & DK_GPU_SUBGROUPS) && size_is_sure(self)) {
        info.stage.pNext = &size;
        info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
    result = self->call.CreateComputePipelines(self->device, cache, 1, &info, NULL, &kernel->pipeline);
    self->call.DestroyShaderModule(self->device, info.stage.module, NULL);
    if (result != VK_SUCCESS) {
        kernel->pipeline = 0;
    }
    return result;
}

/* Compile the first form that the device can run and its driver can compile. */
static dk_status compile(
    dk_vulkan* self, VkPipelineCache cache, dk_vk_kernel* kernel, const dk_gpu_kernel* given,
    const dk_gpu_program* program, const void* code
) {
    VkResult result;
    if (given->bindings < 0 || given->bindings > DK_VK_MOST_BINDINGS ||
        (uint32_t)given->bindings > self->facts.bindings) {
        return dk_vk_fail(
            self, "kernel %s has %d tensors: this GPU binds at most %d", given->name, (int)given->bindings,
            (int)(self->facts.bindings < DK_VK_MOST_BINDINGS ? self->facts.bindings : DK_VK_MOST_BINDINGS)
        );
    }
    if (given->words < 1 || given->words > DK_VK_MOST_WORDS) {
        return dk_vk_fail(self, "kernel %s has %d words of uniform data", given->name, (int)given->words);
    }
    kernel->bindings = given->bindings;
    kernel->words = given->words;
    kernel->written = given->written;
    result = make_layout(self, given->bindings);
    if (result != VK_SUCCESS) {
        return dk_vk_check(self, result, given->name);
    }
    for (int32_t i = 0; i < given->form_count && result != VK_ERROR_DEVICE_LOST; ++i) {
        const dk_gpu_form* form = &given->forms[i];
        if (!fits(self, form)) {
            continue;
        }
        if (form->offset < 0 || form->bytes <= 0 || form->bytes % 4 != 0 ||
            form->offset > program->code_bytes - form->bytes) {
            return dk_vk_fail(self, "the code of kernel %s is not in its file", given->name);
        }
        kernel->stride = stride_of(self, given, form);
        result = make_pipeline(self, cache, kernel, form, code);
        if (result == VK_SUCCESS) {
            return DK_OK;
        }
    }
    if (result == VK_SUCCESS) {
        return dk_vk_fail(self, "this GPU cannot run kernel %s", given->name);
    }
    return dk_vk_check(self, result, given->name);
}

/* Compile all kernels of `code`, which is not packed. */
static dk_status
compile_all(dk_vulkan* self, const dk_gpu_program* program, const void* code, const dk_gpu_options* options) {
    const VkPhysicalDeviceLimits* limits = &self->facts.properties.limits;
    const uint32_t workgroup = (uint32_t)program->workgroup;
    dk_vk_cache cache;
    dk_status status = DK_OK;
    self->workgroup = program->workgroup;
    self->groups = program->groups;
    if (program->workgroup < 1 || workgroup > limits->maxComputeWorkGroupInvocations ||
        workgroup > limits->maxComputeWorkGroupSize[0] || program->groups < 1 ||
        (uint32_t)program->groups > limits->maxComputeWorkGroupCount[0]) {
        return dk_vk_fail(self, "this GPU has smaller workgroups or grids than the kernels");
    }
    self->kernels = (dk_vk_kernel*)calloc((size_t)program->kernel_count + 1, sizeof *self->kernels);
    if (self->kernels == NULL) {
        return dk_vk_check(self, VK_ERROR_OUT_OF_HOST_MEMORY, "kernels");
    }
    status = dk_vk_check(
        self, dk_vk_open_cache(self, &cache, options != NULL ? options->cache : NULL, program->code_hash), "kernels"
    );
    if (status != DK_OK) {
        return status;
    }
    for (int32_t i = 0; i < program->kernel_count && status == DK_OK; ++i) {
        status = compile(self, cache.cache, &self->kernels[i], &program->kernels[i], program, code);
        self->kernel_count = i + 1;
    }
    if (status != DK_OK) {
        cache.path = NULL;
    }
    dk_vk_close_cache(self, &cache);
    return status;
}

dk_status
dk_vk_compile(dk_vulkan* self, const dk_gpu_program* program, const void* code, const dk_gpu_options* options) {
    uint32_t* unpacked = NULL;
    dk_status status;
    if (program->packed_bytes > 0) {
        unpacked = dk_unpack(code, program->packed_bytes, program->code_bytes);
        if (unpacked == NULL) {
            return dk_vk_check(self, VK_ERROR_OUT_OF_HOST_MEMORY, "kernels");
        }
        code = unpacked;
    }
    if (dk_hash(0, code, (size_t)program->code_bytes) != program->code_hash) {
        status = dk_vk_fail(self, DK_GPU_CODE_DIFFERS);
    } else {
        status = compile_all(self, program, code, options);
    }
    free(unpacked);
    return status;
}

void dk_vk_free_kernels(dk_vulkan* self) {
    for (int32_t i = 0; i < self->kernel_count; ++i) {
        if (self->kernels[i].pipeline != 0) {
            self->call.DestroyPipeline(self->device, self->kernels[i].pipeline, NULL);
        }
    }
    for (int32_t i = 0; i <= DK_VK_MOST_BINDINGS; ++i) {
        if (self->layouts[i] != 0) {
            self->call.DestroyPipelineLayout(self->device, self->layouts[i], NULL);
        }
        if (self->set_layouts[i] != 0) {
            self->call.DestroyDescriptorSetLayout(self->device, self->set_layouts[i], NULL);
        }
    }
    free(self->kernels);
}
