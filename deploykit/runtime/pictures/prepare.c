/* Pictures as models take them: resized, cropped, rescaled and normalised.

   A new point is a weighted mean of the points under a filter, which is as wide as a new point if that is larger than
   one of the source. Columns come first: then each source row becomes one of the new width, which stays in a ring as
   long as rows of the result need it. If many rows are lost, rows come first. */
#include "pictures.h"

#include <math.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

enum {
    FRACTION = 22, /* fractional bits of a weight */
    CHANNELS = 3,
    VALUES = 256,
    MOST_EXTENT = 1 << 24
};

/* An axis: a part of the new points, `kept` from `start` on, becomes the input behind `before` black points. */
typedef struct axis {
    int32_t have, length;
    int32_t start, kept, before;
    int32_t taps; /* at most, under the filter of a point */
} axis;

/* Where things are in memory. */
typedef struct workshop {
    axis rows, columns;
    float* values;    /* of each of 256 points in each channel */
    uint8_t* row;     /* of the source */
    int32_t* sums;    /* of a row */
    uint8_t* made;    /* a row of the result */
    int32_t* table;   /* for each column the first point, their number, and weights */
    int32_t* weights; /* of a row */
    uint8_t* ring;    /* of source rows in the new width */
    uint64_t bytes;
} workshop;

static int32_t support_of(const dk_picture_steps* steps) {
    return steps->cubic ? 2 : 1;
}

static axis axis_of(const dk_picture_steps* steps, int32_t have, int64_t length, int64_t wanted) {
    axis own = {have, (int32_t)length, 0, 0, 0, 0};
    const int64_t taps = DK_PICTURE_TAPS((int64_t)support_of(steps), have, length);
    own.before = (int32_t)(wanted > length ? (wanted - length + 1) / 2 : 0);
    own.start = (int32_t)(wanted < length ? (length - wanted) / 2 : 0);
    own.kept = (int32_t)DK_SMALLER(wanted, length);
    own.taps = (int32_t)taps;
    return own;
}

/* The height and width without the crop. */
static void new_size(const dk_picture_steps* steps, int32_t height, int32_t width, int64_t size[2]) {
    const double low = height < width ? height : width, high = height < width ? width : height;
    double edge = steps->shortest, other;
    size[0] = steps->height > 0 ? steps->height : height;
    size[1] = steps->width > 0 ? steps->width : width;
    if (steps->shortest == 0) {
        return;
    }
    if (steps->longest > 0 && high / low * edge > steps->longest) {
        edge = steps->longest * low / high;
    }
    other = trunc(edge * high / low);
    edge = rint(edge);
    other = edge == low ? high : other;
    size[0] = (int64_t)(height <= width ? edge : other);
    size[1] = (int64_t)(height <= width ? other : edge);
}

void dk_picture_size(const dk_picture_steps* steps, int32_t height, int32_t width, int64_t size[2]) {
    new_size(steps, height, width, size);
    if (size[0] < 1 || size[1] < 1 || size[0] > MOST_EXTENT || size[1] > MOST_EXTENT) {
        size[0] = size[1] = 0;
    } else if (steps->crop_height > 0) {
        size[0] = steps->crop_height;
        size[1] = steps->crop_width;
    }
}

static void* take(workshop* own, unsigned char* memory, uint64_t bytes) {
    void* taken = memory == NULL ? NULL : memory + own->bytes;
    own->bytes += DK_ROOM(bytes);
    return taken;
}

/* For a picture of a size that becomes one. Without memory, `bytes` says how much is needed. */
static workshop workshop_of(const dk_picture_steps* steps, int32_t height, int32_t width, unsigned char* memory) {
    workshop own = {0};
    int64_t wanted[2], made[2];
    uint64_t columns, longer;
    new_size(steps, height, width, made);
    dk_picture_size(steps, height, width, wanted);
    own.rows = axis_of(steps, height, made[0], wanted[0]);
    own.columns = axis_of(steps, width, made[1], wanted[1]);
    columns = (uint64_t)own.columns.kept;
    longer = DK_LARGER(columns, (uint64_t)width);
    own.values = take(&own, memory, sizeof(float) * CHANNELS * VALUES);
    own.row = take(&own, memory, CHANNELS * (uint64_t)width);
    own.sums = take(&own, memory, 4 * CHANNELS * longer);
    own.made = take(&own, memory, CHANNELS * columns);
    own.table = take(&own, memory, 4 * columns * (2 + (uint64_t)own.columns.taps));
    own.weights = take(&own, memory, 4 * (uint64_t)own.rows.taps);
    own.ring = take(&own, memory, CHANNELS * columns * (uint64_t)own.rows.taps);
    return own;
}

