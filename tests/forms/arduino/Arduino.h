/* What sketches of the tests need of Arduino's core: a console. */
#ifndef ARDUINO_H
#define ARDUINO_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { DEC = 10, HEX = 16 };

struct Console {
    void begin(unsigned long) {}
    operator bool() const {
        return true;
    }
    void print(const char* text) {
        fputs(text, stdout);
    }
    void print(int number) {
        printf("%d", number);
    }
    void print(long number) {
        printf("%ld", number);
    }
    void print(unsigned char number, int) {
        printf("%x", number);
    }
    void print(double number, int digits) {
        printf("%.*f", digits, number);
    }
    void println() {
        putchar('\n');
    }
    void println(const char* text) {
        puts(text);
    }
    void write(const uint8_t* bytes, size_t count) {
        printf("%.*s", (int)count, (const char*)bytes);
    }
};

extern Console Serial;

inline unsigned long millis() {
    return 0;
}

void setup();
void loop();

#endif
