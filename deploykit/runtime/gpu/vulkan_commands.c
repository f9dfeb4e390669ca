/* A list of operations as commands.

   Dispatches with the same places share a descriptor set. Between operations there is a barrier only where one has to
   wait for another. During a profile there is one everywhere, and the time is taken before and behind each operation.
 */
#include <stdlib.h>
#include <string.h>

#include "vulkan.h"

#define KERNELS_AND_COPIES (VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT)
#define WRITES (VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT)
#define READS (VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT)

/* A descriptor set for dispatches with the same places. */
typedef struct binding_set {
    const dk_region* places; /* NULL: a free entry of the table */
    int32_t count;
    VkDescriptorSet set; /* 0: not made yet */
} binding_set;

/* A hash table of them. */
typedef struct binding_table {
    binding_set* sets;
    size_t mask;
    uint32_t set_count;
    uint32_t binding_count;
} binding_table;

typedef struct recorder {
    dk_vulkan* self;
    dk_vk_recording* recording;
    VkCommandBuffer commands;
    binding_table table;
    VkPipeline pipeline; /* that is bound */
    VkDescriptorSet set;
} recorder;

static binding_set* find(binding_table* table, const dk_operation* operation) {
    const size_t bytes = (size_t)operation->place_count * sizeof(dk_region);
    size_t at = (size_t)dk_hash((uint64_t)operation->place_count, operation->places, bytes) & table->mask;
    while (table->sets[at].places != NULL && (table->sets[at].count != operation->place_count ||
                                              memcmp(table->sets[at].places, operation->places, bytes) != 0)) {
        at = (at + 1) & table->mask;
    }
    return &table->sets[at];
}

/* Find out which sets the list needs. */
static VkResult find_sets(const dk_work* work, binding_table* table) {
    size_t room = 16, at = 0;
    while (room < 2 * (size_t)work->count) {
        room *= 2;
    }
    table->mask = room - 1;
    table->sets = (binding_set*)calloc(room, sizeof *table->sets);
    if (table->sets == NULL) {
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    while (at < work->bytes) {
        dk_operation operation;
        at = dk_work_read(work, at, &operation);
        if (operation.kernel >= 0 && operation.place_count > 0) {
            binding_set* set = find(table, &operation);
            if (set->places == NULL) {
                set->places = operation.places;
                set->count = operation.place_count;
                ++table->set_count;
                table->binding_count += (uint32_t)operation.place_count;
            }
        }
    }
    return VK_SUCCESS;
}

/* Empty the pool of the recording's sets, or make a larger one. */
static VkResult prepare_pool(dk_vulkan* self, dk_vk_recording* recording, const binding_table* table) {
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 64};
    VkDescriptorPoolCreateInfo info = {VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, NULL, 0, 16, 1, &size};
    VkResult result;
    if (recording->sets != 0 && recording->set_room >= table->set_count &&
        recording->binding_room >= table->binding_count) {
        return self->call.ResetDescriptorPool(self->device, recording->sets, 0);
    }
    if (recording->sets != 0) {
        self->call.DestroyDescriptorPool(self->device, recording->sets, NULL);
    }
    while (info.maxSets < table->set_count) {
        info.maxSets *= 2;
    }
    while (size.descriptorCount < table->binding_count) {
        size.descriptorCount *= 2;
    }
    recording->set_room = info.maxSets;
    recording->binding_room = size.descriptorCount;
    result = self->call.CreateDescriptorPool(self->device, &info, NULL, &recording->sets);
    if (result != VK_SUCCESS) {
        recording->sets = 0;
    }
    return result;
}

static VkResult make_set(recorder* state, binding_set* set) {
    dk_vulkan* self = state->self;
    const uint32_t count = (uint32_t)set->count;
    const VkDescriptorSetAllocateInfo info = {
        VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, NULL, state->recording->sets, 1, &self->set_layouts[set->count],
    };
    VkDescriptorBufferInfo buffers[DK_VK_MOST_BINDINGS];
    VkWriteDescriptorSet writes[DK_VK_MOST_BINDINGS];
    const VkResult result = self->call.AllocateDescriptorSets(self->device, &info, &set->set);
    if (result != VK_SUCCESS) {
        return result;
    }
    memset(writes, 0, sizeof writes);
    for (uint32_t i = 0; i < count; ++i) {
        const dk_region* place = &set->places[i];
        const int32_t empty = place->bytes == 0;
        buffers[i].buffer = empty ? self->nothing.buffer : dk_vk_buffer_of(self, place->buffer)->buffer;
        buffers[i].offset = (VkDeviceSize)place->offset;
        buffers[i].range = (VkDeviceSize)(empty ? self->nothing.bytes : place->bytes);
        writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
        writes[i].dstSet = set->set;
        writes[i].dstBinding = i + 1;
        writes[i].descriptorCount = 1;
        writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        writes[i].pBufferInfo = &buffers[i];
    }
    self->call.UpdateDescriptorSets(self->device, count, writes, 0, NULL);
    return VK_SUCCESS;
}

static VkResult bind_set(recorder* state, const dk_operation* operation, VkPipelineLayout layout) {
    binding_set* set = find(&state->table, operation);
    VkResult result = VK_SUCCESS;
    if (set->set == 0) {
        result = make_set(state, set);
    }
    if (result == VK_SUCCESS && set->set != state->set) {
        state->self->call.CmdBindDescriptorSets(
            state->commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set->set, 0, NULL
        );
        state->set = set->set;
    }
    return result;
}

