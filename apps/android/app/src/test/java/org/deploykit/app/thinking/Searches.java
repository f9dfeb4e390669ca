package org.deploykit.app.thinking;

import com.ibm.icu.text.BreakIterator;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.deploykit.app.models.sentences.Assets;
import org.deploykit.app.models.sentences.Options;
import org.deploykit.app.models.sentences.Sentences;

/** Reads and searches texts without Android, and prints what comes of it. */
public final class Searches implements Searcher.Source, Searcher.Listener {
    private final Assets assets;
    private final String sample;
    private final BlockingQueue<String> heard = new LinkedBlockingQueue<>();
    private volatile Text text;
    private volatile int read;

    private Searches(File assets, String sample) {
        this.assets = Assets.folder(assets);
        this.sample = sample;
    }

    public static void main(String[] words) throws Exception {
        String text = new String(Files.readAllBytes(Paths.get(words[1])), StandardCharsets.UTF_8);
        if (words[0].equals("passages")) {
            for (Text.Part passage : new Text(text, Searches::endsByIcu).passages) {
                System.out.println(passage.start + " " + passage.end);
            }
            return;
        }
        Searches searches = new Searches(new File(words[2]), text);
        File kept = new File(words[3], "kept.txt");
        searches.await("first", kept, 4); // classes are loaded, and code is compiled
        if (words[0].equals("memory")) {
            searches.memory(kept);
        } else {
            searches.stop(kept);
        }
    }

    /** Where sentences end, as browsers and Android find it. */
    private static int[] endsByIcu(String text) {
        BreakIterator sentences = BreakIterator.getSentenceInstance();
        sentences.setText(text);
        List<Integer> found = new ArrayList<>();
        for (int at = sentences.next(); at != BreakIterator.DONE; at = sentences.next()) {
            found.add(at);
        }
        return found.stream().mapToInt(Integer::intValue).toArray();
    }

    /** Read so many passages. */
    private void await(String query, File kept, int most) throws Exception {
        try (Searcher searcher = new Searcher(this, kept, Runnable::run)) {
            searcher.tell(this);
            searcher.ask(query);
            until("read", most);
        }
    }

    /** Passages, what was announced for the text, and what reading it took: objects, and memory of the process. */
    private void memory(File kept) throws Exception {
        long objects = live(), before = resident();
        try (Searcher searcher = new Searcher(this, kept, Runnable::run)) {
            searcher.tell(this);
            searcher.ask("how is the weather?");
            until("read", Integer.MAX_VALUE);
            System.out.println(text.passages.size());
            System.out.println(Searcher.memory(text));
            System.out.println(live() - objects);
            System.out.println(resident() - before);
        }
    }

    /** The milliseconds until reading has stopped, five times. */
    private void stop(File kept) throws Exception {
        try (Searcher searcher = new Searcher(this, kept, Runnable::run)) {
            searcher.tell(this);
            for (int i = 0; i < 5; ++i) {
                searcher.resume();
                until("read", read + 10);
                heard.clear();
                long start = System.nanoTime();
                searcher.stop();
                until("stopped", 0);
                System.out.println((System.nanoTime() - start) / 1_000_000 + " " + read);
            }
        }
    }

    private void until(String what, int passages) throws Exception {
        for (;;) {
            String word = heard.poll(200, TimeUnit.SECONDS);
            if (word == null) {
                throw new AssertionError("nothing is heard");
            }
            if (word.equals(what) && (read >= passages || read == text.passages.size())) {
                return;
            }
        }
    }

    private static long live() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    /** The most bytes of memory that this process has had. */
    private static long resident() throws IOException {
        for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return 1024 * Long.parseLong(line.replaceAll("\\D", ""));
            }
        }
        throw new AssertionError("no VmHWM");
    }

    @Override
    public Sentences model() {
        return Sentences.open(assets, new Options());
    }

    @Override
    public InputStream sample() {
        return new ByteArrayInputStream(sample.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void onText(Text text, boolean sample) {
        this.text = text;
    }

    @Override
    public void onRead(int passages, boolean stopped) {
        read = passages;
        heard.add(stopped ? "stopped" : "read");
    }

    @Override
    public void onFound(String query, List<Hit> hits) {
        heard.add("found");
    }

    @Override
    public void onFailed(Exception problem) {
        throw new AssertionError(problem);
    }
}
