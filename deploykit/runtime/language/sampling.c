/* The choice of the next token. The largest scores are taken from a heap one by one, so that only those are sorted that
   may be chosen. */
#include "language.h"

#include <float.h>
#include <string.h>

typedef struct candidate {
    float score;
    int32_t token;
} candidate;

dk_sampling dk_sampling_greedy(void) {
    dk_sampling greedy = {0};
    greedy.typical_p = greedy.top_p = greedy.repetition_penalty = 1.0f;
    greedy.penalty_last = 64;
    return greedy;
}

static bool within(float value, float low, float high) {
    return value >= low && value <= high;
}

const char* dk_sampling_fault(const dk_sampling* s) {
    const float huge = 1e30f;
    if (!within(s->temperature, 0, huge)) {
        return "temperature";
    }
    if (s->top_k < 0) {
        return "top_k";
    }
    if (!within(s->typical_p, 0, 1)) {
        return "typical_p";
    }
    if (!within(s->top_p, 0, 1)) {
        return "top_p";
    }
    if (!within(s->min_p, 0, 1)) {
        return "min_p";
    }
    if (!within(s->repetition_penalty, 1e-30f, huge)) {
        return "repetition_penalty";
    }
    if (!within(s->presence_penalty, -huge, huge)) {
        return "presence_penalty";
    }
    if (!within(s->frequency_penalty, -huge, huge)) {
        return "frequency_penalty";
    }
    if (s->penalty_last < -1) {
        return "penalty_last";
    }
    for (int32_t i = 0; i < s->bias_count; ++i) {
        if (s->biases[i].value != s->biases[i].value || s->biases[i].value > huge) {
            return "logit_bias";
        }
    }
    return NULL;
}

size_t dk_sample_bytes(int32_t words) {
    size_t count = (size_t)words;
    return sizeof(candidate) * count + (4 * count + 7) / 8 * 8;
}

/* The greatest whole number up to a small number. */
static double below(double x) {
    double whole = (double)(int64_t)x;
    return whole > x ? whole - 1.0 : whole;
}

static double magnitude(double x) {
    return x < 0.0 ? -x : x;
}

/* exp(x) for x <= 0, by a polynomial: the same on every machine. */
static double power(double x) {
    if (!(x > -700.0)) {
        return 0.0;
    }
    /* 1 / i! */
    static const double inverse[] = {
        1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
        1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800
    };
    double whole = below(x * 1.4426950408889634 + 0.5), r = x - whole * 0.6931471805599453, sum = inverse[13];
    for (int i = 12; i >= 0; --i) {
        sum = sum * r + inverse[i];
    }
    uint64_t bits = (uint64_t)(1023 + (int64_t)whole) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return sum * scale;
}

/* The natural logarithm of a number that is at least 1: the same on every machine. */
static double logarithm(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    double exponent = (double)((int64_t)(bits >> 52) - 1023), part, sum = 0.0;
    bits = (bits & (UINT64_MAX >> 12)) | ((uint64_t)1023 << 52);
    memcpy(&part, &bits, sizeof part);
    double s = (part - 1.0) / (part + 1.0);
    for (int i = 27; i > 0; i -= 2) {
        sum = sum * s * s + 1.0 / i;
    }
    return exponent * 0.6931471805599453 + 2.0 * s * sum;
}

double dk_log_sum(const float* scores, int32_t words) {
    float top = scores[0];
    for (int32_t i = 0; i < words; ++i) {
        top = scores[i] > top ? scores[i] : top;
    }
    double sum = 0.0;
    for (int32_t i = 0; i < words; ++i) {
        sum += power((double)scores[i] - top);
    }
    return top + logarithm(sum);
}

/* A number in [0, 1). (Source: Steele et al., "Fast Splittable Pseudorandom Number Generators", 2014.) */
static double unit(uint64_t* state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static bool before(candidate a, candidate b) {
    return a.score > b.score || (a.score == b.score && a.token < b.token);
}

static void sink(candidate* heap, int32_t count, int32_t i) {
    candidate own = heap[i];
    for (int32_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && before(heap[child + 1], heap[child])) {
            ++child;
        }
        if (!before(heap[child], own)) {
            break;
        }
        heap[i] = heap[child];
    }
    heap[i] = own;
}

static void build(candidate* heap, int32_t count) {
    for (int32_t i = count / 2 - 1; i >= 0; --i) {
        sink(heap, count, i);
    }
}

/* Move the first candidate of a heap of `count` behind it, which then has one less. */
static void pop(candidate* heap, int32_t count) {
    candidate first = heap[0];
    heap[0] = heap[count - 1];
    heap[count - 1] = first;
    sink(heap, count - 1, 0);
}