uint64_t dk_picture_scratch(const dk_picture_steps* steps, int32_t height, int32_t width) {
    return workshop_of(steps, height, width, NULL).bytes;
}

static size_t point_bytes(const dk_picture* picture) {
    return picture->points > DK_RGBA ? 4 : (size_t)picture->points;
}

const char* dk_picture_error(const dk_picture* picture) {
    uint64_t bytes;
    if (picture == NULL || picture->data == NULL) {
        return "the picture is NULL";
    }
    if (picture->width < 1 || picture->height < 1 || picture->width > MOST_EXTENT || picture->height > MOST_EXTENT) {
        return "a picture has 1 to 16777216 rows and columns";
    }
    if (picture->points < DK_GREY || picture->points > DK_RGBX || picture->points == 2) {
        return "the points of a picture are DK_GREY, DK_RGB, DK_RGBA, DK_RGBA_PREMULTIPLIED or DK_RGBX";
    }
    bytes = (uint64_t)picture->width * point_bytes(picture);
    return picture->stride != 0 && picture->stride < bytes ? "the stride is less than the bytes of a row" : NULL;
}

/* A row of a `dk_picture` as red, green and blue. */
static void read_row(const void* source, int32_t y, uint8_t* row) {
    const dk_picture* picture = (const dk_picture*)source;
    const size_t bytes = point_bytes(picture);
    const size_t stride = picture->stride != 0 ? picture->stride : bytes * (size_t)picture->width;
    const uint8_t* point = picture->data + stride * (size_t)y;
    for (int32_t x = 0; x < picture->width; ++x, point += bytes) {
        for (int32_t c = 0; c < CHANNELS; ++c) {
            uint32_t value = picture->points == DK_GREY ? point[0] : point[c];
            if (picture->points == DK_RGBA) {
                /* Rounded to the nearest, and 255 is odd: there are no ties. */
                value = (2 * (point[3] * value + (255u - point[3]) * 255u) + 255u) / 510u;
            } else if (picture->points == DK_RGBA_PREMULTIPLIED) {
                value += 255u - point[3];
                value = value > 255u ? 255u : value;
            }
            *row++ = (uint8_t)value;
        }
    }
}

dk_rows dk_picture_rows(const dk_picture* picture) {
    const dk_rows rows = {picture->height, picture->width, read_row, picture};
    return rows;
}

/* The filter at a distance from its centre. */
static double filter(bool cubic, double x) {
    x = fabs(x);
    if (!cubic) {
        return x < 1.0 ? 1.0 - x : 0.0;
    }
    if (x < 1.0) {
        return ((-0.5 + 2.0) * x - (-0.5 + 3.0)) * x * x + 1;
    }
    return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0.0;
}

/* The weights of the points under the filter of a new point. Returns their number. */
static int32_t weigh(bool cubic, const axis* own, int32_t index, int32_t* first, int32_t* weights) {
    const double scale = (double)own->have / own->length, wide = scale > 1.0 ? scale : 1.0, narrow = 1.0 / wide;
    const double centre = (index + 0.5) * scale, reach = (cubic ? 2.0 : 1.0) * wide;
    const double begin = trunc(centre - reach + 0.5), end = trunc(centre + reach + 0.5);
    const int32_t from = begin > 0 ? (int32_t)begin : 0, to = end < own->have ? (int32_t)end : own->have;
    double total = 0;
    for (int32_t point = from; point < to; ++point) {
        total += filter(cubic, (point - centre + 0.5) * narrow);
    }
    for (int32_t point = from; point < to; ++point) {
        const double weight = filter(cubic, (point - centre + 0.5) * narrow) / total * (1 << FRACTION);
        weights[point - from] = (int32_t)trunc(weight + (weight < 0 ? -0.5 : 0.5));
    }
    *first = from;
    return to - from;
}

static uint8_t rounded(int32_t sum) {
    return sum < 0 ? 0 : sum >> FRACTION > 255 ? 255 : (uint8_t)(sum >> FRACTION);
}

