/* From tokens back to text, as they come. What is written is always whole characters. */
#include "tables.h"

#include <string.h>

/* Output that counts what it has no room for. */
typedef struct output {
    char* at;
    size_t capacity;
    size_t count;
} output;

typedef struct spelling {
    const unsigned char* at;
    uint32_t count;
} spelling;

static void write_bytes(output* to, const unsigned char* bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        if (to->count < to->capacity) {
            to->at[to->count] = (char)bytes[i];
        }
        ++to->count;
    }
}

static void write_replacement(output* to) {
    static const unsigned char REPLACEMENT[] = {0xef, 0xbf, 0xbd};
    write_bytes(to, REPLACEMENT, 3);
}

/* What a token reads as. */
static spelling spelling_of(const dk_text* text, uint32_t id, bool first) {
    spelling found = {NULL, 0};
    uint32_t begin, end;
    uint32_t entry = id;
    uint32_t low = 0;
    uint32_t high = text->count[FIRST] / 2;
    bool other = first && (byte_at(text, FLAGS, id) & FLAG_FIRST);
    while (other && low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (word_at(text, FIRST, 2 * middle) < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (other) {
        entry = word_at(text, FIRST, 2 * low + 1);
    }
    begin = word_at(text, SPELLED, entry);
    end = word_at(text, SPELLED, entry + 1);
    if (begin < end && end <= text->count[TEXTS]) {
        found.at = (const unsigned char*)text->table[TEXTS] + begin;
        found.count = end - begin;
        if (first && !other && (config(text, OPTIONS) & OPTION_FIRST) && found.at[0] == ' ') {
            ++found.at;
            --found.count;
        }
    }
    return found;
}

/* Whether a token is left out. */
static bool skipped(const dk_text* text, int32_t id, bool skip_special) {
    uint32_t skip = FLAG_ABSENT | (skip_special ? FLAG_SPECIAL : 0);
    return id < 0 || (uint32_t)id >= text->count[FLAGS] || (byte_at(text, FLAGS, (uint32_t)id) & skip) != 0;
}

/* Whether a token is a single byte. */
static bool is_byte(const dk_text* text, uint32_t id) {
    return (byte_at(text, FLAGS, id) & FLAG_BYTE) != 0 && spelling_of(text, id, false).count > 0;
}

/* Append a byte to those that wait; write them once they are a character, or cannot become one. Returns false if that
   was the case. */
static bool feed(dk_text_stream* stream, unsigned char byte, output* to) {
    unsigned char least, most;
    uint32_t more;
    bool good = true;
    if (stream->waiting > 0) {
        more = dk_text_following(stream->bytes[0], &least, &most);
        if (byte >= (stream->waiting == 1 ? least : 0x80) && byte <= (stream->waiting == 1 ? most : 0xbf)) {
            stream->bytes[stream->waiting++] = byte;
            if (stream->waiting == more + 1) {
                write_bytes(to, stream->bytes, stream->waiting);
                stream->waiting = 0;
            }
            return true;
        }
        write_replacement(to);
        stream->waiting = 0;
        good = false;
    }
    if (byte < 0x80) {
        write_bytes(to, &byte, 1);
    } else if (dk_text_following(byte, &least, &most) > 0) {
        stream->bytes[stream->waiting++] = byte;
    } else {
        write_replacement(to);
        good = false;
    }
    return good;
}

/* Tokens of single bytes in a row, from `at` on. If all bytes of the row are UTF-8 they are characters, of which spaces
   in front of the text are left out; else each byte is written as U+FFFD, also a space. Returns where the row ends. */
static int32_t
write_row(const dk_text* text, dk_text_stream* stream, const dk_text_ids* ids, int32_t at, output* to, bool end) {
    dk_text_stream trial = *stream;
    output nothing = {NULL, 0, 0};
    uint32_t count = stream->waiting;
    int32_t stop = at;
    bool good = true;
    for (; stop < ids->count; ++stop) {
        if (skipped(text, ids->ids[stop], ids->skip_special)) {
            continue;
        }
        if (!is_byte(text, (uint32_t)ids->ids[stop])) {
            break;
        }
        good = feed(&trial, spelling_of(text, (uint32_t)ids->ids[stop], false).at[0], &nothing) && good;
        ++count;
    }
    good = good && (trial.waiting == 0 || (stop == ids->count && !end));
    if (!good) {
        stream->waiting = 0;
        stream->stripped = config(text, STRIPPED);
        for (; count > 0; --count) {
            write_replacement(to);
        }
        return stop;
    }
    for (; at < stop; ++at) {
        if (!skipped(text, ids->ids[at], ids->skip_special)) {
            const unsigned char byte = spelling_of(text, (uint32_t)ids->ids[at], false).at[0];
            if (byte == ' ' && stream->waiting == 0 && stream->stripped < config(text, STRIPPED)) {
                ++stream->stripped;
                continue;
            }
            stream->stripped = config(text, STRIPPED);
            feed(stream, byte, to);
        }
    }
    return stop;
}

static void flush(dk_text_stream* stream, bool lossy, output* to) {
    for (uint32_t i = 0; i < (lossy && stream->waiting > 0 ? 1 : stream->waiting); ++i) {
        write_replacement(to);
    }
    stream->waiting = 0;
}

static void write_text(const dk_text* text, dk_text_stream* stream, spelling s, output* to) {
    while (s.count > 0 && stream->stripped < config(text, STRIPPED) && s.at[0] == ' ') {
        ++s.at;
        --s.count;
        ++stream->stripped;
    }
    if (s.count > 0) {
        stream->stripped = config(text, STRIPPED);
    }
    if (!(config(text, OPTIONS) & OPTION_LOSSY)) {
        write_bytes(to, s.at, s.count);
        return;
    }
    for (uint32_t i = 0; i < s.count; ++i) {
        feed(stream, s.at[i], to);
    }
}

dk_status dk_text_decode(
    dk_text* text, dk_text_stream* stream, const dk_text_ids* ids, bool end, char* out, size_t capacity, size_t* bytes
) {
    dk_text_stream next = *stream;
    output to = {out, out == NULL ? 0 : capacity, 0};
    bool lossy = (config(text, OPTIONS) & OPTION_LOSSY) != 0;
    for (int32_t i = 0; i < ids->count;) {
        if (skipped(text, ids->ids[i], ids->skip_special)) {
            ++i;
            continue;
        }
        if (is_byte(text, (uint32_t)ids->ids[i])) {
            i = write_row(text, &next, ids, i, &to, end);
        } else {
            if (!lossy) {
                flush(&next, lossy, &to);
            }
            write_text(text, &next, spelling_of(text, (uint32_t)ids->ids[i++], !next.started), &to);
        }
        next.started = true;
    }
    if (end) {
        flush(&next, lossy, &to);
        memset(&next, 0, sizeof next);
    }
    *bytes = to.count;
    if (to.count > to.capacity) {
        static const char WORDS[] = "the text has more bytes than there is room for";
        memcpy(text->error, WORDS, sizeof WORDS);
        return DK_ERROR_CAPACITY;
    }
    *stream = next;
    return DK_OK;
}