/* The greatest candidates come first, in order: at most `most`, and no more than have the probability `p` in all.
   Returns how many. */
static int32_t first_of(candidate* found, int32_t count, int32_t most, double p) {
    double total = 0.0, sum = 0.0;
    build(found, count);
    float top = found[0].score;
    for (int32_t i = 0; p < 1.0 && i < count; ++i) {
        total += power((double)found[i].score - top);
    }
    int32_t kept = 0;
    while (kept < count && kept < most && (p >= 1.0 || kept == 0 || sum < p * total)) {
        sum += power((double)found[0].score - top);
        pop(found, count - kept);
        ++kept;
    }
    /* They are at the end, the last one first. */
    for (int32_t i = 0; i < kept; ++i) {
        int32_t j = count - 1 - i;
        if (j <= i) {
            break;
        }
        candidate one = found[i];
        found[i] = found[j];
        found[j] = one;
    }
    return kept;
}

/* Keep those whose information differs least from the average. (Source: Meister et al., "Locally Typical Sampling",
   2023.) The scores are replaced meanwhile, and restored from `scores`. */
static int32_t typical(candidate* found, int32_t count, double p, float* scores) {
    float top = found[0].score;
    double total = 0.0, average = 0.0, sum = 0.0;
    for (int32_t i = 0; i < count; ++i) {
        top = found[i].score > top ? found[i].score : top;
    }
    for (int32_t i = 0; i < count; ++i) {
        total += power((double)found[i].score - top);
    }
    double base = top + logarithm(total);
    for (int32_t i = 0; i < count; ++i) {
        double information = base - found[i].score;
        if (found[i].score >= -FLT_MAX) {
            average += power(-information) * information;
        }
    }
    for (int32_t i = 0; i < count; ++i) {
        scores[found[i].token] = found[i].score;
        found[i].score = (float)-magnitude(base - found[i].score - average);
    }
    build(found, count);
    int32_t kept = 0;
    while (kept < count && (kept == 0 || sum < p)) {
        sum += power((double)scores[found[0].token] - base);
        pop(found, count - kept);
        ++kept;
    }
    for (int32_t i = 0; i < kept; ++i) {
        found[i] = found[count - kept + i];
        found[i].score = scores[found[i].token];
    }
    return kept;
}

static void penalised(
    const dk_sampling* s, candidate* found, int32_t words, const int32_t* earlier, int32_t count, int32_t* times
) {
    if (s->repetition_penalty == 1.0f && s->presence_penalty == 0.0f && s->frequency_penalty == 0.0f) {
        return;
    }
    int32_t start = s->penalty_last >= 0 && count > s->penalty_last ? count - s->penalty_last : 0;
    memset(times, 0, 4 * (size_t)words);
    for (int32_t i = start; i < count; ++i) {
        if (earlier[i] >= 0 && earlier[i] < words) {
            ++times[earlier[i]];
        }
    }
    for (int32_t i = 0; i < words; ++i) {
        if (times[i] == 0) {
            continue;
        }
        float score = found[i].score;
        score = score > 0.0f ? score / s->repetition_penalty : score * s->repetition_penalty;
        found[i].score = score - s->presence_penalty - s->frequency_penalty * (float)times[i];
    }
}

static int32_t greatest(const candidate* found, int32_t count) {
    int32_t best = 0;
    for (int32_t i = 1; i < count; ++i) {
        if (before(found[i], found[best])) {
            best = i;
        }
    }
    return best;
}

/* What a draw is by: the power of each candidate's score; with `without`, less the probabilities that these tokens have
   there, as far as they have more. */
typedef struct urn {
    const candidate* found;
    int32_t count;
    float temperature;
    double top, total;
    const float* without;
} urn;

static double part_of(const urn* own, int32_t i) {
    double part = power((own->found[i].score - own->top) / own->temperature);
    if (own->without != NULL) {
        part -= own->total * own->without[own->found[i].token];
    }
    return part > 0.0 ? part : 0.0;
}

static double sum_of(const urn* own) {
    double sum = 0.0;
    for (int32_t i = 0; i < own->count; ++i) {
        sum += part_of(own, i);
    }
    return sum;
}

static urn urn_of(const candidate* found, int32_t count, float temperature) {
    urn own = {found, count, temperature, found[greatest(found, count)].score, 0.0, NULL};
    own.total = sum_of(&own);
    return own;
}

static int32_t drawn(const urn* own, uint64_t* random) {
    double target = unit(random) * (own->without == NULL ? own->total : sum_of(own)), seen = 0.0;
    int32_t last = 0;
    for (int32_t i = 0; i < own->count; ++i) {
        double part = part_of(own, i);
        seen += part;
        if (part > 0.0) {
            last = i;
        }
        if (part > 0.0 && seen > target) {
            return i;
        }
    }
    return last;
}

