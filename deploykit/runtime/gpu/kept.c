#include "kept.h"

#include <stdlib.h>

int32_t dk_kept_again(dk_keeper* keeper, int64_t bytes) {
    int32_t best = -1;
    for (int32_t i = 0; i < keeper->count; ++i) {
        const dk_kept* one = &keeper->kept[i];
        if (one->discarded != 0 && one->bytes >= bytes && one->bytes / 2 <= bytes &&
            (best < 0 || one->bytes < keeper->kept[best].bytes)) {
            best = i;
        }
    }
    if (best >= 0) {
        keeper->kept[best].discarded = 0;
    }
    return best;
}

int32_t dk_kept_new(dk_keeper* keeper, int64_t bytes) {
    int32_t index = 0;
    while (index < keeper->count && keeper->kept[index].bytes != 0) {
        ++index;
    }
    if (index == keeper->room) {
        const int32_t room = keeper->room == 0 ? 16 : 2 * keeper->room;
        dk_kept* more = (dk_kept*)realloc(keeper->kept, (size_t)room * sizeof *more);
        if (more == NULL) {
            return -1;
        }
        keeper->kept = more;
        keeper->room = room;
    }
    keeper->count += index == keeper->count;
    keeper->kept[index].bytes = bytes;
    keeper->kept[index].discarded = 0;
    return index;
}

int32_t dk_kept_in_use(const dk_keeper* keeper, int32_t index) {
    return index >= 0 && index < keeper->count && keeper->kept[index].bytes != 0 && keeper->kept[index].discarded == 0;
}

void dk_kept_discard(dk_keeper* keeper, int32_t index) {
    keeper->kept[index].discarded = ++keeper->clock;
}

int32_t dk_kept_release(dk_keeper* keeper, int32_t most) {
    int32_t oldest = -1, count = 0;
    for (int32_t i = 0; i < keeper->count; ++i) {
        const dk_kept* one = &keeper->kept[i];
        if (one->discarded != 0) {
            ++count;
            oldest = oldest < 0 || one->discarded < keeper->kept[oldest].discarded ? i : oldest;
        }
    }
    if (count <= most) {
        return -1;
    }
    keeper->kept[oldest].bytes = 0;
    keeper->kept[oldest].discarded = 0;
    return oldest;
}
