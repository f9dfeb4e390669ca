/* The reader of what packing.py and range_coder.py write; they say what it means. Both sides compute the same numbers,
   modulo 2^32. */
#include "unpack.h"

#include <stdlib.h>
#include <string.h>

#define ORDERS 5
#define HISTORY 32
#define SLOT_BITS 17
#define TRUST 7u
#define NAME_BITS 15
#define CHANCE_BITS 15
#define STEADY 30
#define HEADER 5
#define POWER 0x2c1b3c6du
#define SPREAD 0x9e3779b1u
#define FOLD 0x85ebca6bu
#define NAMED 0x80000000u

enum { COUNTS = 0x200000, OPERATIONS = 0x200001, STARTS = 0x200002, LENGTHS = 0x210000, OPERANDS = 0x100000 };

static const uint32_t orders[ORDERS] = {20, 11, 6, 3, 1};

typedef struct unpacker {
    const unsigned char* data;
    int64_t bytes, read;
    uint32_t range, code;
    uint16_t ones[1 << CHANCE_BITS];
    uint8_t counts[1 << CHANCE_BITS];
    uint32_t symbols[1 << SLOT_BITS], owners[1 << SLOT_BITS];
    uint16_t shapes[1 << 16]; /* by operation */
    uint32_t ids[1 << NAME_BITS];
    uint32_t powers[ORDERS], hashes[ORDERS];
    uint32_t history[HISTORY], at;
    uint32_t next;       /* the next new id */
    uint32_t* names;     /* by id */
    uint32_t name_count; /* ids with names are smaller than this */
} unpacker;

static uint32_t mixed(uint32_t one, uint32_t other) {
    const uint32_t both = (one * POWER ^ other) * SPREAD;
    return both ^ both >> 15;
}

static void read_byte(unpacker* self) {
    const uint32_t byte = self->read < self->bytes ? self->data[self->read++] : 0;
    self->code = self->code << 8 | byte;
}

static uint32_t read_bit(unpacker* self, uint32_t place, uint32_t node) {
    const uint32_t index = (place * FOLD + node) * SPREAD >> (32 - CHANCE_BITS);
    const uint32_t ones = self->ones[index], slowness = 2u * self->counts[index] + 3;
    const uint32_t bound = (self->range >> 12) * (ones >> 4);
    const uint32_t bit = self->code < bound;
    if (bit) {
        self->range = bound;
        self->ones[index] = (uint16_t)(ones + (0x10000 - ones) * 2 / slowness);
    } else {
        self->code -= bound;
        self->range -= bound;
        self->ones[index] = (uint16_t)(ones - ones * 2 / slowness);
    }
    self->counts[index] = (uint8_t)(self->counts[index] < STEADY ? self->counts[index] + 1 : STEADY);
    while (self->range < 1u << 24) {
        self->range <<= 8;
        read_byte(self);
    }
    return bit;
}

static uint32_t read_number(unpacker* self, uint32_t place) {
    uint32_t size = 0, number = 1;
    while (size < 32 && read_bit(self, place, 0x200 | size)) {
        ++size;
    }
    if (size == 0) {
        return 0;
    }
    for (uint32_t rest = size - 1; rest-- > 0;) {
        number = number << 1 | read_bit(self, place, size << 10 | (number < 0x80 ? number : 0x80 | rest));
    }
    return number;
}

/* The id with a symbol. Returns 0 if there is none. */
static int32_t find_id(const unpacker* self, uint32_t symbol, uint32_t* id) {
    *id = self->next - symbol;
    if ((symbol & NAMED) == 0) {
        return 1;
    }
    *id = self->ids[symbol & ((1u << NAME_BITS) - 1)];
    return *id < self->name_count && self->names[*id] == symbol;
}

static uint32_t symbol_of(const unpacker* self, uint32_t id) {
    const uint32_t name = id < self->name_count ? self->names[id] : 0;
    return name != 0 ? name : (self->next - id) & ~NAMED;
}

static void learn(unpacker* self, uint32_t key, uint32_t symbol) {
    const uint32_t slot = key >> (32 - SLOT_BITS), owner = self->owners[slot];
    uint32_t trust = ((owner ^ key) & ~TRUST) == 0 ? owner & TRUST : 0;
    if (trust != 0 && self->symbols[slot] == symbol) {
        trust = trust < 4 ? trust + 1 : 4;
    } else if (trust > 2) {
        trust = 2;
    } else {
        self->symbols[slot] = symbol;
        trust = 1;
    }
    self->owners[slot] = (key & ~TRUST) | trust;
}

static void remember(unpacker* self, uint32_t symbol) {
    for (uint32_t i = 0; i < ORDERS; ++i) {
        const uint32_t gone = self->history[(self->at - orders[i]) % HISTORY] * self->powers[i];
        self->hashes[i] = self->hashes[i] * POWER + symbol - gone;
    }
    self->history[self->at++ % HISTORY] = symbol;
}

/* A word that no context knows. */
static uint32_t read_new_word(unpacker* self, uint32_t place, uint32_t is_id) {
    const uint32_t number = read_number(self, place);
    if (place == OPERATIONS) {
        const uint32_t operation = number & 0xffff;
        return operation | read_number(self, LENGTHS | operation) << 16;
    }
    return is_id ? self->next - number : number;
}

