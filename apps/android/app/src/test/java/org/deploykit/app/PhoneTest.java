package org.deploykit.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import android.app.Activity;
import android.app.ActivityManager;
import android.content.Intent;
import android.system.Os;
import org.junit.After;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.Shadows;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;
import org.robolectric.annotation.GraphicsMode;
import org.robolectric.annotation.Implementation;
import org.robolectric.annotation.Implements;
import org.robolectric.shadows.ShadowBuild;

/** The screen This phone, with the real model. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = {24, 29, 34, 36}, shadows = PhoneTest.Pages.class)
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public class PhoneTest {
    /** A kernel with pages of 4 KiB, which Robolectric leaves out. */
    @Implements(Os.class)
    public static class Pages {
        @Implementation
        protected static long sysconf(int name) {
            return 4096;
        }
    }

    private ActivityController<PhoneActivity> controller;

    @After
    public void end() {
        controller.close();
    }

    /** A phone, and the screen before it is there. */
    private void prepare() {
        RuntimeEnvironment.setQualifiers("w360dp-h740dp-mdpi");
        ShadowBuild.setManufacturer("Example");
        ShadowBuild.setModel("Phone");
        ShadowBuild.setHardware("jvm");
        ShadowBuild.setSupportedAbis(new String[] {"x86_64"});
        ActivityManager.MemoryInfo memory = new ActivityManager.MemoryInfo();
        memory.totalMem = 4L << 30;
        memory.availMem = 2L << 30;
        Shadows.shadowOf(RuntimeEnvironment.getApplication().getSystemService(ActivityManager.class))
                .setMemoryInfo(memory);
        controller = Robolectric.buildActivity(PhoneActivity.class);
    }

    private PhoneActivity launch() throws InterruptedException {
        prepare();
        controller.setup();
        return measured();
    }

    private PhoneActivity measured() throws InterruptedException {
        PhoneActivity activity = controller.get();
        Testing.await(() -> Testing.text(activity, R.id.report), () -> activity.findViewById(R.id.share).isEnabled());
        return activity;
    }

    @Test
    public void eachDeviceIsALine() throws Exception {
        PhoneActivity activity = launch();
        String text = Testing.text(activity, R.id.report);
        assertTrue(text, text.contains("API " + RuntimeEnvironment.getApiLevel()));
        assertTrue(text, text.matches("(?s).*cpu, CPU, \\d+ cores?: first [0-9.]+ ms, median [0-9.]+ ms.*"));
        Testing.record(activity, "phone");
        activity.findViewById(R.id.share).performClick();
        Intent sent = Shadows.shadowOf(activity).getNextStartedActivity().getParcelableExtra(Intent.EXTRA_INTENT);
        assertEquals(text, sent.getStringExtra(Intent.EXTRA_TEXT));
    }

    @Test
    public void aRotationMeasuresNothingAgain() throws Exception {
        String text = Testing.text(launch(), R.id.report);
        controller.recreate();
        assertEquals(text, Testing.text(controller.get(), R.id.report));
    }

    @Test
    public void shortMemoryEndsAMeasurementUntilTheScreenIsSeen() throws Exception {
        prepare();
        controller.create();
        controller.get().onTrimMemory(Activity.TRIM_MEMORY_COMPLETE);
        Testing.settle();
        assertFalse(controller.get().findViewById(R.id.share).isEnabled());
        controller.start().postCreate(null).resume().visible();
        String text = Testing.text(measured(), R.id.report);
        assertEquals(text, 2, text.split("cpu, CPU").length);
    }
}
