package org.deploykit.app.thinking;

/** An example drawing of each digit: those of {@code apps/web/src/examples.ts}. */
public final class Examples {
    /** Paths in a box of 100 by 100: move, cubic curves, lines. */
    private static final String[][] PATHS = {
        {"M52 14 C20 14 22 86 50 86 C80 86 78 14 50 14"},
        {"M36 32 L54 14 L52 86"},
        {"M28 32 C30 8 74 8 70 36 C68 54 40 68 26 86 L76 84"},
        {"M30 18 C52 6 78 20 66 38 C60 46 50 48 44 48 C62 48 78 58 70 76 C60 92 36 90 26 78"},
        {"M40 14 C38 34 32 46 26 58 L78 56", "M62 34 L60 88"},
        {"M36 16 C34 30 32 38 31 46 C52 38 74 48 70 68 C66 88 40 88 28 80", "M36 16 L72 14"},
        {"M62 14 C36 26 26 58 32 76 C40 92 70 88 68 68 C66 52 40 52 32 70"},
        {"M26 18 L74 16 C62 38 50 60 46 88"},
        {"M64 24 C52 6 26 22 42 42 C54 54 76 62 66 80 C54 94 26 84 34 66 C40 52 66 44 66 28 C66 24 65 22 62 20"},
        {"M68 28 C60 8 30 14 32 36 C34 56 66 52 68 28 C68 50 66 70 56 88"},
    };
    /** Points of a piece of a path. */
    private static final int POINTS = 16;

    private Examples() {}

    /** Replace a drawing by the example of a digit. */
    public static void draw(int digit, Drawing drawing) {
        drawing.clear();
        for (String path : PATHS[digit]) {
            follow(path.split("[ ]"), drawing);
        }
    }

    private static void follow(String[] words, Drawing drawing) {
        double x = 0, y = 0;
        for (int at = 0; at < words.length; ) {
            char command = words[at].charAt(0);
            int count = command == 'C' ? 6 : 2;
            double[] to = new double[count];
            for (int i = 0; i < count; ++i) {
                to[i] = Double.parseDouble(i == 0 ? words[at].substring(1) : words[at + i]) / 100;
            }
            at += count;
            if (command == 'M') {
                drawing.begin(to[0], to[1]);
            }
            for (int i = 1; i <= POINTS && command != 'M'; ++i) {
                double t = i / (double) POINTS;
                drawing.extend(along(x, to, 0, t), along(y, to, 1, t));
            }
            x = to[count - 2];
            y = to[count - 1];
        }
    }

    /** A coordinate of a line or of a Bezier curve, at {@code t} from 0 to 1. */
    private static double along(double from, double[] to, int axis, double t) {
        double u = 1 - t;
        if (to.length == 2) {
            return u * from + t * to[axis];
        }
        return u * u * u * from + 3 * u * u * t * to[axis] + 3 * u * t * t * to[axis + 2] + t * t * t * to[axis + 4];
    }
}
