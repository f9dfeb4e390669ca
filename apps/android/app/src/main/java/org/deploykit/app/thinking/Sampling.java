package org.deploykit.app.thinking;

/** How large pictures are decoded smaller, so that they fit into memory. */
public final class Sampling {
    /** The most points of a decoded picture. */
    public static final int MOST = 4_000_000;

    private Sampling() {}

    /** Each so many points of a picture of this size become one, in both directions: a power of two. */
    public static int factor(long width, long height) {
        int factor = 1;
        while ((width / factor) * (height / factor) > MOST) {
            factor *= 2;
        }
        return factor;
    }
}
