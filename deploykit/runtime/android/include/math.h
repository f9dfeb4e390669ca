/* The part of Android's <math.h> that host code needs. */
#ifndef DEPLOYKIT_ANDROID_MATH_H
#define DEPLOYKIT_ANDROID_MATH_H

float expf(float x);
float fabsf(float x);
float fmaxf(float x, float y);
float fminf(float x, float y);
double ceil(double x);
double cos(double x);
double fabs(double x);
double rint(double x);
double sin(double x);
double sqrt(double x);
double trunc(double x);

#endif
