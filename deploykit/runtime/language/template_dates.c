/* The time that a template tells. */
#include "template_values.h"

static void put_digits(dk_machine* m, int64_t number, int32_t digits) {
    char text[8];
    for (int32_t i = digits; i > 0; --i, number /= 10) {
        text[i - 1] = (char)('0' + number % 10);
    }
    dk_template_put(m, text, (size_t)digits);
}

static void put_name(dk_machine* m, const char* names, int64_t which, bool whole) {
    size_t bytes = 0;
    for (; which > 0; --which) {
        names += dk_template_place(names, ' ') + 1;
    }
    while (names[bytes] != ' ' && names[bytes] != '\0') {
        ++bytes;
    }
    dk_template_put(m, names, whole ? bytes : 3);
}

/* The time as a text, in English. (Source of the calendar: Hinnant, "chrono-Compatible Low-Level Date Algorithms".) */
dk_value dk_template_tell(dk_machine* m, dk_value form) {
    static const char days[] = "Thursday Friday Saturday Sunday Monday Tuesday Wednesday";
    static const char months[] =
        "January February March April May June July August September October November December";
    const int64_t day = m->now / 86400, second = m->now % 86400;
    const int64_t shifted = day + 719468, era = shifted / 146097, of_era = shifted % 146097;
    const int64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t of_year = of_era - (365 * years + years / 4 - years / 100), fifth = (5 * of_year + 2) / 153;
    const int64_t date = of_year - (153 * fifth + 2) / 5 + 1, month = fifth < 10 ? fifth + 3 : fifth - 9;
    const int64_t year = years + era * 400 + (month <= 2), hour = second / 3600;
    const char* begin = dk_template_begin(m);
    if (m->now <= 0 || m->now > 253402300799 || form.kind != DK_V_STRING) {
        return dk_template_fail(m, DK_ERROR_USAGE, "the template tells the time, which was not given");
    }
    for (int32_t i = 0; i < form.count; ++i) {
        if (form.as.text[i] != '%' || i + 1 == form.count) {
            dk_template_put(m, form.as.text + i, 1);
            continue;
        }
        switch (form.as.text[++i]) {
        case 'Y':
            put_digits(m, year, 4);
            break;
        case 'y':
            put_digits(m, year % 100, 2);
            break;
        case 'm':
            put_digits(m, month, 2);
            break;
        case 'd':
            put_digits(m, date, 2);
            break;
        case 'H':
            put_digits(m, hour, 2);
            break;
        case 'I':
            put_digits(m, (hour + 11) % 12 + 1, 2);
            break;
        case 'p':
            dk_template_put(m, hour < 12 ? "AM" : "PM", 2);
            break;
        case 'M':
            put_digits(m, second / 60 % 60, 2);
            break;
        case 'S':
            put_digits(m, second % 60, 2);
            break;
        case 'A':
        case 'a':
            put_name(m, days, day % 7, form.as.text[i] == 'A');
            break;
        case 'B':
        case 'b':
            put_name(m, months, month - 1, form.as.text[i] == 'B');
            break;
        default:
            return dk_template_fail(m, DK_ERROR_USAGE, "the template tells the time in a form that is not known here");
        }
    }
    return dk_template_end(m, begin);
}
