package org.deploykit.app.thinking;

/** How a picture is turned, by the orientation that its file notes. (Source: Exif 2.3, tag 274.) */
public final class Turn {
    private static final int[] DEGREES = {0, 0, 180, 180, 90, 90, 270, 270};
    private static final boolean[] MIRRORED = {false, true, false, true, true, false, true, false};

    /** Clockwise, after the picture was mirrored. */
    public final int degrees;
    /** Whether left and right change places. */
    public final boolean mirrored;

    /** The turn of an orientation, 1 to 8; other numbers turn nothing. */
    public Turn(int orientation) {
        boolean known = orientation >= 1 && orientation <= DEGREES.length;
        degrees = known ? DEGREES[orientation - 1] : 0;
        mirrored = known && MIRRORED[orientation - 1];
    }

    public boolean isNone() {
        return degrees == 0 && !mirrored;
    }
}
