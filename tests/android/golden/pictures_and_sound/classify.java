package org.deploykit.model;

import android.graphics.Bitmap;
import android.graphics.Rect;
import android.media.Image;
import java.nio.ByteBuffer;
import java.util.List;

/** What the model does with pictures: how they become its input, and what its outputs mean. */
final class Pictures {
    /** The kinds of points that native code knows. */
    private static final int RGBA = 4, PREMULTIPLIED = 5, OPAQUE = 6;
    /** A constant of {@code ImageFormat}. */
    private static final int YUV_420_888 = 35;
    private static final boolean BLUE_FIRST = isBlueFirst();

    private final Session session;
    private final Run run;

    /** Runs the model on a picture. Returns its answer. */
    interface Run {
        Tensor[] on(Tensor picture);
    }

    Pictures(Session session, Run run) {
        this.session = session;
        this.run = run;
    }

    List<Label> classify(Points picture, List<String> names) {
        return Scores.labels(run.on(picture.prepared(session))[0].floats(), 0, names);
    }

    /** A picture in memory. */
    abstract static class Points {
        final int height;
        final int width;

        Points(int height, int width) {
            this.height = height;
            this.width = width;
        }

        /** The picture as the model takes it. */
        abstract Tensor prepared(Session session);
    }

    static Points of(Bitmap picture) {
        boolean plain = picture.getConfig() == Bitmap.Config.ARGB_8888;
        Bitmap points = plain ? picture : picture.copy(Bitmap.Config.ARGB_8888, false);
        if (points == null) {
            throw new DeploykitException("the bitmap cannot be converted to ARGB_8888");
        }
        int stride = points.getRowBytes(), kind = points.hasAlpha() ? points.isPremultiplied() ? PREMULTIPLIED : RGBA : OPAQUE;
        ByteBuffer memory = Tensor.allocated((long) stride * points.getHeight());
        points.copyPixelsToBuffer(memory);
        if (BLUE_FIRST) {
            exchangeRedAndBlue(memory);
        }
        if (points != picture) {
            points.recycle();
        }
        return new Points(picture.getHeight(), picture.getWidth()) {
            @Override
            Tensor prepared(Session session) {
                return session.picture(memory, height, width, stride, kind);
            }
        };
    }

    /** A camera's frame: the part in its crop rectangle, turned clockwise. */
    static Points of(Image image, int degrees) {
        if (degrees != 0 && degrees != 90 && degrees != 180 && degrees != 270) {
            throw new DeploykitException("an image is turned by 0, 90, 180 or 270 degrees; found " + degrees);
        }
        Image.Plane[] planes;
        Rect part;
        boolean inside;
        try {
            if (image.getFormat() != YUV_420_888) {
                throw new DeploykitException("the image has the format " + image.getFormat()
                    + ", not YUV_420_888 (35): ask the camera for that, or decode the image to a Bitmap");
            }
            planes = image.getPlanes();
            part = image.getCropRect();
            inside = part.left >= 0 && part.top >= 0 && part.right <= image.getWidth() && part.bottom <= image.getHeight();
        } catch (IllegalStateException error) {
            throw new DeploykitException("the image is closed: close it after this call");
        }
        int height = part.bottom - part.top, width = part.right - part.left;
        if (!inside || height < 1 || width < 1) {
            throw new DeploykitException("the crop rectangle of the image is empty, or not inside of it");
        }
        ByteBuffer[] memory = new ByteBuffer[3];
        long[] described = new long[11];
        for (int i = 0; i < 3; ++i) {
            int row = planes[i].getRowStride(), point = planes[i].getPixelStride(), each = i == 0 ? 1 : 2;
            memory[i] = direct(planes[i].getBuffer());
            long last = (long) ((part.bottom - 1) / each) * row + (long) ((part.right - 1) / each) * point;
            if (row < 0 || point < 1 || last >= memory[i].capacity()) {
                throw new DeploykitException("plane " + i + " of the image has " + memory[i].capacity()
                    + " bytes; with its strides and crop rectangle it needs " + (last + 1));
            }
            described[2 * i] = row;
            described[2 * i + 1] = point;
        }
        long[] place = {part.left, part.top, height, width, degrees};
        System.arraycopy(place, 0, described, 6, place.length);
        boolean upright = degrees % 180 == 0;
        return new Points(upright ? height : width, upright ? width : height) {
            @Override
            Tensor prepared(Session session) {
                return session.frame(memory, height, width, described);
            }
        };
    }

    /** The bytes from the first one on, where native code can read them: cameras have them there. */
    private static ByteBuffer direct(ByteBuffer plane) {
        ByteBuffer bytes = plane.duplicate();
        bytes.rewind();
        if (bytes.isDirect()) {
            return bytes.slice();
        }
        ByteBuffer copy = Tensor.allocated(bytes.remaining());
        copy.put(bytes);
        return copy;
    }

    /** Whether the bytes of points begin with blue instead of red: with Robolectric on a desktop system. */
    private static boolean isBlueFirst() {
        Bitmap blue = Bitmap.createBitmap(1, 1, Bitmap.Config.ARGB_8888);
        blue.eraseColor(0xff0000ff);
        ByteBuffer point = ByteBuffer.allocate(blue.getRowBytes());
        blue.copyPixelsToBuffer(point);
        return point.get(0) != 0;
    }

    private static void exchangeRedAndBlue(ByteBuffer points) {
        for (int at = 0; at + 3 < points.capacity(); at += 4) {
            byte first = points.get(at);
            points.put(at, points.get(at + 2)).put(at + 2, first);
        }
    }
}
