package org.deploykit.app.thinking;

/** What the model reads in a drawing: the picture that it got, and the probability of each digit. */
public final class Reading {
    public final float[] picture;
    public final float[] probabilities;
    public final long nanoseconds;

    Reading(float[] picture, float[] probabilities, long nanoseconds) {
        this.picture = picture;
        this.probabilities = probabilities;
        this.nanoseconds = nanoseconds;
    }

    /** The most probable digit. */
    public int best() {
        int best = 0;
        for (int digit = 1; digit < probabilities.length; ++digit) {
            best = probabilities[digit] > probabilities[best] ? digit : best;
        }
        return best;
    }

    /** The probability of a digit, in percent. */
    public int percent(int digit) {
        return Math.round(100 * probabilities[digit]);
    }
}
