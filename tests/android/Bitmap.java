package android.graphics;

import java.nio.Buffer;
import java.nio.ByteBuffer;

/** Points in memory, as Android has them: with gaps between rows, and multiplied by their opacity unless told not to. */
public final class Bitmap {
    public enum Config {
        ARGB_8888,
        RGB_565
    }

    private static final int GAP = 8;

    private final Config config;
    private final int width;
    private final int height;
    private final boolean alpha;
    private final boolean premultiplied;
    private final byte[] points;

    /** {@code points} are red, green, blue and opacity. */
    public Bitmap(Config config, int width, int height, boolean alpha, boolean premultiplied, byte[] points) {
        this.config = config;
        this.width = width;
        this.height = height;
        this.alpha = alpha;
        this.premultiplied = premultiplied;
        this.points = points;
    }

    public static Bitmap createBitmap(int width, int height, Config config) {
        return new Bitmap(config, width, height, true, true, new byte[4 * width * height]);
    }

    public void eraseColor(int color) {
        for (int at = 0; at < points.length; at += 4) {
            ByteBuffer.wrap(points).putInt(at, color << 8 | color >>> 24);
        }
    }

    public Config getConfig() {
        return config;
    }

    public Bitmap copy(Config wanted, boolean isMutable) {
        return height == 1 ? null : new Bitmap(wanted, width, height, alpha, premultiplied, points);
    }

    public int getWidth() {
        return width;
    }

    public int getHeight() {
        return height;
    }

    public int getRowBytes() {
        return 4 * width + GAP;
    }

    public boolean hasAlpha() {
        return alpha;
    }

    public boolean isPremultiplied() {
        return alpha && premultiplied;
    }

    public void copyPixelsToBuffer(Buffer target) {
        if (config != Config.ARGB_8888 || target.remaining() < getRowBytes() * height) {
            throw new IllegalStateException("these are not the points of ARGB_8888");
        }
        for (int y = 0; y < height; ++y) {
            for (int x = 0; x < 4 * width; ++x) {
                int value = points[4 * width * y + x] & 255, opacity = points[4 * width * y + x / 4 * 4 + 3] & 255;
                boolean multiplied = alpha && premultiplied && x % 4 != 3;
                ((ByteBuffer) target).put((byte) (multiplied ? Math.round(value * opacity / 255.0) : value));
            }
            ((ByteBuffer) target).put(new byte[GAP]);
        }
    }

    public void recycle() {}
}
