package org.deploykit.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import android.app.Activity;
import android.content.ContentResolver;
import android.content.Intent;
import android.graphics.Bitmap;
import android.graphics.Color;
import android.graphics.drawable.BitmapDrawable;
import android.net.Uri;
import android.os.ParcelFileDescriptor;
import android.provider.MediaStore;
import android.widget.ImageView;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.List;
import org.deploykit.app.models.animals.Label;
import org.deploykit.app.thinking.Sampling;
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

/**
 * The screen Picture, with the real model, and pictures that {@code tests/apps/test_android_app.py} has made. Not on
 * Android 7, where Robolectric decodes no pictures.
 */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = {29, 34, 36})
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public class PictureTest {
    private static final String PHONE = "w360dp-h740dp-mdpi";
    private static final String[] FILES = {"landscape.png", "portrait.jpg", "turned.jpg"};

    private ActivityController<PictureActivity> controller;

    private PictureActivity launch(String qualifiers) {
        RuntimeEnvironment.setQualifiers(qualifiers);
        controller = Robolectric.buildActivity(PictureActivity.class, new Intent(Intent.ACTION_MAIN)).setup();
        return controller.get();
    }

    @After
    public void end() {
        controller.close();
    }

    private static File input(String name) {
        return new File(System.getProperty("pictures"), name);
    }

    /** Choose a file in the gallery. */
    private static void choose(PictureActivity activity, String name) {
        activity.findViewById(R.id.gallery).performClick();
        Intent asked = Shadows.shadowOf(activity).getNextStartedActivity();
        boolean hasPicker = RuntimeEnvironment.getApiLevel() >= 33;
        assertEquals(hasPicker ? MediaStore.ACTION_PICK_IMAGES : Intent.ACTION_GET_CONTENT, asked.getAction());
        Intent chosen = new Intent().setData(uri(activity.getApplicationContext().getContentResolver(), name));
        Shadows.shadowOf(activity).receiveResult(asked, Activity.RESULT_OK, chosen);
    }

    private static Uri uri(ContentResolver resolver, String name) {
        Uri uri = Uri.parse("content://pictures/" + name);
        Shadows.shadowOf(resolver).registerInputStreamSupplier(uri, () -> opened(name));
        return uri;
    }

    private static InputStream opened(String name) {
        try {
            return name.isEmpty()
                    ? new ByteArrayInputStream("no picture".getBytes(StandardCharsets.UTF_8))
                    : new FileInputStream(input(name));
        } catch (FileNotFoundException error) {
            throw new AssertionError(error);
        }
    }

    private static Bitmap shown(Activity activity) {
        BitmapDrawable drawable = (BitmapDrawable) ((ImageView) activity.findViewById(R.id.photo)).getDrawable();
        return drawable == null ? null : drawable.getBitmap();
    }

    private static void awaitClasses(Activity activity) throws InterruptedException {
        Testing.await(() -> Testing.text(activity, R.id.guess) + Testing.text(activity, R.id.problem), () ->
                Testing.text(activity, R.id.guess).matches("(The model takes|Das Modell hält).*"));
    }

    @Test
    public void picturesHaveTheClassesOfTheModel() throws Exception {
        PictureActivity activity = launch(PHONE);
        Testing.record(activity, "picture-none");
        for (String name : FILES) {
            Bitmap before = shown(activity);
            choose(activity, name);
            Testing.await(() -> name, () -> shown(activity) != before);
            awaitClasses(activity);
            Bitmap bitmap = shown(activity);
            assertEquals(name, name.equals("landscape.png"), bitmap.getWidth() > bitmap.getHeight());
            StringBuilder lines = new StringBuilder();
            Photos photos = new Photos(activity);
            try (org.deploykit.app.models.animals.Animals model = photos.model()) {
                List<Label> labels = photos.classify(model, bitmap);
                assertTrue(Testing.text(activity, R.id.guess).contains(labels.get(0).name + ", "));
                for (Label label : labels) {
                    lines.append(label.name).append(' ').append(label.score).append('\n');
                }
            }
            File file = input(name + "-" + RuntimeEnvironment.getApiLevel() + ".txt");
            Files.write(file.toPath(), lines.toString().getBytes(StandardCharsets.UTF_8));
        }
        Testing.record(activity, "picture");
    }

    @Test
    @Config(sdk = 34)
    public void aLargePictureIsDecodedSmaller() throws Exception {
        PictureActivity activity = launch(PHONE);
        choose(activity, "large.png");
        awaitClasses(activity);
        Bitmap bitmap = shown(activity);
        assertTrue(bitmap.getWidth() * bitmap.getHeight() <= Sampling.MOST);
        assertEquals(2040, bitmap.getWidth());
    }

    @Test
    public void whatIsNoPictureIsRefusedAndTheOneBeforeStays() throws Exception {
        PictureActivity activity = launch(PHONE);
        choose(activity, "landscape.png");
        awaitClasses(activity);
        Bitmap before = shown(activity);
        choose(activity, "");
        Testing.await(() -> "a refusal", () -> Testing.text(activity, R.id.problem).startsWith("This file is not a picture"));
        assertEquals(before, shown(activity));
        choose(activity, "portrait.jpg");
        Testing.await(() -> "another picture", () -> shown(activity) != before);
    }

    @Test
    public void theCameraAndOtherAppsGivePictures() throws Exception {
        RuntimeEnvironment.setQualifiers(PHONE);
        ContentResolver resolver = RuntimeEnvironment.getApplication().getContentResolver();
        Intent shared = new Intent(Intent.ACTION_SEND).putExtra(Intent.EXTRA_STREAM, uri(resolver, "portrait.jpg"));
        controller = Robolectric.buildActivity(PictureActivity.class, shared).setup();
        PictureActivity activity = controller.get();
        awaitClasses(activity);
        Bitmap before = shown(activity);
        activity.findViewById(R.id.camera).performClick();
        Intent asked = Shadows.shadowOf(activity).getNextStartedActivity();
        assertEquals(MediaStore.ACTION_IMAGE_CAPTURE, asked.getAction());
        Bitmap taken = Bitmap.createBitmap(120, 160, Bitmap.Config.ARGB_8888);
        taken.eraseColor(Color.GREEN);
        Shadows.shadowOf(activity).receiveResult(asked, Activity.RESULT_OK, new Intent().putExtra("data", taken));
        Testing.await(() -> "the picture of the camera", () -> shown(activity) != before);
        assertEquals(Color.GREEN, shown(activity).getPixel(60, 80));
        awaitClasses(activity);
    }

    @Test
    public void theCameraWritesAPictureOfFullSize() throws Exception {
        PictureActivity activity = launch(PHONE);
        activity.findViewById(R.id.camera).performClick();
        Intent asked = Shadows.shadowOf(activity).getNextStartedActivity();
        Uri place = asked.getParcelableExtra(MediaStore.EXTRA_OUTPUT);
        assertEquals(place, asked.getClipData().getItemAt(0).getUri());
        assertTrue((asked.getFlags() & Intent.FLAG_GRANT_WRITE_URI_PERMISSION) != 0);
        CameraProvider provider = Robolectric.setupContentProvider(CameraProvider.class, place.getAuthority());
        assertThrows(FileNotFoundException.class, () -> provider.openFile(Uri.withAppendedPath(place, "other"), "w"));
        Bitmap taken = Bitmap.createBitmap(1200, 1600, Bitmap.Config.ARGB_8888);
        taken.eraseColor(Color.GREEN);
        try (OutputStream stream = new ParcelFileDescriptor.AutoCloseOutputStream(provider.openFile(place, "w"))) {
            taken.compress(Bitmap.CompressFormat.PNG, 100, stream);
        }
        Shadows.shadowOf(activity).receiveResult(asked, Activity.RESULT_OK, null);
        awaitClasses(activity);
        assertEquals(1200, shown(activity).getWidth());
        assertEquals(Color.GREEN, shown(activity).getPixel(600, 800));
        assertEquals(0, CameraProvider.file(activity).length());
    }

    @Test
    public void aRotationAndAnEndOfTheProcessKeepThePicture() throws Exception {
        PictureActivity activity = launch("w360dp-h740dp-port-mdpi");
        choose(activity, "turned.jpg");
        awaitClasses(activity);
        String guess = Testing.text(activity, R.id.guess);
        RuntimeEnvironment.setQualifiers("+w740dp-h360dp-land");
        controller.recreate();
        awaitClasses(controller.get());
        assertEquals(guess, Testing.text(controller.get(), R.id.guess));
        Testing.record(controller.get(), "picture-landscape");
        controller.get().onTrimMemory(Activity.TRIM_MEMORY_COMPLETE); // the model is opened again for the next one
        choose(controller.get(), "landscape.png");
        awaitClasses(controller.get());
        controller.close();
        PictureActivity again = launch(PHONE);
        awaitClasses(again);
        assertEquals(240, shown(again).getWidth());
    }

    @Test
    public void aSmallDarkPhoneInGerman() throws Exception {
        PictureActivity activity = launch("de-w320dp-h640dp-night-mdpi");
        choose(activity, "landscape.png");
        awaitClasses(activity);
        Testing.record(activity, "picture-dark");
    }
}
