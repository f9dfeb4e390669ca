/* The part of Android's <math.h> that host code needs. */
#ifndef DEPLOYKIT_ANDROID_MATH_H
#define DEPLOYKIT_ANDROID_MATH_H

float expf(float x);

#endif
