package org.deploykit.app.thinking;

import java.util.List;

/**
 * Makes the picture of a drawing that the model gets: the same computation as in {@code apps/web/src/raster.ts}.
 *
 * <p>The longer side of the drawing becomes INK pixels. Its centre of mass, weighted by the length of lines, becomes
 * the centre of a picture of SIZE by SIZE pixels. The ink of a pixel is the part of it that the pen covers.
 */
public final class Raster {
    public static final int SIZE = 28;
    private static final double INK = 20, PEN = 2.4, REACH = PEN / 2 + 0.5;
    /** A drawing whose longer side is below this fraction of the pad is enlarged as if it were that long. */
    private static final double SMALLEST = 0.15;

    private Raster() {}

    /** The picture, row by row, from 0 (paper) to 1 (ink). There must be a stroke. */
    public static float[] of(Drawing drawing) {
        List<Drawing.Stroke> strokes = drawing.strokes();
        double scale = INK / Math.max(longerSide(strokes), SMALLEST);
        double[] centre = centreOfMass(strokes);
        float[] picture = new float[SIZE * SIZE];
        for (Drawing.Stroke stroke : strokes) {
            for (int i = 0; i < Math.max(1, stroke.count - 1); ++i) {
                int next = Math.min(i + 1, stroke.count - 1); // a dot is a line without length
                ink(picture, place(stroke.x[i], centre[0], scale), place(stroke.y[i], centre[1], scale),
                        place(stroke.x[next], centre[0], scale), place(stroke.y[next], centre[1], scale));
            }
        }
        return picture;
    }

    private static double place(double value, double centre, double scale) {
        return (value - centre) * scale + SIZE / 2.0;
    }

    private static double longerSide(List<Drawing.Stroke> strokes) {
        double left = 1, top = 1, right = 0, bottom = 0;
        for (Drawing.Stroke stroke : strokes) {
            for (int i = 0; i < stroke.count; ++i) {
                left = Math.min(left, stroke.x[i]);
                right = Math.max(right, stroke.x[i]);
                top = Math.min(top, stroke.y[i]);
                bottom = Math.max(bottom, stroke.y[i]);
            }
        }
        return Math.max(right - left, bottom - top);
    }

    private static double[] centreOfMass(List<Drawing.Stroke> strokes) {
        double x = 0, y = 0, total = 0, sumX = 0, sumY = 0;
        int points = 0;
        for (Drawing.Stroke stroke : strokes) {
            for (int i = 0; i < stroke.count; ++i, ++points) {
                sumX += stroke.x[i];
                sumY += stroke.y[i];
                if (i > 0) {
                    double weight = Math.hypot(stroke.x[i] - stroke.x[i - 1], stroke.y[i] - stroke.y[i - 1]);
                    x += weight * (stroke.x[i - 1] + stroke.x[i]) / 2;
                    y += weight * (stroke.y[i - 1] + stroke.y[i]) / 2;
                    total += weight;
                }
            }
        }
        return total == 0 ? new double[] {sumX / points, sumY / points} : new double[] {x / total, y / total};
    }

    /** Ink a line, in pixel coordinates. */
    private static void ink(float[] picture, double ax, double ay, double bx, double by) {
        double dx = bx - ax, dy = by - ay, squared = Math.max(dx * dx + dy * dy, 1e-12);
        int right = last(ax, bx), bottom = last(ay, by);
        for (int row = first(ay, by); row <= bottom; ++row) {
            for (int column = first(ax, bx); column <= right; ++column) {
                double x = column + 0.5 - ax, y = row + 0.5 - ay;
                double part = Math.min(1, Math.max(0, (x * dx + y * dy) / squared));
                double away = Math.hypot(x - part * dx, y - part * dy);
                int at = row * SIZE + column;
                picture[at] = (float) Math.max(picture[at], Math.min(1, REACH - away));
            }
        }
    }

    private static int first(double u, double v) {
        return (int) Math.max(0, Math.floor(Math.min(u, v) - REACH - 0.5));
    }

    private static int last(double u, double v) {
        return (int) Math.min(SIZE - 1, Math.ceil(Math.max(u, v) + REACH - 0.5));
    }
}
