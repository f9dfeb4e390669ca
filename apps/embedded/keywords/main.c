/* Listens to a microphone, and says which words it hears, and when.

   A run takes the newest NEW samples; what the model needs of earlier ones is in the states. A word counts when the
   model has been sure of it for SURE runs. */
#include <stdio.h>

#if defined(ARDUINO) || defined(__ZEPHYR__)
#include <keywords.h>
#else
#include "model.h"
#include "weights.h"
#endif
#include "recording.h"

#define SURE 3
#define LEAST 0.9f
#define LATE (RATE / 2) /* samples: how long after the end of a word it may be heard */

static DK_ALIGNED unsigned char arena[KEYWORDS_ARENA_BYTES + 1];
static DK_ALIGNED unsigned char states[KEYWORDS_STATE_BYTES];
static keywords_model model;
static float heard[NEW];
static float scores[CLASSES];

#if defined(ARDUINO)
void say(const char* line); /* of the sketch, which calls the app */
int listen_to_all(void);
#define APP listen_to_all
#else
#define APP main
static void say(const char* line) {
    puts(line);
}
#endif

static int failed(void) {
    say(keywords_last_error(&model));
    return 1;
}

/* The class that the model is sure of after the newest samples; 0 for none, -1 for an error. */
static int listen(const int16_t* newest) {
    dk_tensor inputs[] = {{heard, sizeof heard, DK_FLOAT32, 3, {1, 1, NEW}}};
    dk_tensor outputs[] = {{scores, sizeof scores, DK_FLOAT32, 2, {0}}};
    int best = 0;
    int each;
    for (each = 0; each < NEW; ++each) {
        heard[each] = (float)newest[each] / 32768.0f;
    }
    if (keywords_run(&model, inputs, outputs) != DK_OK) {
        return -1;
    }
    if (outputs[0].shape[0] == 0) {
        return 0; /* the first window is not full yet */
    }
    for (each = 1; each < CLASSES; ++each) {
        best = scores[each] > LEAST ? each : best;
    }
    return best;
}

/* Whether a word was said shortly before this sample. */
static int is_there(int class, long at) {
    int each;
    for (each = 0; each < WORDS; ++each) {
        if (words[each].class == class && at >= words[each].end - LATE && at < words[each].end + LATE) {
            return 1;
        }
    }
    return 0;
}

int APP(void) {
    keywords_dims dims = {0};
    char line[96];
    int said = 0;
    int right = 0;
    int wrong = 0;
    int last = 0;
    int times = 0;
    long at;
    int each;
    if (keywords_init(&model, &keywords_weights, KEYWORDS_WEIGHTS_BYTES, arena, sizeof arena) != DK_OK ||
        keywords_reset_state(&dims, states, sizeof states) != DK_OK ||
        keywords_set_state(&model, states, sizeof states) != DK_OK) {
        return failed();
    }
    for (at = 0; at < SAMPLES; at += NEW) {
        const int found = listen(samples + at);
        if (found < 0) {
            return failed();
        }
        times = found == last ? times + 1 : 1;
        last = found;
        if (found != 0 && times == SURE) {
            const long hundredths = (at + NEW) * 100 / RATE; /* small C libraries print no floats */
            const int percent = (int)(100.0f * scores[found] + 0.5f);
            (void)snprintf(
                line, sizeof line, "%3ld.%02ld s  %s  %3d %%", hundredths / 100, hundredths % 100, names[found], percent
            );
            say(line);
            *(is_there(found, at) ? &right : &wrong) += 1;
        }
    }
    for (each = 0; each < WORDS; ++each) {
        said += words[each].class != 0;
    }
    (void)snprintf(
        line, sizeof line, "%d of %d words, %d other sounds taken for words; RAM for tensors: %d bytes", right, said,
        wrong, (int)(KEYWORDS_ARENA_BYTES + KEYWORDS_STATE_BYTES + sizeof heard + sizeof scores)
    );
    say(line);
    return right == said && wrong == 0 ? 0 : 1;
}
