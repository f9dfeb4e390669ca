package org.deploykit.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import android.app.Activity;
import android.content.ClipData;
import android.content.ClipboardManager;
import android.content.Intent;
import android.net.Uri;
import android.text.Spanned;
import android.text.style.BackgroundColorSpan;
import android.view.View;
import android.widget.EditText;
import android.widget.ListView;
import android.widget.ProgressBar;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.nio.charset.StandardCharsets;
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

/** The screen Search, with the real model. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = {24, 29, 34, 36})
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public class SearchTest {
    private static final String PHONE = "w360dp-h740dp-mdpi";
    private static final String WEATHER = "It snows.\n\nThe trains are on time.";
    private static final Uri FILE = Uri.parse("content://files/1");

    private ActivityController<SearchActivity> controller;

    private SearchActivity launch(String qualifiers, Intent intent) {
        RuntimeEnvironment.setQualifiers(qualifiers);
        controller = Robolectric.buildActivity(SearchActivity.class, intent).setup();
        return controller.get();
    }

    private SearchActivity launch(String qualifiers) {
        return launch(qualifiers, new Intent(Intent.ACTION_MAIN));
    }

    private static Intent shared(String text) {
        return new Intent(Intent.ACTION_SEND).putExtra(Intent.EXTRA_TEXT, text);
    }

    @After
    public void end() {
        controller.close();
    }

    private static ListView list(Activity activity) {
        return activity.findViewById(R.id.passages);
    }

    private static String row(Activity activity, int row) {
        Object words = row < list(activity).getCount() ? list(activity).getItemAtPosition(row) : "";
        return words.toString();
    }

    private static void awaitFirst(Activity activity, String words) throws InterruptedException {
        Testing.await(() -> words + " instead of " + row(activity, 0), () -> row(activity, 0).startsWith(words));
    }

    /** Wait until all passages of a text, which has this one in its facts, are read. */
    private static void awaitRead(Activity activity, String facts) throws InterruptedException {
        ListView list = list(activity);
        Testing.await(() -> facts + "; " + Testing.text(activity, R.id.problem), () -> has(list, facts)
                && activity.findViewById(R.id.reading).getVisibility() == View.GONE);
    }

    private static boolean has(ListView list, String words) {
        for (int row = 0; row < list.getCount(); ++row) {
            if (list.getItemAtPosition(row).toString().contains(words)) {
                return true;
            }
        }
        return false;
    }

    private static void ask(Activity activity, String words) {
        ((EditText) activity.findViewById(R.id.query)).setText(words);
    }

    private static int marks(Activity activity) {
        int count = 0;
        for (int row = 0; row < list(activity).getCount(); ++row) {
            Object words = list(activity).getItemAtPosition(row);
            count += words instanceof Spanned
                    ? ((Spanned) words).getSpans(0, ((Spanned) words).length(), BackgroundColorSpan.class).length : 0;
        }
        return count;
    }

    @Test
    public void aQueryFindsTheSentenceThatAnswersIt() throws Exception {
        SearchActivity activity = launch(PHONE);
        awaitFirst(activity, "Can I bring my dog?"); // a query to try
        Testing.record(activity, "search");
        list(activity).performItemClick(null, 0, 0);
        awaitFirst(activity, "Animals · Four-legged guests are welcome");
        awaitRead(activity, "70 passages");
        assertTrue(Testing.text(activity, R.id.status).contains("passages come close"));
        Testing.record(activity, "search-found");
        ask(activity, "what does it cost?");
        awaitFirst(activity, "The stay costs sixty a night");
        assertTrue(marks(activity) > 0);
        list(activity).performItemClick(null, 0, 0); // to its place in the text
        if (RuntimeEnvironment.getApiLevel() > 24) { // Robolectric's texts have no height there: all rows are visible
            Testing.await(() -> "the place", () -> list(activity).getFirstVisiblePosition() > 10);
        }
        Testing.record(activity, "search-place");
        ask(activity, "");
        awaitFirst(activity, "Can I bring my dog?");
        assertEquals(0, marks(activity));
        ask(activity, "xyzzy quux");
        Testing.await(() -> Testing.text(activity, R.id.status), () ->
                Testing.text(activity, R.id.status).startsWith("Nothing in the text"));
    }

    @Test
    public void textsComeFromTheClipboardFromFilesAndFromOtherApps() throws Exception {
        SearchActivity activity = launch(PHONE, shared(WEATHER));
        awaitRead(activity, "2 passages");
        activity.findViewById(R.id.paste).performClick();
        assertEquals("There is no text to paste. Copy one first.", Testing.text(activity, R.id.problem));
        activity.getSystemService(ClipboardManager.class).setPrimaryClip(
                ClipData.newPlainText("", "One is red.\n\nTwo is green.\n\nThree is blue."));
        activity.findViewById(R.id.paste).performClick();
        awaitRead(activity, "3 passages");
        assertEquals(View.GONE, activity.findViewById(R.id.problem).getVisibility());
        openFile(activity, "A single sentence.".getBytes(StandardCharsets.UTF_8));
        awaitRead(activity, "1 passage.");
        openFile(activity, new byte[] {'a', (byte) 0xff});
        Testing.await(() -> Testing.text(activity, R.id.problem), () ->
                Testing.text(activity, R.id.problem).startsWith("This file is not a text in UTF-8."));
        openFile(activity, new byte[2_000_001]);
        Testing.await(() -> Testing.text(activity, R.id.problem), () ->
                Testing.text(activity, R.id.problem).startsWith("This file has more than 2 MB."));
        assertTrue(has(list(activity), "1 passage."));
        activity.findViewById(R.id.sample).performClick();
        Testing.await(() -> "the sample", () -> has(list(activity), "70 passages"));
    }

    private static void openFile(SearchActivity activity, byte[] bytes) {
        activity.findViewById(R.id.open).performClick();
        Intent asked = Shadows.shadowOf(activity).getNextStartedActivity();
        assertEquals(Intent.ACTION_OPEN_DOCUMENT, asked.getAction());
        Shadows.shadowOf(activity.getApplicationContext().getContentResolver())
                .registerInputStreamSupplier(FILE, () -> new ByteArrayInputStream(bytes));
        Shadows.shadowOf(activity).receiveResult(asked, Activity.RESULT_OK, new Intent().setData(FILE));
    }

    @Test
    public void readingIsStoppedAndGoesOn() throws Exception {
        SearchActivity activity = launch(PHONE, shared(sentences(3000)));
        ProgressBar progress = activity.findViewById(R.id.progress);
        Testing.await(() -> "some passages", () -> progress.getProgress() > 20);
        Testing.record(activity, "search-reading");
        activity.findViewById(R.id.stop).performClick();
        Testing.await(() -> "the end", () -> Testing.text(activity, R.id.stop).equals("Go on"));
        int read = progress.getProgress();
        ask(activity, "sentence number 7");
        Testing.await(() -> Testing.text(activity, R.id.status), () -> Testing.text(activity, R.id.status).contains("close"));
        assertEquals(read, progress.getProgress());
        activity.findViewById(R.id.stop).performClick();
        Testing.await(() -> "more passages", () -> progress.getProgress() > read);
    }

    private static String sentences(int count) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < count; ++i) {
            text.append("This is the sentence number ").append(i).append(" of a text. ");
        }
        return text.toString();
    }

    @Test
    public void aRotationKeepsWhatWasRead() throws Exception {
        SearchActivity activity = launch("w360dp-h740dp-port-mdpi", shared(WEATHER));
        awaitRead(activity, "2 passages");
        ask(activity, "frozen water from the sky");
        awaitFirst(activity, "It snows.");
        RuntimeEnvironment.setQualifiers("+w740dp-h360dp-land");
        controller.recreate();
        awaitFirst(controller.get(), "It snows.");
        assertEquals(View.GONE, controller.get().findViewById(R.id.reading).getVisibility());
        Testing.record(controller.get(), "search-landscape");
    }

    @Test
    public void anEndOfTheProcessKeepsTheText() throws Exception {
        SearchActivity activity = launch(PHONE, shared(WEATHER));
        awaitRead(activity, "2 passages");
        controller.close();
        assertTrue(new File(activity.getFilesDir(), "search.txt").exists());
        awaitRead(launch(PHONE), "2 passages");
    }

    @Test
    public void whenMemoryIsShortTheModelIsFreedAndOpenedAgain() throws Exception {
        SearchActivity activity = launch(PHONE, shared(WEATHER));
        awaitRead(activity, "2 passages");
        activity.onTrimMemory(Activity.TRIM_MEMORY_COMPLETE);
        ask(activity, "frozen water from the sky");
        awaitFirst(activity, "It snows.");
    }

    @Test
    @Config(sdk = 34)
    public void aSmallDarkPhoneInGerman() throws Exception {
        SearchActivity activity = launch("de-w320dp-h640dp-night-mdpi");
        ask(activity, "how high is the tower in metres");
        awaitFirst(activity, "It is thirty-one metres high");
        Testing.record(activity, "search-dark");
    }
}
