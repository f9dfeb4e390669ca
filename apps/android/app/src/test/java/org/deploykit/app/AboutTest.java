package org.deploykit.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import android.view.ViewGroup;
import android.widget.TextView;
import org.junit.After;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;
import org.robolectric.annotation.GraphicsMode;

/** The screen About. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = {24, 29, 34, 36})
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public class AboutTest {
    private ActivityController<AboutActivity> controller;

    @After
    public void end() {
        controller.close();
    }

    private AboutActivity launch(String qualifiers) throws InterruptedException {
        RuntimeEnvironment.setQualifiers(qualifiers);
        controller = Robolectric.buildActivity(AboutActivity.class).setup();
        AboutActivity activity = controller.get();
        Testing.await(() -> "the notices", () -> !Testing.text(activity, R.id.notices).isEmpty());
        return activity;
    }

    @Test
    public void versionsSizesAndNoticesAreShown() throws Exception {
        AboutActivity activity = launch("w360dp-h740dp-mdpi");
        String versions = Testing.text(activity, R.id.versions);
        assertTrue(versions, versions.matches("deploykit 1\\.0, made with deploykit \\d+\\.\\d+\\.\\d+, on Android .*"));
        String notices = Testing.text(activity, R.id.notices);
        for (String model : new String[] {"digits", "sentences", "animals"}) {
            assertTrue(model, notices.contains("'" + model + "'"));
        }
        assertEquals(2, notices.split("Version 2.0, January 2004", -1).length);
        ViewGroup sizes = activity.findViewById(R.id.sizes);
        assertTrue(sizes.getChildCount() > 3);
        TextView first = sizes.getChildAt(0).findViewById(R.id.part);
        assertEquals("Weights: sentences", first.getText().toString());
        Testing.record(activity, "about");
    }

    @Test
    public void aSmallDarkPhoneInGerman() throws Exception {
        Testing.record(launch("de-w320dp-h640dp-night-mdpi"), "about-dark");
    }
}
