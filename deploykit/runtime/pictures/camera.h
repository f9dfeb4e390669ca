/* Pictures of cameras: planes of luma and chroma, as Android's `YUV_420_888` has them. */
#ifndef DEPLOYKIT_CAMERA_H
#define DEPLOYKIT_CAMERA_H

#include "pictures.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A plane of bytes. The last row may end with its last point. */
typedef struct dk_plane {
    const uint8_t* data;
    size_t row, point; /* bytes from a row to the next one, and from a point to the next one */
} dk_plane;

/* A part of a frame, turned clockwise by a number of degrees. Each point of `u` and `v` is for two rows and columns of
   the frame, from its corner on. */
typedef struct dk_camera {
    dk_plane y, u, v;
    int32_t left, top;     /* where the part begins */
    int32_t height, width; /* of the part, before it is turned */
    int32_t degrees;       /* 0, 90, 180 or 270 */
} dk_camera;

/* The turned part as rows of red, green and blue, by BT.601 with all values from 0 to 255 (JFIF):
   red = y + 1.402 (v - 128), green = y - 0.344136 (u - 128) - 0.714136 (v - 128), blue = y + 1.772 (u - 128). The
   result is valid as long as `camera`. */
dk_rows dk_camera_rows(const dk_camera* camera);

#ifdef __cplusplus
}
#endif

#endif