/* The tokens that may be chosen come first in the workspace. Returns how many; one, if the temperature is 0. */
static dk_status possible(
    const dk_sampling* s, const float* scores, int32_t words, const int32_t* earlier, int32_t count, void* workspace,
    int32_t* left
) {
    candidate* found = workspace;
    int32_t* times = (int32_t*)(void*)(found + words);
    if (words < 1 || dk_sampling_fault(s) != NULL) {
        return DK_ERROR_USAGE;
    }
    for (int32_t i = 0; i < words; ++i) {
        if (!(scores[i] <= FLT_MAX)) {
            return DK_ERROR_DATA;
        }
        found[i].score = scores[i];
        found[i].token = i;
    }
    for (int32_t i = 0; i < s->bias_count; ++i) {
        if (s->biases[i].token >= 0 && s->biases[i].token < words) {
            found[s->biases[i].token].score += s->biases[i].value;
        }
    }
    penalised(s, found, words, earlier, count, times);
    int32_t best = greatest(found, words), kept = words;
    if (found[best].score < -FLT_MAX) {
        return DK_ERROR_DATA;
    }
    if (s->temperature <= 0.0f) {
        found[0] = found[best];
        *left = 1;
        return DK_OK;
    }
    if (s->top_k > 0 && s->top_k < kept) {
        kept = first_of(found, kept, s->top_k, 1.0);
    }
    if (s->typical_p < 1.0f) {
        kept = typical(found, kept, s->typical_p, (float*)(void*)times);
    }
    if (s->top_p < 1.0f) {
        kept = first_of(found, kept, kept, s->top_p);
    }
    if (s->min_p > 0.0f) {
        double top = found[greatest(found, kept)].score;
        int32_t next = 0;
        for (int32_t i = 0; i < kept; ++i) {
            if (power(found[i].score - top) >= s->min_p) {
                found[next++] = found[i];
            }
        }
        kept = next;
    }
    *left = kept;
    return DK_OK;
}

static void choose(const float* scores, int32_t words, int32_t token, dk_choice* choice) {
    choice->token = token;
    choice->logprob = (float)((double)scores[token] - dk_log_sum(scores, words));
}

dk_status dk_sample(
    const dk_sampling* s, const float* scores, int32_t words, const int32_t* earlier, int32_t count, uint64_t* random,
    void* workspace, dk_choice* choice
) {
    const candidate* found = workspace;
    int32_t left = 0, place = 0;
    dk_status status = possible(s, scores, words, earlier, count, workspace, &left);
    if (status != DK_OK) {
        return status;
    }
    if (s->temperature > 0.0f) {
        const urn own = urn_of(found, left, s->temperature);
        place = drawn(&own, random);
    }
    choose(scores, words, found[place].token, choice);
    return DK_OK;
}

dk_status dk_probabilities(
    const dk_sampling* s, const float* scores, int32_t words, const int32_t* earlier, int32_t count, void* workspace,
    float* probabilities
) {
    const candidate* found = workspace;
    int32_t left = 0;
    dk_status status = possible(s, scores, words, earlier, count, workspace, &left);
    if (status != DK_OK) {
        return status;
    }
    const urn own = urn_of(found, left, s->temperature > 0.0f ? s->temperature : 1.0f);
    memset(probabilities, 0, 4 * (size_t)words);
    for (int32_t i = 0; i < left; ++i) {
        probabilities[found[i].token] = (float)(part_of(&own, i) / own.total);
    }
    return DK_OK;
}

dk_status dk_confirm(
    const dk_sampling* s, const float* scores, int32_t words, const int32_t* earlier, int32_t count, int32_t guess,
    const float* guessed, uint64_t* random, void* workspace, dk_choice* choice
) {
    const candidate* found = workspace;
    int32_t left = 0;
    dk_status status = possible(s, scores, words, earlier, count, workspace, &left);
    if (status != DK_OK || guess < 0 || guess >= words) {
        return status != DK_OK ? status : DK_ERROR_USAGE;
    }
    urn own = urn_of(found, left, s->temperature > 0.0f ? s->temperature : 1.0f);
    double own_chance = 0.0;
    for (int32_t i = 0; i < left; ++i) {
        if (found[i].token == guess) {
            own_chance = part_of(&own, i) / own.total;
        }
    }
    if (unit(random) * guessed[guess] < own_chance) {
        choose(scores, words, guess, choice);
        return DK_OK;
    }
    own.without = guessed;
    if (sum_of(&own) <= 0.0) {
        own.without = NULL; /* the two differ by rounding alone */
    }
    choose(scores, words, found[drawn(&own, random)].token, choice);
    return DK_OK;
}
