/* Texts that end an answer. */
#include "language.h"

#include <string.h>

/* The byte at a place of what is held followed by what is new. */
static char at(const dk_stops* stops, const char* text, size_t place) {
    return place < stops->held_bytes ? stops->held[place] : text[place - stops->held_bytes];
}

/* How many bytes of a stop are there from a place on, up to the end. */
static size_t matched(const dk_stops* stops, const char* text, size_t total, size_t place, int32_t stop) {
    size_t count = 0;
    while (count < stops->lengths[stop] && place + count < total &&
           at(stops, text, place + count) == stops->texts[stop][count]) {
        ++count;
    }
    return count;
}

bool dk_stops_add(dk_stops* stops, const char* text, size_t bytes, char* shown, size_t* shown_bytes) {
    size_t total = stops->held_bytes + bytes, end = total;
    bool found = false;
    for (size_t place = 0; place < end; ++place) {
        for (int32_t i = 0; i < stops->count && !found; ++i) {
            size_t count = matched(stops, text, total, place, i);
            found = count == stops->lengths[i];
            if (found || place + count == total) {
                end = place;
            }
        }
    }
    for (size_t i = 0; i < end; ++i) {
        shown[i] = at(stops, text, i);
    }
    *shown_bytes = end;
    if (found) {
        stops->held_bytes = 0;
        return true;
    }
    /* What is held moves to the front; where it is in `held` already, it moves down. */
    size_t kept = total - end;
    for (size_t i = 0; i < kept; ++i) {
        stops->held[i] = at(stops, text, end + i);
    }
    stops->held_bytes = kept;
    return false;
}
