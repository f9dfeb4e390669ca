/* What is saved of a sequence: its tokens, and what the model remembers of them.

       8 bytes   "dksaved1"
       int32     tokens; those that the model has read; the first block whose page is held; 0
       int64     bytes of the note
       32 bytes  the build
       int32     each token
       ...       the note
       ...       of each block that is held: a page of each state
       uint64    a checksum of all that is in front of it */
#include "language.h"

#include <string.h>

#define MAGIC "dksaved1"

enum { COUNTS = 8, NOTE = 24, BUILD = 32, HEAD = BUILD + DK_BUILD_BYTES, CHECKSUM = 8 };

/* FNV-1a, which tells any change of a single byte. (Source: Fowler et al., "The FNV Non-Cryptographic Hash
   Algorithm".) */
uint64_t dk_saved_sum(uint64_t sum, const void* bytes, size_t count) {
    const unsigned char* each = bytes;
    for (size_t i = 0; i < count; ++i) {
        sum = (sum ^ each[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static int64_t blocks_of(const dk_pages* pages, int64_t tokens) {
    return (tokens + pages->size - 1) / pages->size;
}

static uint64_t bytes_of(const dk_caches* caches, int64_t tokens, uint64_t note_bytes, int64_t blocks) {
    uint64_t page = 0;
    for (int32_t i = 0; i < caches->count; ++i) {
        page += (uint64_t)caches->page_bytes[i];
    }
    return HEAD + 4 * (uint64_t)tokens + note_bytes + (uint64_t)blocks * page + CHECKSUM;
}

/* Where a page of a state is, for the states in front of it having `before` bytes. */
static unsigned char* page_of(const dk_caches* caches, size_t before, int32_t state, int64_t page) {
    return caches->states + before + (size_t)page * (size_t)caches->page_bytes[state];
}

static size_t state_bytes(const dk_pages* pages, const dk_caches* caches, int32_t state) {
    size_t bytes = (size_t)pages->count * (size_t)caches->page_bytes[state];
    return (bytes + DK_ALIGNMENT - 1) / DK_ALIGNMENT * DK_ALIGNMENT;
}

size_t
dk_saved_bytes(const dk_pages* pages, int32_t sequence, int32_t count, const dk_caches* caches, size_t note_bytes) {
    const int64_t blocks = blocks_of(pages, pages->lengths[sequence]) - pages->first[sequence];
    return (size_t)bytes_of(caches, count, note_bytes, blocks);
}

size_t dk_save_head(
    const dk_pages* pages, int32_t sequence, const int32_t* tokens, int32_t count, const dk_caches* caches,
    const void* note, size_t note_bytes, void* saved
) {
    const int32_t counts[4] = {count, pages->lengths[sequence], pages->first[sequence], 0};
    const int64_t noted = (int64_t)note_bytes;
    unsigned char *base = saved, *place = base + HEAD;
    memcpy(base, MAGIC, COUNTS);
    memcpy(base + COUNTS, counts, sizeof counts);
    memcpy(base + NOTE, &noted, sizeof noted);
    memcpy(base + BUILD, caches->build, DK_BUILD_BYTES);
    memcpy(place, tokens, 4 * (size_t)count);
    place += 4 * (size_t)count;
    if (note_bytes > 0) {
        memcpy(place, note, note_bytes);
        place += note_bytes;
    }
    return (size_t)(place - base);
}

void dk_save(
    const dk_pages* pages, int32_t sequence, const int32_t* tokens, int32_t count, const dk_caches* caches,
    const void* note, size_t note_bytes, void* saved
) {
    const int64_t* row = pages->table + (size_t)sequence * (size_t)pages->blocks;
    const int64_t end = blocks_of(pages, pages->lengths[sequence]);
    unsigned char *base = saved, *place = base;
    uint64_t sum;
    place += dk_save_head(pages, sequence, tokens, count, caches, note, note_bytes, saved);
    for (int64_t block = pages->first[sequence]; block < end; ++block) {
        size_t before = 0;
        for (int32_t i = 0; i < caches->count; before += state_bytes(pages, caches, i++)) {
            memcpy(place, page_of(caches, before, i, row[block]), (size_t)caches->page_bytes[i]);
            place += caches->page_bytes[i];
        }
    }
    sum = dk_saved_sum(DK_SAVED_SUM, base, (size_t)(place - base));
    memcpy(place, &sum, sizeof sum);
}

dk_status dk_saved_open(
    dk_saved* own, const dk_pages* pages, const dk_caches* caches, int32_t words, const void* saved, size_t bytes
) {
    const unsigned char* base = saved;
    uint64_t sum;
    if (bytes < HEAD + CHECKSUM || memcmp(base, MAGIC, COUNTS) != 0) {
        return DK_ERROR_DATA;
    }
    memcpy(&sum, base + bytes - CHECKSUM, sizeof sum);
    if (sum != dk_saved_sum(DK_SAVED_SUM, base, bytes - CHECKSUM)) {
        return DK_ERROR_DATA;
    }
    return dk_saved_look(own, pages, caches, words, saved, bytes - CHECKSUM, bytes);
}

dk_status dk_saved_look(
    dk_saved* own, const dk_pages* pages, const dk_caches* caches, int32_t words, const void* saved, size_t there,
    size_t bytes
) {
    const unsigned char* base = saved;
    int32_t counts[4];
    int64_t noted;
    if (there < HEAD || memcmp(base, MAGIC, COUNTS) != 0) {
        return DK_ERROR_DATA;
    }
    if (memcmp(base + BUILD, caches->build, DK_BUILD_BYTES) != 0) {
        return DK_ERROR_USAGE;
    }
    memcpy(counts, base + COUNTS, sizeof counts);
    memcpy(&noted, base + NOTE, sizeof noted);
    if (counts[0] < 1 || counts[1] < 0 || counts[1] > counts[0] || counts[2] < 0 ||
        counts[2] > blocks_of(pages, counts[1]) || noted < 0 || (uint64_t)noted > bytes ||
        bytes_of(caches, counts[0], (uint64_t)noted, blocks_of(pages, counts[1]) - counts[2]) != bytes ||
        HEAD + 4 * (uint64_t)counts[0] + (uint64_t)noted > there) {
        return DK_ERROR_DATA;
    }
    own->count = counts[0];
    own->read = counts[1];
    own->first = counts[2];
    own->tokens = base + HEAD;
    own->note = own->tokens + 4 * (size_t)own->count;
    own->note_bytes = (size_t)noted;
    own->pages = own->note + noted;
    for (int32_t i = 0; i < own->count; ++i) {
        int32_t token;
        memcpy(&token, own->tokens + 4 * (size_t)i, sizeof token);
        if (token < 0 || token >= words) {
            return DK_ERROR_DATA;
        }
    }
    return DK_OK;
}

bool dk_saved_hold(const dk_saved* own, dk_pages* pages, int32_t sequence) {
    pages->first[sequence] = own->first;
    if (!dk_pages_reserve(pages, sequence, own->read)) {
        pages->first[sequence] = 0;
        return false;
    }
    return true;
}

bool dk_restore(const dk_saved* own, dk_pages* pages, int32_t sequence, const dk_caches* caches) {
    const int64_t* row = pages->table + (size_t)sequence * (size_t)pages->blocks;
    const unsigned char* place = own->pages;
    if (!dk_saved_hold(own, pages, sequence)) {
        return false;
    }
    for (int64_t block = own->first; block < blocks_of(pages, own->read); ++block) {
        size_t before = 0;
        for (int32_t i = 0; i < caches->count; before += state_bytes(pages, caches, i++)) {
            memcpy(page_of(caches, before, i, row[block]), place, (size_t)caches->page_bytes[i]);
            place += caches->page_bytes[i];
        }
    }
    dk_pages_append(pages, sequence, own->read);
    return true;
}