static VkResult dispatch(recorder* state, const dk_operation* operation) {
    const dk_vulkan* self = state->self;
    const dk_vk_kernel* kernel = &self->kernels[operation->kernel];
    const VkPipelineLayout layout = self->layouts[kernel->bindings];
    const int64_t invocations = operation->words[operation->word_count - 1];
    const int64_t count = (invocations + kernel->stride - 1) / kernel->stride;
    const int64_t rows = (count + self->groups - 1) / self->groups;
    if (kernel->pipeline != state->pipeline) {
        self->call.CmdBindPipeline(state->commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
        state->pipeline = kernel->pipeline;
    }
    if (operation->place_count > 0) {
        const VkResult result = bind_set(state, operation, layout);
        if (result != VK_SUCCESS) {
            return result;
        }
    }
    self->call.CmdPushConstants(
        state->commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4 * (uint32_t)operation->word_count, operation->words
    );
    self->call.CmdDispatch(state->commands, (uint32_t)(count < self->groups ? count : self->groups), (uint32_t)rows, 1);
    return VK_SUCCESS;
}

static VkResult carry_out(recorder* state, const dk_operation* operation) {
    const dk_vulkan* self = state->self;
    const dk_region* places = operation->places;
    const VkBuffer buffer = dk_vk_buffer_of(self, places[0].buffer)->buffer;
    if (operation->kernel == DK_WORK_COPY) {
        const VkBufferCopy copy = {
            (VkDeviceSize)places[0].offset,
            (VkDeviceSize)places[1].offset,
            (VkDeviceSize)places[0].bytes,
        };
        const VkBuffer target = dk_vk_buffer_of(self, places[1].buffer)->buffer;
        self->call.CmdCopyBuffer(state->commands, buffer, target, 1, &copy);
        return VK_SUCCESS;
    }
    self->call.CmdFillBuffer(state->commands, buffer, (VkDeviceSize)places[0].offset, (VkDeviceSize)places[0].bytes, 0);
    return VK_SUCCESS;
}

static void barrier(const recorder* state, VkFlags access, VkFlags stages) {
    const VkMemoryBarrier all = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, NULL, WRITES, access};
    state->self->call.CmdPipelineBarrier(state->commands, KERNELS_AND_COPIES, stages, 0, 1, &all, 0, NULL, 0, NULL);
}

static void take_time(const recorder* state, int32_t number) {
    const dk_vulkan* self = state->self;
    if (self->clock != 0) {
        self->call.CmdWriteTimestamp(
            state->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, self->clock, (uint32_t)number
        );
    }
}

/* Bit i: the operation writes its place i. */
static uint32_t written_by(const dk_vulkan* self, const dk_operation* operation) {
    switch (operation->kernel) {
    case DK_WORK_COPY:
        return 2;
    case DK_WORK_ZERO:
        return 1;
    default:
        return self->kernels[operation->kernel].written;
    }
}

static VkResult record_all(recorder* state, const dk_work* work) {
    const dk_vulkan* self = state->self;
    dk_hazards hazards;
    VkResult result = VK_SUCCESS;
    int32_t number = 0;
    size_t at = 0;
    hazards.count = 0;
    /* What was submitted before has to be seen, too. */
    barrier(state, READS | WRITES, KERNELS_AND_COPIES);
    if (self->clock != 0) {
        self->call.CmdResetQueryPool(state->commands, self->clock, 0, (uint32_t)work->count + 1);
    }
    take_time(state, number);
    while (at < work->bytes && result == VK_SUCCESS) {
        dk_operation operation;
        at = dk_work_read(work, at, &operation);
        if (dk_must_wait(&hazards, &operation, written_by(self, &operation)) || self->profiling) {
            barrier(state, READS | WRITES, KERNELS_AND_COPIES);
        }
        result = operation.kernel >= 0 ? dispatch(state, &operation) : carry_out(state, &operation);
        take_time(state, ++number);
    }
    barrier(state, VK_ACCESS_HOST_READ_BIT, VK_PIPELINE_STAGE_HOST_BIT);
    return result;
}

VkResult dk_vk_record(dk_vulkan* self, dk_vk_recording* recording) {
    const VkCommandBufferAllocateInfo allocation = {
        VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, self->commands, 0, 1,
    };
    const VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, NULL, 0, NULL};
    recorder state;
    VkResult result = VK_SUCCESS, ended;
    memset(&state, 0, sizeof state);
    state.self = self;
    state.recording = recording;
    result = find_sets(&recording->work, &state.table);
    result = result != VK_SUCCESS ? result : prepare_pool(self, recording, &state.table);
    if (result == VK_SUCCESS && recording->commands == NULL) {
        result = self->call.AllocateCommandBuffers(self->device, &allocation, &recording->commands);
        recording->commands = result == VK_SUCCESS ? recording->commands : NULL;
    }
    result = result != VK_SUCCESS ? result : self->call.BeginCommandBuffer(recording->commands, &begin);
    if (result == VK_SUCCESS) {
        state.commands = recording->commands;
        result = record_all(&state, &recording->work);
        ended = self->call.EndCommandBuffer(recording->commands);
        result = result != VK_SUCCESS ? result : ended;
    }
    free(state.table.sets);
    return result;
}
