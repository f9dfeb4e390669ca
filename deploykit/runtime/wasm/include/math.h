/* The part of <math.h> that the choice of tokens uses; WebAssembly has instructions for it. */
#ifndef DEPLOYKIT_WASM_MATH_H
#define DEPLOYKIT_WASM_MATH_H

#define INFINITY __builtin_inff()
#define isnan(x) __builtin_isnan(x)
#define floor(x) __builtin_floor(x)
#define fabs(x) __builtin_fabs(x)

#endif
