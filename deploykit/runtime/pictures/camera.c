/* Pictures of cameras as rows of red, green and blue. Turning costs nothing but the order in which points are read. */
#include "camera.h"

/* The factors of BT.601, with 16 fractional bits. */
enum { RED_OF_V = 91881, GREEN_OF_U = 22553, GREEN_OF_V = 46802, BLUE_OF_U = 116130, HALF = 1 << 15 };

static uint8_t rounded(int32_t value) {
    return value < 0 ? 0 : value >> 16 > 255 ? 255 : (uint8_t)(value >> 16);
}

static int32_t at(const dk_plane* plane, int32_t y, int32_t x) {
    return plane->data[(size_t)y * plane->row + (size_t)x * plane->point];
}

static void read_row(const void* source, int32_t row, uint8_t* points) {
    const dk_camera* own = (const dk_camera*)source;
    const bool upright = own->degrees % 180 == 0;
    const int32_t last_row = own->height - 1, last_column = own->width - 1, count = upright ? own->width : own->height;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t down = own->degrees == 0     ? row
                             : own->degrees == 90  ? last_row - i
                             : own->degrees == 180 ? last_row - row
                                                   : i;
        const int32_t right = own->degrees == 0     ? i
                              : own->degrees == 90  ? row
                              : own->degrees == 180 ? last_column - i
                                                    : last_column - row;
        const int32_t y = own->top + down, x = own->left + right;
        const int32_t luma = at(&own->y, y, x) * (1 << 16) + HALF;
        const int32_t u = at(&own->u, y / 2, x / 2) - 128, v = at(&own->v, y / 2, x / 2) - 128;
        *points++ = rounded(luma + RED_OF_V * v);
        *points++ = rounded(luma - GREEN_OF_U * u - GREEN_OF_V * v);
        *points++ = rounded(luma + BLUE_OF_U * u);
    }
}

dk_rows dk_camera_rows(const dk_camera* camera) {
    const bool upright = camera->degrees % 180 == 0;
    const dk_rows rows = {
        upright ? camera->height : camera->width, upright ? camera->width : camera->height, read_row, camera
    };
    return rows;
}
