/* Models of pictures: pictures in, answers out. `model_pictures.h` of a model has these functions with its own names.

   A picture is resized with the bits of Pillow, cropped, and written into the input of the model, a row at a time: of
   the picture itself nothing is copied but the rows that make one of the input. (Source: Pillow, `Image.resize`.)

   One `dk_pictures` with its model serves one thread at a time; any number of them may share weights. Compilers must
   not fuse products and sums (-ffp-contract=off, which is part of -std=c99 in gcc), or a point may be another one by 1.
 */
#ifndef DEPLOYKIT_PICTURES_H
#define DEPLOYKIT_PICTURES_H

#include "answers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The bytes of a point. What is transparent becomes white. */
typedef enum dk_points {
    DK_GREY = 1,
    DK_RGB = 3,
    DK_RGBA = 4,
    DK_RGBA_PREMULTIPLIED = 5, /* 4 bytes; red, green and blue are multiplied by the opacity */
    DK_RGBX = 6                /* 4 bytes, of which the last one means nothing */
} dk_points;

typedef struct dk_picture {
    const uint8_t* data;
    int32_t width;
    int32_t height;
    dk_points points;
    size_t stride; /* bytes from a row to the next one; 0: there is nothing between rows */
} dk_picture;

/* What is done with a picture, in this order. Points become (point * scale - mean) / deviation. */
typedef struct dk_picture_steps {
    int32_t height, width;           /* the new size; 0: none, or that of the edges */
    int32_t shortest, longest;       /* edges of the new size, which keeps the aspect ratio; 0: none */
    int32_t crop_height, crop_width; /* the centre is cut out, black where the picture is smaller; 0: all of it */
    bool cubic;                      /* the filter is bicubic, not bilinear */
    bool bgr;                        /* the channels of the result are blue, green and red */
    double scale;
    float mean[3], deviation[3];
} dk_picture_steps;

/* What a model does with pictures. */
typedef struct dk_pictures_task {
    dk_functions functions;
    dk_picture_steps steps;
    int32_t output; /* the index of the answer: scores, or a vector */
    int32_t boxes;  /* the index of the boxes of a detector; -1: there are none */
    int32_t width;  /* numbers of a vector, or classes without "no object" */
    dk_scores scores;
} dk_pictures_task;

/* An object in a picture. Its box is in points of the picture, and may reach beyond its edges. */
typedef struct dk_object {
    int32_t label; /* index of a class */
    float score;
    float left, top, right, bottom;
} dk_object;

typedef struct dk_pictures {
    const dk_pictures_task* task;
    dk_workspace workspace;
} dk_pictures;

/* An upper bound of `dk_picture_scratch`, for new sizes of at least `least` rows and inputs with `columns`; `support`
   is 1, or 2 for a bicubic filter. */
#define DK_PICTURE_SCRATCH(support, width, height, least, columns)                                                     \
    (3072 + DK_ROOM(3 * (width)) + DK_ROOM(12 * DK_LARGER(width, columns)) + DK_ROOM(3 * (columns)) +                  \
     DK_ROOM(4 * (2 * (support) * DK_LARGER(width, columns) + 4 * (columns))) +                                        \
     DK_ROOM(4 * DK_PICTURE_TAPS(support, height, least)) +                                                            \
     DK_ROOM(3 * (columns) * DK_PICTURE_TAPS(support, height, least)))

/* Points under a filter at most. */
#define DK_PICTURE_TAPS(support, have, length) DK_SMALLER(have, 2 * (support) * DK_LARGER(have, length) / (length) + 2)
#define DK_SMALLER(a, b) ((a) < (b) ? (a) : (b))

/* prepare.c */

/* The height and width of what a picture of this size becomes. They are 0 if it becomes none. */
void dk_picture_size(const dk_picture_steps* steps, int32_t height, int32_t width, int64_t size[2]);

/* Bytes of memory to prepare a picture of this size. */
uint64_t dk_picture_scratch(const dk_picture_steps* steps, int32_t height, int32_t width);

/* What is wrong with a picture; NULL: nothing. */
const char* dk_picture_error(const dk_picture* picture);

/* A picture that is read a row at a time: `read` writes red, green and blue of the points of row `y`. Rows may be read
   several times. */
typedef struct dk_rows {
    int32_t height, width;
    void (*read)(const void* picture, int32_t y, uint8_t* row);
    const void* picture;
} dk_rows;

/* The rows of a picture without errors; valid as long as it is. */
dk_rows dk_picture_rows(const dk_picture* picture);

/* Write rows into an input [3, height, width] of the size that `dk_picture_size` gives. */
void dk_prepare_rows(const dk_picture_steps* steps, const dk_rows* source, float* input, void* scratch);

/* The same for a picture without errors. */
void dk_prepare_picture(const dk_picture_steps* steps, const dk_picture* picture, float* input, void* scratch);

/* places.c */

/* The objects with a score above `least`, the best first; `objects` has room for all `queries`. The last of `classes`
   is "no object"; places are centres and sizes, as parts of the picture. An object is dropped if its box overlaps that
   of a better one of its class by more than the part `overlap`. Returns how many there are. */
int32_t dk_find_objects(
    const float* logits, const float* places, int32_t queries, int32_t classes, int32_t height, int32_t width,
    float least, float overlap, dk_object* objects
);

/* The class with the best score at each point of a picture, from scores [classes, rows, columns] that are resized
   bilinearly. The result is in `bytes`, or in `words` if there are more than 256 classes. */
void dk_find_segments(
    const float* scores, int32_t classes, int32_t rows, int32_t columns, int32_t height, int32_t width, uint8_t* bytes,
    uint16_t* words
);

/* pictures.c */

/* Begin. There is no workspace yet. */
void dk_pictures_open(dk_pictures* own, const dk_pictures_task* task);

/* Bytes of workspace for pictures of this size; SIZE_MAX if the model does not take them, and the model says why. */
size_t dk_pictures_bytes(const dk_pictures* own, dk_model* model, int32_t width, int32_t height);

/* Use a workspace, at a multiple of 64 bytes. */
dk_status dk_pictures_use(dk_pictures* own, dk_model* model, void* workspace, size_t bytes);

/* The answer of the model, as numbers without scores, or as scores. */
dk_status dk_pictures_vector(dk_pictures* own, dk_model* model, const dk_picture* picture, float* vector);
dk_status dk_pictures_classify(dk_pictures* own, dk_model* model, const dk_picture* picture, float* scores);

/* At most `capacity` objects. After DK_ERROR_CAPACITY, `need.extent` of the model says how many there are. */
dk_status dk_pictures_detect(
    dk_pictures* own, dk_model* model, const dk_picture* picture, float least, float overlap, dk_object* objects,
    size_t capacity, size_t* count
);

/* The class of each point; see `dk_find_segments`. */
dk_status
dk_pictures_segment(dk_pictures* own, dk_model* model, const dk_picture* picture, uint8_t* bytes, uint16_t* words);

#ifdef __cplusplus
}
#endif

#endif
