package org.deploykit.app.thinking;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.Executor;
import org.deploykit.app.models.sentences.DeploykitException;
import org.deploykit.app.models.sentences.Sentences;

/**
 * Finds the passages of a text that are closest in meaning to a query, on a thread of its own. It computes the vectors of
 * few passages at a time, so that a query waits for a moment only. The text is kept in a file; where there is none, it is
 * the sample.
 */
public final class Searcher extends Worker<Searcher.Listener> {
    /** Passages whose vectors are computed together; more are not faster. */
    private static final int AT_ONCE = 4;
    /** The model reads so many tokens of a passage at most. */
    private static final int MOST_TOKENS = 256;
    /** How many passages answer a query. */
    private static final int BEST = 10;
    private static final int WIDTH = 384;
    /** While passages are read, answers are given again after this many nanoseconds. */
    private static final long AGAIN = 250_000_000L;

    /** Opens what the search works with. */
    public interface Source {
        Sentences model();

        InputStream sample() throws IOException;
    }

    /** A text that is about to be read. */
    public interface Origin {
        InputStream open() throws IOException;
    }

    /** Hears of what happens, on the executor that was given for it. */
    public interface Listener extends Hears {
        /** There is another text. */
        void onText(Text text, boolean sample);

        /** So many passages have a vector; whether more get one now, or that was stopped. */
        void onRead(int passages, boolean stopped);

        /** The answers to the last query; none for an empty one. */
        void onFound(String query, List<Hit> hits);
    }

    private final Source source;
    private final File kept;
    private volatile boolean stopped;
    private volatile Sentences model;

    /** The fields from here on are used on the worker only. */
    private Text text = new Text("");
    private boolean sample;
    private Vectors vectors = new Vectors(0);
    private String query = "";
    private float[] wanted;
    private boolean asked;
    private boolean waits;
    private long answered;

    /** The text of the last time is read at once. */
    public Searcher(Source source, File kept, Executor main) {
        super(main);
        this.source = source;
        this.kept = kept;
        worker.execute(() -> attempt(() -> use(kept.exists() ? TextFile.read(kept) : sample(), !kept.exists())));
    }

    /** The bytes that reading and searching a text takes beside the model's weights: for runs, for vectors, for texts. */
    public static long memory(Text text) {
        long vectors = text.passages.size() * (4L * WIDTH + 64), texts = 4L * text.whole.length();
        return Sentences.memory(AT_ONCE, AT_ONCE * MOST_TOKENS) + vectors + texts;
    }

    @Override
    void tellAll() {
        tellText();
        tellFound();
    }

    /** Take another text, as soon as it could be read. */
    public void take(Origin origin) {
        worker.execute(() -> attempt(() -> {
            String found = TextFile.read(origin.open());
            TextFile.write(kept, found);
            use(found, false);
        }));
    }

    /** Take the sample again. */
    public void takeSample() {
        worker.execute(() -> attempt(() -> {
            kept.delete();
            use(sample(), true);
        }));
    }

    /** Ask something, or nothing: an empty text. */
    public void ask(String words) {
        worker.execute(() -> {
            if (!query.equals(words)) {
                query = words;
                asked = false;
                work();
            }
        });
    }

    /** Stop reading, in the midst of a run. What was read stays. */
    public void stop() {
        stopped = true;
        Sentences running = model;
        if (running != null) {
            running.cancel();
        }
        worker.execute(this::tellRead);
    }

    /** Go on with reading. */
    public void resume() {
        stopped = false;
        worker.execute(this::work);
    }

    /** Free the model. It is opened again for the next run. */
    public void release() {
        worker.execute(() -> {
            if (model != null) {
                model.close();
                model = null;
            }
        });
    }

    private String sample() throws IOException {
        return TextFile.read(source.sample());
    }

    private void use(String whole, boolean isSample) {
        text = new Text(whole);
        sample = isSample;
        vectors = new Vectors(text.passages.size());
        stopped = false;
        tellText();
        work();
    }

    /** Go on, after what waits meanwhile. */
    private void work() {
        if (!waits) {
            waits = true;
            worker.execute(this::step);
        }
    }

    private void step() {
        waits = false;
        if (closed) {
            return;
        }
        try {
            if (!asked) {
                answer();
            } else if (!stopped && vectors.count() < text.passages.size()) {
                read();
            } else {
                return;
            }
            work();
        } catch (CancellationException error) {
            work(); // a query that was stopped is asked again
        } catch (DeploykitException error) {
            stopped = true;
            asked = true;
            tell(to -> to.onFailed(error));
            tellRead();
        }
    }

    private void answer() {
        wanted = query.trim().isEmpty() ? null : opened().embed(query)[0];
        asked = true;
        tellFound();
    }

    private void read() {
        List<String> batch = new ArrayList<>();
        int end = Math.min(text.passages.size(), vectors.count() + AT_ONCE);
        for (Text.Part passage : text.passages.subList(vectors.count(), end)) {
            batch.add(text.whole.substring(passage.start, passage.end));
        }
        for (float[] vector : opened().embed(batch)) {
            vectors.add(vector);
        }
        tellRead();
        if (end == text.passages.size() || System.nanoTime() - answered > AGAIN) {
            tellFound();
        }
    }

    private Sentences opened() {
        Sentences found = model;
        if (found == null) {
            model = found = source.model();
        }
        return found;
    }

    private void tellText() {
        Text now = text;
        boolean isSample = sample;
        tell(to -> to.onText(now, isSample));
        tellRead();
    }

    private void tellRead() {
        int count = vectors.count();
        boolean ends = stopped;
        tell(to -> to.onRead(count, ends));
    }

    private void tellFound() {
        if (!asked) {
            return;
        }
        String words = query;
        List<Hit> hits = wanted == null ? Collections.emptyList() : vectors.closest(wanted, BEST);
        answered = System.nanoTime();
        tell(to -> to.onFound(words, hits));
    }

    /** Stop what is under way, end the thread and free the model. Nothing is heard afterwards. */
    @Override
    public void close() {
        closed = true;
        stop();
        release();
        worker.execute(worker::shutdown); // behind the step that is under way, which may wait for a turn
    }
}
