package org.deploykit.app;

import static org.junit.Assert.assertTrue;

import android.app.Activity;
import android.app.Dialog;
import android.graphics.Bitmap;
import android.graphics.Canvas;
import android.graphics.Color;
import android.os.Looper;
import android.os.SystemClock;
import android.view.MotionEvent;
import android.view.View;
import android.view.ViewGroup;
import android.widget.TextView;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.Shadows;

/** What tests of screens share. */
final class Testing {
    private static final int PATIENCE = 60_000;

    private Testing() {}

    /** Let the main thread work until this is so. */
    static void await(Supplier<String> what, BooleanSupplier condition) throws InterruptedException {
        long end = System.currentTimeMillis() + PATIENCE;
        Shadows.shadowOf(Looper.getMainLooper()).idle();
        while (!condition.getAsBoolean()) {
            assertTrue("this takes too long: " + what.get(), System.currentTimeMillis() < end);
            Thread.sleep(5);
            Shadows.shadowOf(Looper.getMainLooper()).idle();
        }
    }

    /** Whether what a screen shows without being asked is there. */
    static boolean isFilled(Screen screen) {
        if (screen instanceof AboutActivity) {
            return !text(screen, R.id.notices).isEmpty();
        }
        View list = screen.findViewById(R.id.passages);
        return list == null || ((ViewGroup) list).getChildCount() > 5;
    }

    /** Let other threads end, and what waits for a later time; and give back the memory of objects that nobody knows. */
    static void settle() throws InterruptedException {
        for (int i = 0; i < 5; ++i) {
            Thread.sleep(100);
            Shadows.shadowOf(Looper.getMainLooper()).idleFor(Duration.ofMinutes(1));
            System.gc();
        }
    }

    static String text(Activity activity, int id) {
        return ((TextView) activity.findViewById(id)).getText().toString();
    }

    /** Draw a line with a finger: places in hundredths of a view, x after y. The system gathers every second place. */
    static void stroke(View view, double... places) {
        long start = SystemClock.uptimeMillis();
        float side = view.getWidth() / 100f;
        send(view, MotionEvent.obtain(
                start, start, MotionEvent.ACTION_DOWN, side * (float) places[0], side * (float) places[1], 0));
        for (int i = 2; i < places.length; i += 2) {
            MotionEvent move = null;
            for (int part = 1; part <= 8; ++part) {
                float x = side * (float) (places[i - 2] + part / 8.0 * (places[i] - places[i - 2]));
                float y = side * (float) (places[i - 1] + part / 8.0 * (places[i + 1] - places[i - 1]));
                if (move == null) {
                    move = MotionEvent.obtain(start, start + 8 * i + part, MotionEvent.ACTION_MOVE, x, y, 0);
                } else {
                    move.addBatch(start + 8 * i + part, x, y, 1, 1, 0);
                }
            }
            send(view, move);
        }
        int last = places.length - 2;
        send(view, MotionEvent.obtain(start, start + 999, MotionEvent.ACTION_UP, side * (float) places[last],
                side * (float) places[last + 1], 0));
    }

    private static void send(View view, MotionEvent event) {
        view.dispatchTouchEvent(event);
        event.recycle();
    }

    /** Write a picture of the screen and what a screen reader is told of it, in the folder that the property
     * {@code pictures} names. */
    static void record(Activity activity, String name) throws IOException {
        View root = activity.getWindow().getDecorView();
        write(drawn(root), Nodes.of(root), name);
    }

    /** The same of a sheet above the screen, which is darker below it. */
    static void record(Activity activity, Dialog sheet, String name) throws IOException {
        Bitmap bitmap = drawn(activity.getWindow().getDecorView());
        View root = sheet.getWindow().getDecorView();
        Canvas canvas = new Canvas(bitmap);
        canvas.drawColor(Color.argb(153, 0, 0, 0));
        canvas.translate((bitmap.getWidth() - root.getWidth()) / 2f, (bitmap.getHeight() - root.getHeight()) / 2f);
        root.draw(canvas);
        write(bitmap, Nodes.of(root), name);
    }

    private static Bitmap drawn(View root) {
        Bitmap bitmap = Bitmap.createBitmap(root.getWidth(), root.getHeight(), Bitmap.Config.ARGB_8888);
        root.draw(new Canvas(bitmap));
        return bitmap;
    }

    private static void write(Bitmap bitmap, String nodes, String name) throws IOException {
        String file = name + "-" + RuntimeEnvironment.getApiLevel();
        File folder = new File(System.getProperty("pictures"));
        Files.write(new File(folder, file + ".nodes").toPath(), nodes.getBytes(StandardCharsets.UTF_8));
        try (OutputStream stream = new FileOutputStream(new File(folder, file + ".png"))) {
            bitmap.compress(Bitmap.CompressFormat.PNG, 100, stream);
        }
    }
}
