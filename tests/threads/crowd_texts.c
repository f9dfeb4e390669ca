/* Sessions of texts in many threads, for tests under ThreadSanitizer: `crowd own ROUNDS` has a session for each thread,
   `crowd one ROUNDS` one for all. Prints how many calls went on, and how many found the session in use. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_texts.h"
#include "tokenizer.h"
#include "weights.h"

#define JOIN(a, b) a##b
#define NAMED(prefix, name) JOIN(prefix, name)
#define MODEL(name) NAMED(DK_PREFIX, name)
#define THREADS 16
#define TEXTS 3

typedef struct worker {
    MODEL(_session) * session;
    float* vectors;
    long good;
    long busy;
} worker;

static const char* const texts[TEXTS] = {"the cat sat on the mat.", "", "who sat on a cat?"};
static const size_t bytes = TEXTS * DK_WIDTH * sizeof(float);
static MODEL(_session) shared;
static float* expected;
static int rounds;

static void require(int right, const char* what) {
    if (!right) {
        fprintf(stderr, "crowd: %s\n", what);
        exit(2);
    }
}

static void* take(size_t size) {
    void* memory = NULL;
    require(posix_memalign(&memory, DK_ALIGNMENT, size + DK_ALIGNMENT) == 0, "no memory");
    memset(memory, 0xff, size);
    return memory;
}

static void start(MODEL(_session) * session) {
    const dk_texts_room room = {100, TEXTS, 64};
    size_t size;
    require(
        MODEL(_open)(session, &DK_WEIGHTS, MODEL(_descriptor).weights_bytes, &DK_TABLES, sizeof DK_TABLES) == DK_OK,
        "open"
    );
    size = MODEL(_workspace_bytes)(session, &room);
    require(MODEL(_set_workspace)(session, &room, take(size), size) == DK_OK, "workspace");
}

static void* work(void* argument) {
    worker* own = argument;
    int round;
    if (own->session != &shared) {
        start(own->session);
    }
    for (round = 0; round < rounds; ++round) {
        const dk_status status = MODEL(_embed)(own->session, texts, NULL, TEXTS, own->vectors);
        require(status == DK_OK || (status == DK_ERROR_BUSY && own->session == &shared), "embed");
        require(status != DK_OK || memcmp(own->vectors, expected, bytes) == 0, "a vector differs");
        own->good += status == DK_OK;
        own->busy += status == DK_ERROR_BUSY;
    }
    return NULL;
}

int main(int count, char** words) {
    static worker workers[THREADS];
    pthread_t threads[THREADS];
    const int one = strcmp(words[1], "one") == 0;
    long good = 0, busy = 0;
    int index;
    (void)count;
    rounds = atoi(words[2]);
    start(&shared);
    expected = take(bytes);
    require(MODEL(_embed)(&shared, texts, NULL, TEXTS, expected) == DK_OK, "embed");
    for (index = 0; index < THREADS; ++index) {
        workers[index].session = one ? &shared : take(sizeof shared);
        workers[index].vectors = take(bytes);
        pthread_create(&threads[index], NULL, work, &workers[index]);
    }
    for (index = 0; index < THREADS; ++index) {
        pthread_join(threads[index], NULL);
        good += workers[index].good;
        busy += workers[index].busy;
    }
    printf("%ld right, %ld busy\n", good, busy);
    return 0;
}
