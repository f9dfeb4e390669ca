/* The pages of sequences. */
#include "language.h"

#include <string.h>

static size_t whole(size_t bytes) {
    return (bytes + 7) / 8 * 8;
}

static int64_t* row_of(const dk_pages* pages, int32_t sequence) {
    return pages->table + (size_t)sequence * (size_t)pages->blocks;
}

static int32_t blocks_for(const dk_pages* pages, int32_t tokens) {
    return (tokens + pages->size - 1) / pages->size;
}

size_t dk_pages_bytes(int32_t count, int32_t sequences, int32_t blocks) {
    size_t rows = (size_t)sequences;
    return 8 * rows * (size_t)blocks + 2 * whole(4 * rows) + whole(4 * (size_t)count);
}

void dk_pages_open(dk_pages* pages, void* memory) {
    size_t rows = (size_t)pages->sequences, cells = rows * (size_t)pages->blocks;
    unsigned char* place = memory;
    pages->table = (int64_t*)(void*)place;
    place += 8 * cells;
    pages->lengths = (int32_t*)(void*)place;
    place += whole(4 * rows);
    pages->first = (int32_t*)(void*)place;
    place += whole(4 * rows);
    pages->holders = (int32_t*)(void*)place;
    for (size_t i = 0; i < cells; ++i) {
        pages->table[i] = -1;
    }
    for (size_t i = 0; i < rows; ++i) {
        pages->lengths[i] = -1;
    }
    memset(pages->first, 0, 4 * rows);
    memset(pages->holders, 0, 4 * (size_t)pages->count);
    pages->unused = pages->count;
}

int32_t dk_pages_begin(dk_pages* pages) {
    for (int32_t i = 0; i < pages->sequences; ++i) {
        if (pages->lengths[i] < 0) {
            pages->lengths[i] = 0;
            pages->first[i] = 0;
            return i;
        }
    }
    return -1;
}

static void hold(dk_pages* pages, int64_t page) {
    if (pages->holders[page]++ == 0) {
        --pages->unused;
    }
}

static void release(dk_pages* pages, int64_t* page) {
    if (*page < 0) {
        return;
    }
    if (--pages->holders[*page] == 0) {
        ++pages->unused;
    }
    *page = -1;
}

int32_t dk_pages_fork(dk_pages* pages, int32_t sequence, int32_t length) {
    int32_t other = dk_pages_begin(pages), from = pages->first[sequence];
    if (other < 0) {
        return -1;
    }
    if (length > pages->lengths[sequence]) {
        length = pages->lengths[sequence];
    }
    int32_t kept = length / pages->size;
    int32_t needed = pages->window > 0 ? (kept * pages->size - pages->window + 1) / pages->size : 0;
    if (kept * pages->size - pages->window + 1 < 0) {
        needed = 0;
    }
    if (from > needed) {
        return other; /* pages that these tokens look back to are gone */
    }
    for (int32_t i = from; i < kept; ++i) {
        row_of(pages, other)[i] = row_of(pages, sequence)[i];
        hold(pages, row_of(pages, other)[i]);
    }
    pages->lengths[other] = kept * pages->size;
    pages->first[other] = from < kept ? from : kept;
    return other;
}

bool dk_pages_reserve(dk_pages* pages, int32_t sequence, int32_t more) {
    int64_t* row = row_of(pages, sequence);
    int32_t last = blocks_for(pages, pages->lengths[sequence] + more), missing = 0;
    if (last > pages->blocks) {
        return false;
    }
    for (int32_t i = pages->first[sequence]; i < last; ++i) {
        missing += row[i] < 0;
    }
    if (missing > pages->unused) {
        return false;
    }
    int64_t page = 0;
    for (int32_t i = pages->first[sequence]; i < last; ++i) {
        if (row[i] >= 0) {
            continue;
        }
        while (pages->holders[page] > 0) {
            ++page;
        }
        row[i] = page;
        hold(pages, page);
    }
    return true;
}

void dk_pages_append(dk_pages* pages, int32_t sequence, int32_t more) {
    int64_t* row = row_of(pages, sequence);
    pages->lengths[sequence] += more;
    if (pages->window <= 0) {
        return;
    }
    /* The next token, at the position `length`, looks back to `length - window + 1`. */
    int32_t oldest = pages->lengths[sequence] - pages->window + 1;
    for (int32_t* i = &pages->first[sequence]; oldest > 0 && *i < oldest / pages->size; ++*i) {
        release(pages, &row[*i]);
    }
}

void dk_pages_cut(dk_pages* pages, int32_t sequence, int32_t length) {
    int64_t* row = row_of(pages, sequence);
    if (length >= pages->lengths[sequence]) {
        return;
    }
    if (length < 0) {
        length = 0;
    }
    int32_t block = length / pages->size;
    if (pages->whole) {
        length = block * pages->size;
    }
    if (length % pages->size && row[block] >= 0 && pages->holders[row[block]] > 1) {
        length = block * pages->size;
    }
    int32_t oldest = pages->window > 0 && length >= pages->window ? length - pages->window + 1 : 0;
    if (pages->first[sequence] > oldest / pages->size) {
        length = 0;
    }
    for (int32_t i = blocks_for(pages, length); i < pages->blocks; ++i) {
        release(pages, &row[i]);
    }
    pages->lengths[sequence] = length;
    if (length == 0) {
        pages->first[sequence] = 0;
    }
}

void dk_pages_fail(dk_pages* pages, int32_t sequence) {
    if (pages->whole) {
        dk_pages_cut(pages, sequence, pages->lengths[sequence] - 1);
    }
}

void dk_pages_end(dk_pages* pages, int32_t sequence) {
    int64_t* row = row_of(pages, sequence);
    for (int32_t i = 0; i < pages->blocks; ++i) {
        release(pages, &row[i]);
    }
    pages->lengths[sequence] = -1;
    pages->first[sequence] = 0;
}
