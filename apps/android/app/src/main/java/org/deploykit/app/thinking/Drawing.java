package org.deploykit.app.thinking;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** A drawing: strokes on a pad of 1 by 1, x to the right, y downwards. */
public final class Drawing {
    /** Points closer to the last one than this are left out. */
    private static final double NEAR = 0.004;

    private final List<Stroke> strokes = new ArrayList<>();

    /** The points of one line, {@code x[i], y[i]}. */
    public static final class Stroke {
        public double[] x = new double[16];
        public double[] y = new double[16];
        public int count;

        private void add(double atX, double atY) {
            if (count == x.length) {
                x = java.util.Arrays.copyOf(x, 2 * count);
                y = java.util.Arrays.copyOf(y, 2 * count);
            }
            x[count] = inside(atX);
            y[count++] = inside(atY);
        }
    }

    public List<Stroke> strokes() {
        return Collections.unmodifiableList(strokes);
    }

    public boolean isEmpty() {
        return strokes.isEmpty();
    }

    /** Put the pen down. */
    public void begin(double x, double y) {
        Stroke stroke = new Stroke();
        stroke.add(x, y);
        strokes.add(stroke);
    }

    /** Move the pen while it is down. Returns whether there is a new point. */
    public boolean extend(double x, double y) {
        if (strokes.isEmpty()) {
            return false;
        }
        Stroke stroke = strokes.get(strokes.size() - 1);
        int last = stroke.count - 1;
        if (Math.hypot(inside(x) - stroke.x[last], inside(y) - stroke.y[last]) < NEAR) {
            return false;
        }
        stroke.add(x, y);
        return true;
    }

    /** Take back the last stroke. */
    public void undo() {
        if (!strokes.isEmpty()) {
            strokes.remove(strokes.size() - 1);
        }
    }

    public void clear() {
        strokes.clear();
    }

    /** The drawing as numbers: for each stroke the number of its points, and their coordinates. */
    public double[] numbers() {
        int size = 0;
        for (Stroke stroke : strokes) {
            size += 1 + 2 * stroke.count;
        }
        double[] numbers = new double[size];
        int at = 0;
        for (Stroke stroke : strokes) {
            numbers[at++] = stroke.count;
            for (int i = 0; i < stroke.count; ++i) {
                numbers[at++] = stroke.x[i];
                numbers[at++] = stroke.y[i];
            }
        }
        return numbers;
    }

    /** Become the drawing that {@link #numbers} gave. */
    public void restore(double[] numbers) {
        clear();
        for (int at = 0; at < numbers.length; ) {
            int count = (int) numbers[at++];
            Stroke stroke = new Stroke();
            for (int i = 0; i < count; ++i, at += 2) {
                stroke.add(numbers[at], numbers[at + 1]);
            }
            strokes.add(stroke);
        }
    }

    private static double inside(double value) {
        return Math.min(1, Math.max(0, value));
    }
}