static int32_t is_among(const uint32_t* words, uint32_t count, uint32_t word) {
    for (uint32_t i = 0; i < count; ++i) {
        if (words[i] == word) {
            return 1;
        }
    }
    return 0;
}

/* Read a word. Returns its symbol. */
static uint32_t read_word(unpacker* self, uint32_t place, uint32_t is_id, uint32_t* word) {
    uint32_t keys[ORDERS], tried[ORDERS], count = 0, known = 0, symbol;
    for (uint32_t i = 0; i < ORDERS; ++i) {
        keys[i] = mixed(mixed(self->hashes[i], place), i);
    }
    for (uint32_t i = 0; i < ORDERS && !known; ++i) {
        const uint32_t slot = keys[i] >> (32 - SLOT_BITS), trust = self->owners[slot] & TRUST;
        uint32_t found = self->symbols[slot];
        if (trust == 0 || ((self->owners[slot] ^ keys[i]) & ~TRUST) != 0 || (is_id && !find_id(self, found, &found)) ||
            is_among(tried, count, found)) {
            continue;
        }
        known = read_bit(self, place, i << 5 | (trust - 1) << 3 | count);
        tried[count++] = found;
        *word = found;
    }
    if (!known) {
        *word = read_new_word(self, place, is_id);
    }
    symbol = is_id ? symbol_of(self, *word) : *word;
    self->next += is_id && *word == self->next;
    for (uint32_t i = 0; i < ORDERS; ++i) {
        learn(self, keys[i], symbol);
    }
    remember(self, symbol);
    return symbol;
}

/* Read the `count` words of a module. */
static void read_module(unpacker* self, uint32_t* words, uint32_t count) {
    uint32_t at = 0, inside = 0, variables = 0;
    memset(self->names, 0, count * sizeof *self->names);
    memset(self->history, 0, sizeof self->history);
    memset(self->hashes, 0, sizeof self->hashes);
    self->name_count = count;
    self->next = 1;
    self->at = 0;
    for (; at < HEADER && at < count; ++at) {
        read_word(self, STARTS + at, 0, &words[at]);
    }
    while (at < count) {
        uint32_t name = read_word(self, OPERATIONS, 0, &words[at]);
        const uint32_t operation = words[at] & 0xffff, shape = self->shapes[operation], result = shape >> 8 & 3;
        uint32_t length = words[at] >> 16;
        length = length == 0 ? 1 : length;
        length = length < count - at ? length : count - at;
        for (uint32_t i = 1; i < length; ++i) {
            const uint32_t place = OPERANDS | operation << 4 | (i < 15 ? i : 15);
            const uint32_t symbol = read_word(self, place, shape >> (i < 8 ? i - 1 : 7) & 1, &words[at + i]);
            name = i == result ? name : mixed(name, symbol);
        }
        if (shape & 0x400) {
            inside = 1;
            variables = 0;
        }
        if (result > 0 && result < length && (!inside || (shape & 0x800))) {
            const uint32_t id = words[at + result];
            variables += inside;
            name = mixed(name, variables) | NAMED;
            if (id < count) {
                self->names[id] = name;
                self->ids[name & ((1u << NAME_BITS) - 1)] = id;
            }
        }
        at += length;
    }
}

static void start(unpacker* self, const void* packed, int64_t bytes) {
    uint32_t shapes, usual;
    self->data = (const unsigned char*)packed;
    self->bytes = bytes;
    self->range = 0xffffffffu;
    for (uint32_t i = 0; i < 4; ++i) {
        read_byte(self);
    }
    for (uint32_t i = 0; i < 1u << CHANCE_BITS; ++i) {
        self->ones[i] = 0x8000;
    }
    for (uint32_t i = 0; i < ORDERS; ++i) {
        self->powers[i] = 1;
        for (uint32_t j = 0; j < orders[i]; ++j) {
            self->powers[i] *= POWER;
        }
    }
    shapes = read_number(self, COUNTS);
    usual = read_number(self, COUNTS);
    for (uint32_t i = 0; i < 1u << 16; ++i) {
        self->shapes[i] = (uint16_t)usual;
    }
    for (uint32_t i = 0; i < shapes && i < 1u << 16; ++i) {
        const uint32_t operation = read_number(self, COUNTS) & 0xffff;
        self->shapes[operation] = (uint16_t)read_number(self, COUNTS);
    }
}

uint32_t* dk_unpack(const void* packed, int64_t packed_bytes, int64_t code_bytes) {
    const size_t words = code_bytes > 0 ? (size_t)code_bytes / 4 : 0;
    uint32_t* code = (uint32_t*)calloc(words + 1, sizeof *code);
    unpacker* self = (unpacker*)calloc(1, sizeof *self);
    size_t at = 0;
    if (self != NULL) {
        self->names = (uint32_t*)malloc((words + 1) * sizeof *self->names);
    }
    if (code == NULL || self == NULL || self->names == NULL) {
        free(code);
        code = NULL;
    } else {
        start(self, packed, packed_bytes);
    }
    while (code != NULL && at < words) {
        const uint32_t count = read_number(self, COUNTS);
        if (count == 0 || count > words - at) {
            break;
        }
        read_module(self, code + at, count);
        at += count;
    }
    if (self != NULL) {
        free(self->names);
    }
    free(self);
    return code;
}
