// Prints the words that the app in main.c hears.
#include <Arduino.h>
#include <keywords.h>

extern "C" int listen_to_all(void);

extern "C" void say(const char* line) {
    Serial.println(line);
}

void setup() {
    Serial.begin(115200);
    (void)listen_to_all();
}

void loop() {}