/* The kept columns of a row, in the new width. */
static void narrow_row(const workshop* own, const uint8_t* row, uint8_t* made) {
    const axis* columns = &own->columns;
    if (columns->have == columns->length) {
        memcpy(made, row + CHANNELS * (size_t)columns->start, CHANNELS * (size_t)columns->kept);
        return;
    }
    for (int32_t x = 0; x < columns->kept; ++x) {
        const int32_t* entry = own->table + (size_t)x * (2 + (size_t)columns->taps);
        int32_t sums[CHANNELS] = {1 << (FRACTION - 1), 1 << (FRACTION - 1), 1 << (FRACTION - 1)};
        const uint8_t* point = row + CHANNELS * (size_t)entry[0];
        for (int32_t tap = 0; tap < entry[1]; ++tap, point += CHANNELS) {
            for (int32_t c = 0; c < CHANNELS; ++c) {
                sums[c] += point[c] * entry[2 + tap];
            }
        }
        for (int32_t c = 0; c < CHANNELS; ++c) {
            *made++ = rounded(sums[c]);
        }
    }
}

static void start_sums(const workshop* own, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        own->sums[i] = 1 << (FRACTION - 1);
    }
}

static void add_row(const workshop* own, const uint8_t* row, int32_t weight, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        own->sums[i] += row[i] * weight;
    }
}

static void end_sums(const workshop* own, uint8_t* row, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        row[i] = rounded(own->sums[i]);
    }
}

/* A row of the result. `done`: source rows that are in the ring, or were. */
static void
make_row(const dk_picture_steps* steps, const dk_rows* source, const workshop* own, int32_t index, int32_t* done) {
    const axis *rows = &own->rows, *columns = &own->columns;
    const size_t whole = CHANNELS * (size_t)columns->have, kept = CHANNELS * (size_t)columns->kept;
    const int64_t lost = (int64_t)rows->have - rows->length, narrower = (int64_t)columns->have - columns->length;
    const bool rows_first = lost > DK_LARGER(0, 2 * narrower);
    int32_t first, count;
    if (lost == 0) {
        source->read(source->picture, index, own->row);
        narrow_row(own, own->row, own->made);
        return;
    }
    count = weigh(steps->cubic, rows, index, &first, own->weights);
    start_sums(own, rows_first ? whole : kept);
    *done = *done > first ? *done : first;
    for (int32_t tap = 0; tap < count; ++tap) {
        uint8_t* row = own->ring + kept * (size_t)((first + tap) % rows->taps);
        if (rows_first) {
            source->read(source->picture, first + tap, own->row);
            add_row(own, own->row, own->weights[tap], whole);
            continue;
        }
        if (first + tap == *done) {
            source->read(source->picture, *done, own->row);
            narrow_row(own, own->row, row);
            ++*done;
        }
        add_row(own, row, own->weights[tap], kept);
    }
    if (rows_first) {
        end_sums(own, own->row, whole);
        narrow_row(own, own->row, own->made);
    } else {
        end_sums(own, own->made, kept);
    }
}

void dk_prepare_rows(const dk_picture_steps* steps, const dk_rows* source, float* input, void* scratch) {
    const workshop own = workshop_of(steps, source->height, source->width, (unsigned char*)scratch);
    int32_t done = 0;
    int64_t size[2];
    dk_picture_size(steps, source->height, source->width, size);
    for (int32_t i = 0; i < CHANNELS * VALUES; ++i) {
        own.values[i] = ((float)(i % VALUES * steps->scale) - steps->mean[i / VALUES]) / steps->deviation[i / VALUES];
    }
    for (int32_t x = 0; x < own.columns.kept && own.columns.have != own.columns.length; ++x) {
        int32_t* entry = own.table + (size_t)x * (2 + (size_t)own.columns.taps);
        entry[1] = weigh(steps->cubic, &own.columns, own.columns.start + x, &entry[0], entry + 2);
    }
    for (int64_t y = 0; y < size[0]; ++y) {
        const bool inside = y >= own.rows.before && y < (int64_t)own.rows.before + own.rows.kept;
        if (inside) {
            make_row(steps, source, &own, (int32_t)(own.rows.start + y - own.rows.before), &done);
        }
        for (int32_t c = 0; c < CHANNELS; ++c) {
            const int64_t plane = steps->bgr ? CHANNELS - 1 - c : c;
            float* row = input + (size_t)(plane * size[0] + y) * (size_t)size[1];
            const float* values = own.values + c * VALUES;
            for (int64_t x = 0; x < size[1]; ++x) {
                const int64_t from = x - own.columns.before;
                row[x] = values[inside && from >= 0 && from < own.columns.kept ? own.made[CHANNELS * from + c] : 0];
            }
        }
    }
}

void dk_prepare_picture(const dk_picture_steps* steps, const dk_picture* picture, float* input, void* scratch) {
    const dk_rows source = dk_picture_rows(picture);
    dk_prepare_rows(steps, &source, input, scratch);
}
