package org.deploykit.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertTrue;

import android.content.Intent;
import android.text.Layout;
import android.view.FocusFinder;
import android.view.View;
import android.view.ViewGroup;
import android.widget.ImageView;
import android.widget.TextView;
import androidx.test.platform.app.InstrumentationRegistry;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;
import org.robolectric.annotation.GraphicsMode;

/** What holds for all screens, on a small phone: nothing is cut off, targets are large enough, pictures have names. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = 34)
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public class EveryScreenTest {
    private static final List<Class<? extends Screen>> SCREENS = Arrays.asList(
            AboutActivity.class, DrawActivity.class, PhoneActivity.class, PictureActivity.class, SearchActivity.class);
    /** In dp, which are pixels here. */
    private static final int TARGET = 48;

    private static void each(String qualifiers, String name) throws Exception {
        RuntimeEnvironment.setQualifiers(qualifiers);
        for (Class<? extends Screen> screen : SCREENS) {
            try (ActivityController<? extends Screen> controller = Robolectric.buildActivity(screen, new Intent())) {
                controller.setup();
                Testing.await(() -> screen.getName(), () -> Testing.isFilled(controller.get()));
                check(controller.get().findViewById(R.id.root), screen.getSimpleName());
                Testing.record(controller.get(), screen.getSimpleName() + "-" + name);
            }
        }
    }

    private static void check(View view, String screen) {
        if (view.getVisibility() != View.VISIBLE) {
            return;
        }
        String name = screen + ": " + view;
        if (view.isClickable()) {
            assertTrue(name, view.getWidth() >= TARGET && view.getHeight() >= TARGET);
        }
        if (view instanceof TextView) {
            checkText((TextView) view, name + " " + ((TextView) view).getText());
        } else if (view instanceof ImageView || view instanceof PadView || view instanceof PictureView) {
            assertNotNull(name, view.getContentDescription());
        }
        for (int i = 0; view instanceof ViewGroup && i < ((ViewGroup) view).getChildCount(); ++i) {
            check(((ViewGroup) view).getChildAt(i), screen);
        }
    }

    private static void checkText(TextView view, String name) {
        Layout layout = view.getLayout();
        int width = view.getWidth() - view.getCompoundPaddingLeft() - view.getCompoundPaddingRight();
        assertTrue(name, layout.getHeight() <= view.getHeight());
        for (int line = 0; line < layout.getLineCount(); ++line) {
            assertEquals(name, 0, layout.getEllipsisCount(line));
            assertTrue(name, layout.getLineMax(line) <= width + 1);
        }
    }

    @Test
    public void onASmallPhone() throws Exception {
        each("w320dp-h640dp-mdpi", "small");
    }

    @Test
    public void inGerman() throws Exception {
        each("de-w320dp-h640dp-mdpi", "german");
    }

    @Test
    public void withLargeText() throws Exception {
        RuntimeEnvironment.setFontScale(2);
        each("w320dp-h640dp-mdpi", "large");
    }

    @Test
    public void fromRightToLeft() throws Exception {
        each("ar-ldrtl-w320dp-h640dp-night-mdpi", "right-to-left");
    }

    /** Tab goes to all buttons, and so do the arrows of a D-pad. */
    @Test
    public void withoutATouch() throws Exception {
        InstrumentationRegistry.getInstrumentation().setInTouchMode(false);
        RuntimeEnvironment.setQualifiers("w360dp-h740dp-mdpi");
        for (Class<? extends Screen> screen : SCREENS) {
            try (ActivityController<? extends Screen> controller = Robolectric.buildActivity(screen, new Intent())) {
                controller.setup();
                Testing.await(() -> screen.getName(), () -> Testing.isFilled(controller.get()));
                ViewGroup root = controller.get().findViewById(R.id.root);
                Set<View> buttons = new HashSet<>();
                collect(root, buttons);
                assertFalse(screen.getName(), buttons.isEmpty());
                assertReached(screen + " by Tab", root, buttons, View.FOCUS_FORWARD);
                assertReached(screen + " by arrows", root, buttons, View.FOCUS_UP, View.FOCUS_DOWN, View.FOCUS_LEFT, View.FOCUS_RIGHT);
            }
        }
    }

    /** What can be clicked now. */
    private static void collect(View view, Set<View> buttons) {
        if (view.getVisibility() != View.VISIBLE) {
            return;
        }
        if (view.isClickable() && view.isEnabled()) {
            buttons.add(view);
        }
        for (int i = 0; view instanceof ViewGroup && i < ((ViewGroup) view).getChildCount(); ++i) {
            collect(((ViewGroup) view).getChildAt(i), buttons);
        }
    }

    private static void assertReached(String how, ViewGroup root, Set<View> buttons, int... directions) {
        View first = FocusFinder.getInstance().findNextFocus(root, null, View.FOCUS_FORWARD);
        Set<View> reached = new HashSet<>();
        Deque<View> open = new ArrayDeque<>();
        open.add(first);
        while (!open.isEmpty()) {
            View view = open.remove();
            if (!reached.add(view)) {
                continue;
            }
            for (int direction : directions) {
                View next = FocusFinder.getInstance().findNextFocus(root, view, direction);
                if (next != null) {
                    open.add(next);
                }
            }
        }
        Set<View> missed = new HashSet<>(buttons);
        missed.removeAll(reached);
        assertEquals(how, new HashSet<View>(), missed);
    }

    @Test
    public void onATablet() throws Exception {
        each("w1280dp-h800dp-mdpi", "tablet");
    }
}
