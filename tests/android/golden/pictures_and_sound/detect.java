package org.deploykit.model;

import android.graphics.Bitmap;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** What the model does with pictures: how they become its input, and what its outputs mean. */
final class Pictures {
    /** The kinds of points that native code knows. */
    private static final int RGBA = 4, PREMULTIPLIED = 5, OPAQUE = 6;
    private static final boolean BLUE_FIRST = isBlueFirst();

    private final Session session;
    private final Run run;

    /** Runs the model on a picture. Returns scores and boxes. */
    interface Run {
        Tensor[] on(Tensor picture);
    }

    Pictures(Session session, Run run) {
        this.session = session;
        this.run = run;
    }

    List<Detection> detect(Bitmap picture, float least, float overlap, List<String> names) {
        if (!(overlap >= 0 && overlap <= 1)) {
            throw new DeploykitException("boxes overlap by a part of 0 to 1; found " + overlap);
        }
        Tensor[] found = run.on(prepared(picture));
        long queries = found[0].shape[1], classes = found[0].shape[2];
        ByteBuffer objects = Tensor.allocated(24 * queries);
        int count = Native.objects(new ByteBuffer[] {found[0].data, found[1].data, objects}, new long[] {queries, classes,
            picture.getHeight(), picture.getWidth(), Float.floatToIntBits(least), Float.floatToIntBits(overlap)});
        List<Detection> detections = new ArrayList<>();
        for (int i = 0; i < count; ++i) {
            String label = names.get(objects.getInt());
            detections.add(new Detection(label, objects.getFloat(), objects.getFloat(), objects.getFloat(),
                objects.getFloat(), objects.getFloat()));
        }
        return detections;
    }

    /** A picture as the model takes it. */
    private Tensor prepared(Bitmap picture) {
        boolean plain = picture.getConfig() == Bitmap.Config.ARGB_8888;
        Bitmap points = plain ? picture : picture.copy(Bitmap.Config.ARGB_8888, false);
        if (points == null) {
            throw new DeploykitException("the bitmap cannot be converted to ARGB_8888");
        }
        ByteBuffer memory = Tensor.allocated((long) points.getRowBytes() * points.getHeight());
        points.copyPixelsToBuffer(memory);
        if (BLUE_FIRST) {
            exchangeRedAndBlue(memory);
        }
        int kind = points.hasAlpha() ? points.isPremultiplied() ? PREMULTIPLIED : RGBA : OPAQUE;
        Tensor made = session.picture(memory, points.getHeight(), points.getWidth(), points.getRowBytes(), kind);
        if (points != picture) {
            points.recycle();
        }
        return made;
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
