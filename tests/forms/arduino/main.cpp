/* Starts a sketch as Arduino's core does it. */
#include <Arduino.h>

Console Serial;

int main() {
    setup();
    loop();
    return 0;
}
