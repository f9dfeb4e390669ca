/* Pictures as a model takes them, and what its outputs say of them, for the class `Native`.

   Compile with -DDK_PICTURES=<the name of the model's dk_pictures_task>. */
#include "session.h"

#include "camera.h"

#include <stdlib.h>

extern const dk_pictures_task DK_PICTURES;

/* `size` receives the height and width that a picture gets. */
jint JNI_pictureSize(jni_environment* env, jobject type, jlong handle, jint height, jint width, jobject size) {
    static const uint8_t point = 0;
    const dk_picture picture = {&point, width, height, DK_GREY, 0};
    const char* wrong = dk_picture_error(&picture);
    int64_t found[2] = {0, 0};
    (void)type;
    if (wrong == NULL) {
        dk_picture_size(&DK_PICTURES.steps, height, width, found);
        wrong = found[0] == 0 ? "the picture cannot become one that the model takes: an edge is too short or too long"
                              : NULL;
    }
    jni_write_longs(env, size, 0, 2, found);
    return failed(session_of(handle), wrong == NULL ? DK_OK : DK_ERROR_USAGE, wrong == NULL ? "" : wrong);
}

/* Write rows into an input. */
static jint prepare(const dk_rows* source, float* input) {
    const dk_picture_steps* steps = &DK_PICTURES.steps;
    void* scratch;
    if (posix_memalign(&scratch, 64, (size_t)dk_picture_scratch(steps, source->height, source->width)) != 0) {
        return NO_MEMORY;
    }
    dk_prepare_rows(steps, source, input, scratch);
    free(scratch);
    return DK_OK;
}

/* Write a picture into an input. `buffers` has its points and the input; `described` its height, width, stride and
   `dk_points`. */
jint JNI_preparePicture(jni_environment* env, jobject type, jlong handle, jobject buffers, jobject described) {
    jlong numbers[4];
    dk_picture picture;
    dk_rows source;
    const char* wrong;
    (void)type;
    jni_read_longs(env, described, 0, 4, numbers);
    picture.data = memory_of(env, buffers, 0);
    picture.height = (int32_t)numbers[0];
    picture.width = (int32_t)numbers[1];
    picture.stride = (size_t)numbers[2];
    picture.points = (dk_points)numbers[3];
    wrong = dk_picture_error(&picture);
    if (wrong != NULL) {
        return failed(session_of(handle), DK_ERROR_USAGE, wrong);
    }
    source = dk_picture_rows(&picture);
    return prepare(&source, memory_of(env, buffers, 1));
}

static dk_plane plane_of(const void* data, const jlong* steps) {
    const dk_plane plane = {(const uint8_t*)data, (size_t)steps[0], (size_t)steps[1]};
    return plane;
}

/* Write a part of a camera's frame, whose planes are large enough, into an input. `buffers` has the planes y, u and v
   and the input; `described` for each plane the bytes from row to row and from point to point, then left, top, height
   and width of the part, and the degrees by which it is turned. */
jint JNI_prepareFrame(jni_environment* env, jobject type, jobject buffers, jobject described) {
    jlong numbers[11];
    dk_camera frame;
    dk_rows source;
    (void)type;
    jni_read_longs(env, described, 0, 11, numbers);
    frame.y = plane_of(memory_of(env, buffers, 0), numbers);
    frame.u = plane_of(memory_of(env, buffers, 1), numbers + 2);
    frame.v = plane_of(memory_of(env, buffers, 2), numbers + 4);
    frame.left = (int32_t)numbers[6];
    frame.top = (int32_t)numbers[7];
    frame.height = (int32_t)numbers[8];
    frame.width = (int32_t)numbers[9];
    frame.degrees = (int32_t)numbers[10];
    source = dk_camera_rows(&frame);
    return prepare(&source, memory_of(env, buffers, 3));
}

/* `buffers` has scores, boxes, and room for a `dk_object` of each query; `numbers` how many queries and classes there
   are, the height and width of the picture, and the bits of the floats `least` and `overlap`. Returns how many were
   found. */
jint JNI_objects(jni_environment* env, jobject type, jobject buffers, jobject numbers) {
    jlong given[6];
    int32_t bits[2];
    float least, overlap;
    (void)type;
    jni_read_longs(env, numbers, 0, 6, given);
    bits[0] = (int32_t)given[4];
    bits[1] = (int32_t)given[5];
    memcpy(&least, &bits[0], sizeof least);
    memcpy(&overlap, &bits[1], sizeof overlap);
    return dk_find_objects(
        memory_of(env, buffers, 0), memory_of(env, buffers, 1), (int32_t)given[0], (int32_t)given[1], (int32_t)given[2],
        (int32_t)given[3], least, overlap, memory_of(env, buffers, 2)
    );
}

/* `buffers` has scores, and room for a number of 16 bits for each point; `sizes` the number of classes, the rows and
   columns of scores, and the height and width of the picture. */
void JNI_segments(jni_environment* env, jobject type, jobject buffers, jobject sizes) {
    jlong given[5];
    (void)type;
    jni_read_longs(env, sizes, 0, 5, given);
    dk_find_segments(
        memory_of(env, buffers, 0), (int32_t)given[0], (int32_t)given[1], (int32_t)given[2], (int32_t)given[3],
        (int32_t)given[4], NULL, memory_of(env, buffers, 1)
    );
}
