/* Sounds through a model: the memory of a run, and what its output means. */
#include "sounds.h"

#include <string.h>

void dk_sounds_open(dk_sounds* own, const dk_sounds_task* task) {
    memset(own, 0, sizeof *own);
    own->task = task;
}

/* What a run with so many samples needs. */
static dk_status plan(const dk_sounds* own, dk_model* model, size_t count, int32_t rate, dk_single_run* run) {
    const dk_sounds_task* task = own->task;
    const dk_resampling rates = dk_resampling_of(rate, task->rate);
    const int64_t total = dk_resampled_count(&rates, count);
    const uint64_t scratch = dk_sound_scratch(&rates, count);
    const int64_t shape[2] = {1, total};
    dk_status status;
    run->bytes = SIZE_MAX;
    if (total > DK_MAX_EXTENT) {
        return dk_fail(model, DK_ERROR_USAGE, "the sound is too long");
    }
    status = dk_plan_run(&task->functions, model, 2, shape, scratch, 0, run);
    if (status == DK_OK && task->letters != NULL) {
        const uint64_t text = (uint64_t)run->outputs[task->output].shape[1] * (uint64_t)task->longest;
        status = dk_plan_run(&task->functions, model, 2, shape, scratch, text, run);
    }
    return status;
}

size_t dk_sounds_bytes(const dk_sounds* own, dk_model* model, size_t count, int32_t rate) {
    static const float sample = 0;
    const dk_sound sound = {&sample, NULL, count, 1, rate};
    const char* wrong = dk_sound_error(&sound);
    dk_single_run run;
    if (own->task == NULL) {
        return SIZE_MAX;
    }
    if (wrong != NULL) {
        dk_fail(model, DK_ERROR_USAGE, wrong);
        return SIZE_MAX;
    }
    plan(own, model, count, rate, &run);
    return run.bytes;
}

dk_status dk_sounds_use(dk_sounds* own, dk_model* model, void* workspace, size_t bytes) {
    return own->task == NULL ? DK_ERROR_USAGE : dk_use_workspace(model, &own->workspace, workspace, bytes);
}

/* Prepare a sound and run. */
static dk_status
run_on(dk_sounds* own, dk_model* model, const dk_sound* sound, const void* results, dk_single_run* run) {
    const dk_sounds_task* task = own->task;
    dk_status status;
    if (task == NULL) {
        return DK_ERROR_USAGE; /* opening failed, and the model says why */
    }
    status = dk_check_single(model, &own->workspace, results, dk_sound_error(sound));
    status = status != DK_OK ? status : plan(own, model, sound->count, sound->rate, run);
    status = status != DK_OK ? status : dk_place_run(&task->functions, model, "this sound", &own->workspace, run);
    if (status != DK_OK) {
        return status;
    }
    if (!dk_prepare_sound(sound, task->rate, task->normal, (float*)run->input.data, run->before)) {
        return dk_fail(
            model, DK_ERROR_DATA, "samples must be finite: these have infinities or values that are no numbers"
        );
    }
    return dk_do_run(&task->functions, model, run);
}

dk_status dk_sounds_classify(dk_sounds* own, dk_model* model, const dk_sound* sound, float* scores) {
    dk_single_run run;
    const dk_status status = run_on(own, model, sound, scores, &run);
    if (status == DK_OK) {
        memcpy(scores, run.outputs[own->task->output].data, sizeof *scores * (size_t)own->task->width);
        dk_make_scores(own->task->scores, scores, own->task->width);
    }
    return status;
}

/* Whether a character of so many bytes is a space, as Unicode and Python have it. */
static bool is_space(const unsigned char* c, size_t bytes) {
    const uint32_t rune = bytes == 1   ? c[0]
                          : bytes == 2 ? (c[0] & 31u) << 6 | (c[1] & 63u)
                          : bytes == 3 ? (c[0] & 15u) << 12 | (c[1] & 63u) << 6 | (c[2] & 63u)
                                       : UINT32_MAX;
    return (rune >= 9 && rune <= 13) || (rune >= 28 && rune <= 32) || rune == 0x85 || rune == 0xa0 || rune == 0x1680 ||
           (rune >= 0x2000 && rune <= 0x200a) || rune == 0x2028 || rune == 0x2029 || rune == 0x202f || rune == 0x205f ||
           rune == 0x3000;
}

static bool is_inside(char c) {
    return ((unsigned char)c & 0xc0u) == 0x80u;
}

/* Leave out spaces in front and behind. Returns the bytes that remain. */
static size_t strip(const char* text, size_t end, size_t* begin) {
    size_t start = 0;
    while (start < end) {
        size_t next = start + 1;
        while (next < end && is_inside(text[next])) {
            ++next;
        }
        if (!is_space((const unsigned char*)text + start, next - start)) {
            break;
        }
        start = next;
    }
    while (end > start) {
        size_t last = end - 1;
        while (last > start && is_inside(text[last])) {
            --last;
        }
        if (!is_space((const unsigned char*)text + last, end - last)) {
            break;
        }
        end = last;
    }
    *begin = start;
    return end - start;
}

size_t dk_find_letters(const dk_sounds_task* task, const float* scores, int64_t times, char* text, size_t* begin) {
    int32_t before = -1;
    size_t bytes = 0;
    for (int64_t time = 0; time < times; ++time, scores += task->width) {
        int32_t best = 0;
        for (int32_t i = 1; i < task->width; ++i) {
            best = scores[i] > scores[best] ? i : best;
        }
        if (task->alike[best] != before) {
            const size_t length = strlen(task->letters[best]);
            memcpy(text + bytes, task->letters[best], length);
            bytes += length;
        }
        before = task->alike[best];
    }
    return strip(text, bytes, begin);
}

dk_status dk_sounds_transcribe(dk_sounds* own, dk_model* model, const dk_sound* sound, char* text, size_t capacity) {
    dk_single_run run;
    const dk_status status = run_on(own, model, sound, text, &run);
    const dk_tensor* scores;
    size_t begin, bytes;
    if (status != DK_OK) {
        return status;
    }
    scores = &run.outputs[own->task->output];
    bytes = dk_find_letters(own->task, (const float*)scores->data, scores->shape[1], (char*)run.after, &begin);
    if (bytes >= capacity) {
        dk_fail(model, DK_ERROR_CAPACITY, "");
        dk_add_number(model, "the transcript has ", (int64_t)bytes + 1);
        dk_add_number(model, " bytes with its end, and there is room for ", (int64_t)capacity);
        model->need.extent = (int64_t)bytes + 1;
        return DK_ERROR_CAPACITY;
    }
    memcpy(text, (const char*)run.after + begin, bytes);
    text[bytes] = '\0';
    return DK_OK;
}
