package org.deploykit.app.thinking;

import java.util.Arrays;

/** The times of the last runs. */
public final class Times {
    private static final int MOST = 50;

    private final long[] last = new long[MOST];
    private int count;

    public void add(long nanoseconds) {
        last[count++ % MOST] = nanoseconds;
    }

    public int runs() {
        return Math.min(count, MOST);
    }

    /** The time in milliseconds that this part of the runs, from 0 to 1, is not longer than. There must be a run. */
    public double milliseconds(double part) {
        long[] sorted = Arrays.copyOf(last, runs());
        Arrays.sort(sorted);
        return sorted[(int) Math.min(runs() - 1, Math.floor(part * runs()))] / 1e6;
    }
}
