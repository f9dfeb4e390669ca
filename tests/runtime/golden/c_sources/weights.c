/* The weights of mlp. */
#include "weights.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "these bytes are little-endian"
#endif
/* Rows of bytes are written as strings without a terminator. */
#if defined(__has_warning)
#if __has_warning("-Wunterminated-string-initialization")
#pragma clang diagnostic ignored "-Wunterminated-string-initialization"
#endif
#elif defined(__GNUC__) && __GNUC__ >= 15
#pragma GCC diagnostic ignored "-Wunterminated-string-initialization"
#endif

DK_ALIGNED const mlp_weights_t mlp_weights = {
    {
        1.5219693f, -1.1441058f, 1.1501616f, -1.7846532f, -0.77149874f, 1.0191615f, -0.9261346f, -0.41574532f,
        -0.06291215f, 0.5132512f, -0.28599533f, 1.9848086f, 1.3030691f, -0.0046472144f, 1.175482f, 1.3456699f,
        -0.17180988f, -2.4133966f, -0.09938129f, -0.9795653f, 0.9426755f, 0.45298296f, 0.53610903f,
        0.49461314f, 1.9468404f, 0.207542f, -1.6439064f, -0.542156f, -0.38439775f, -0.41085696f, 0.9464112f,
        0.9790994f,
    },
    {
        -0.71037835f, 0.8388713f, -1.3621151f, -0.76220965f, -0.4823678f, 0.34382075f, -0.7052721f,
        -0.39670876f, -1.2070984f, -0.66682976f, 0.088519126f, 0.07200359f,
    },
};
