package org.deploykit.app;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import android.app.Activity;
import android.app.AlertDialog;
import android.content.DialogInterface;
import android.os.Looper;
import android.view.MotionEvent;
import android.view.View;
import android.widget.RadioGroup;
import org.deploykit.app.thinking.Choice;
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
import org.robolectric.shadows.ShadowDialog;

/** The screen Draw, with the real model. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = {24, 29, 34, 36})
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public class DrawTest {
    private static final double[] SEVEN = {24, 14, 76, 14, 46, 90};
    private static final double[] FOUR = {40, 12, 22, 60, 80, 60}, REST_OF_FOUR = {62, 35, 60, 90};

    private ActivityController<DrawActivity> controller;

    private DrawActivity launch(String qualifiers) throws InterruptedException {
        RuntimeEnvironment.setQualifiers(qualifiers);
        controller = Robolectric.buildActivity(DrawActivity.class).setup();
        return controller.get();
    }

    @After
    public void end() {
        controller.close();
    }

    private static void awaitGuess(Activity activity, int digit) throws InterruptedException {
        Testing.await(() -> digit + " instead of " + Testing.text(activity, R.id.guess) + " " + Testing.text(activity, R.id.facts), () -> Testing.text(activity, R.id.guess).contains(" " + digit + ","));
    }

    @Test
    public void strokesBecomeDigits() throws Exception {
        DrawActivity activity = launch("w360dp-h740dp-mdpi");
        assertEquals("Draw a digit.", Testing.text(activity, R.id.guess));
        Testing.stroke(activity.findViewById(R.id.pad), SEVEN);
        awaitGuess(activity, 7);
        activity.findViewById(R.id.clear).performClick();
        assertEquals("Draw a digit.", Testing.text(activity, R.id.guess));
        Testing.stroke(activity.findViewById(R.id.pad), FOUR);
        Testing.stroke(activity.findViewById(R.id.pad), REST_OF_FOUR);
        awaitGuess(activity, 4);
        assertTrue(Testing.text(activity, R.id.facts).contains("CPU"));
        Testing.record(activity, "draw");
        activity.findViewById(R.id.undo).performClick();
        activity.findViewById(R.id.undo).performClick();
        assertEquals("Draw a digit.", Testing.text(activity, R.id.guess));
    }

    @Test
    public void examplesAreRead() throws Exception {
        DrawActivity activity = launch("w360dp-h740dp-mdpi");
        for (int digit = 0; digit < 10; ++digit) {
            activity.findViewById(R.id.example).performClick();
            awaitGuess(activity, digit);
        }
    }

    @Test
    public void aSecondFingerDrawsNothing() throws Exception {
        DrawActivity activity = launch("w360dp-h740dp-mdpi");
        View pad = activity.findViewById(R.id.pad);
        Testing.stroke(pad, 50, 10, 50, 90);
        awaitGuess(activity, 1);
        double[] before = activity.numbers();
        MotionEvent.PointerProperties[] fingers = {finger(0), finger(1)};
        MotionEvent.PointerCoords[] places = {place(180, 300), place(20, 20)};
        int second = MotionEvent.ACTION_POINTER_DOWN | 1 << MotionEvent.ACTION_POINTER_INDEX_SHIFT;
        pad.dispatchTouchEvent(MotionEvent.obtain(0, 1, second, 2, fingers, places, 0, 0, 1, 1, 0, 0, 0, 0));
        assertEquals(before.length, activity.numbers().length);
    }

    private static MotionEvent.PointerProperties finger(int id) {
        MotionEvent.PointerProperties properties = new MotionEvent.PointerProperties();
        properties.id = id;
        return properties;
    }

    private static MotionEvent.PointerCoords place(float x, float y) {
        MotionEvent.PointerCoords coordinates = new MotionEvent.PointerCoords();
        coordinates.x = x;
        coordinates.y = y;
        return coordinates;
    }

    @Test
    public void aRotationKeepsTheDrawing() throws Exception {
        DrawActivity activity = launch("w360dp-h740dp-port-mdpi");
        Testing.stroke(activity.findViewById(R.id.pad), SEVEN);
        awaitGuess(activity, 7);
        double[] before = activity.numbers();
        RuntimeEnvironment.setQualifiers("+w740dp-h360dp-land");
        controller.recreate();
        DrawActivity turned = controller.get();
        assertArrayEquals(before, turned.numbers(), 0);
        awaitGuess(turned, 7);
        Testing.record(turned, "draw-landscape");
    }

    @Test
    public void aSmallDarkPhoneInGerman() throws Exception {
        DrawActivity activity = launch("de-w320dp-h640dp-night-mdpi");
        activity.findViewById(R.id.example).performClick();
        Testing.await(() -> "a zero", () -> Testing.text(activity, R.id.guess).contains("nach 0 aus"));
        Testing.record(activity, "draw-dark");
    }

    @Test
    public void whenMemoryIsShortTheModelIsFreedAndOpenedAgain() throws Exception {
        DrawActivity activity = launch("w360dp-h740dp-mdpi");
        Testing.stroke(activity.findViewById(R.id.pad), SEVEN);
        awaitGuess(activity, 7);
        controller.pause().stop();
        activity.onTrimMemory(Activity.TRIM_MEMORY_COMPLETE);
        controller.restart().resume();
        activity.findViewById(R.id.clear).performClick();
        Testing.stroke(activity.findViewById(R.id.pad), 50, 10, 50, 90);
        awaitGuess(activity, 1);
    }

    @Test
    public void aMissingDeviceLeavesTheOldOneAndSaysWhy() throws Exception {
        DrawActivity activity = launch("w360dp-h740dp-mdpi");
        Testing.stroke(activity.findViewById(R.id.pad), SEVEN);
        awaitGuess(activity, 7);
        choose(activity, 1, "draw-device");
        Testing.await(() -> Testing.text(activity, R.id.facts), () ->
                Testing.text(activity, R.id.facts).contains("vulkan cannot be used"));
        assertTrue(Testing.text(activity, R.id.facts).contains("The model stays on: CPU"));
        assertNull(new Choice(new Preferences(activity, "draw")).fatal);
        activity.findViewById(R.id.clear).performClick();
        Testing.stroke(activity.findViewById(R.id.pad), 50, 10, 50, 90);
        awaitGuess(activity, 1);
    }

    /** Choose a device by its number in the sheet, and two threads. */
    private static void choose(DrawActivity activity, int device, String picture) throws Exception {
        activity.findViewById(R.id.device).performClick();
        AlertDialog sheet = (AlertDialog) ShadowDialog.getLatestDialog();
        ((RadioGroup) sheet.findViewById(R.id.devices)).check(device);
        ((RadioGroup) sheet.findViewById(R.id.threads)).check(1);
        Shadows.shadowOf(Looper.getMainLooper()).idle();
        Testing.record(activity, sheet, picture);
        sheet.getButton(DialogInterface.BUTTON_POSITIVE).performClick();
    }

    @Test
    public void afterADriverThatEndedTheAppItIsOnTheCpuAndSaysSo() throws Exception {
        new Choice(new Preferences(RuntimeEnvironment.getApplication(), "draw")).begin("opencl", 2);
        DrawActivity activity = launch("w360dp-h740dp-mdpi");
        Testing.stroke(activity.findViewById(R.id.pad), SEVEN);
        awaitGuess(activity, 7);
        assertTrue(Testing.text(activity, R.id.facts).startsWith("The app ended while opencl was opened."));
        assertEquals("cpu", new Choice(new Preferences(activity, "draw")).device());
        assertNull(new Choice(new Preferences(activity, "draw")).fatal);
    }
}
