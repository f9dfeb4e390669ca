package org.deploykit.app;

import static org.junit.Assert.assertTrue;

import android.content.Intent;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;
import org.robolectric.annotation.GraphicsMode;

/** Screens that are opened again and again leave no objects behind. Each of them has about 1 MB of objects. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = 34)
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public class LeakTest {
    private static final int FEW = 3, LAUNCHES = 100;
    /** Bytes of objects that a launch may leave. */
    private static final long MOST = 10_000;
    /** Activities that Android or Robolectric may still know after the last one was destroyed. */
    private static final int KNOWN = 3;

    private static void launches(Class<? extends Screen> screen) throws Exception {
        List<WeakReference<Screen>> all = new ArrayList<>();
        launch(screen, FEW, all);
        long before = objects();
        launch(screen, LAUNCHES, all);
        long left = (objects() - before) / LAUNCHES;
        long alive = all.stream().filter(each -> each.get() != null).count();
        String words = screen.getSimpleName() + ": a launch leaves " + left + " bytes, and " + alive + " are alive";
        assertTrue(words, left < MOST && alive <= KNOWN);
    }

    private static void launch(Class<? extends Screen> screen, int count, List<WeakReference<Screen>> all)
            throws Exception {
        for (int i = 0; i < count; ++i) {
            try (ActivityController<? extends Screen> controller = Robolectric.buildActivity(screen, new Intent())) {
                controller.setup();
                Testing.await(screen::getName, () -> Testing.isFilled(controller.get()));
                all.add(new WeakReference<>(controller.get()));
            }
        }
    }

    private static long objects() throws InterruptedException {
        Testing.settle();
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }

    @Test
    public void ofAbout() throws Exception {
        launches(AboutActivity.class);
    }

    @Test
    public void ofDraw() throws Exception {
        launches(DrawActivity.class);
    }

    @Test
    public void ofPhone() throws Exception {
        launches(PhoneActivity.class);
    }

    @Test
    public void ofPicture() throws Exception {
        launches(PictureActivity.class);
    }

    @Test
    public void ofSearch() throws Exception {
        launches(SearchActivity.class);
    }
}
