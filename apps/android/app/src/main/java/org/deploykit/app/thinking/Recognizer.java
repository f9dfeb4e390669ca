package org.deploykit.app.thinking;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.List;
import java.util.concurrent.Executor;
import org.deploykit.app.models.animals.Animals;
import org.deploykit.app.models.animals.Label;

/**
 * Says what is in a picture, on a thread of its own. The picture is kept in a file as it came, so that it is there again
 * after the app has ended.
 *
 * @param <P> a picture in memory
 */
public final class Recognizer<P> extends Worker<Recognizer.Listener<P>> {
    /** What is done with pictures and the model. */
    public interface Source<P> {
        Animals model();

        /** The picture of a file, turned as the file says. Raises {@link IOException} if it is none. */
        P decoded(File file) throws IOException;

        List<Label> classify(Animals model, P picture);
    }

    /** A picture that is about to come. */
    public interface Origin {
        void write(OutputStream file) throws IOException;
    }

    /** Hears of what happens, on the executor that was given for it. */
    public interface Listener<P> extends Hears {
        /** There is a picture; its classes follow. */
        void onPicture(P picture);

        /** The classes of the last picture, the best first, and how long that took. */
        void onClasses(List<Label> classes, long nanoseconds);
    }

    private final Source<P> source;
    private final File kept;

    /** The fields from here on are used on the worker only. */
    private Animals model;
    private P picture;
    private List<Label> classes;
    private long took;

    /** The picture of the last time is read at once, if there is one. */
    public Recognizer(Source<P> source, File kept, Executor main) {
        super(main);
        this.source = source;
        this.kept = kept;
        worker.execute(() -> {
            if (kept.exists()) {
                attempt(() -> use(source.decoded(kept)));
            }
        });
    }

    @Override
    void tellAll() {
        if (picture != null) {
            tellPicture();
        }
        if (classes != null) {
            tellClasses();
        }
    }

    /** Take another picture. */
    public void take(Origin origin) {
        worker.execute(() -> attempt(() -> {
            File coming = new File(kept.getPath() + "-coming");
            try (OutputStream stream = new FileOutputStream(coming)) {
                origin.write(stream);
            }
            P found = source.decoded(coming);
            if (!coming.renameTo(kept)) {
                throw new IOException("cannot write " + kept);
            }
            use(found);
        }));
    }

    /** Copy a stream, which is closed. */
    public static void copy(InputStream from, OutputStream to) throws IOException {
        byte[] part = new byte[1 << 16];
        try (InputStream closed = from) {
            for (int count = closed.read(part); count >= 0; count = closed.read(part)) {
                to.write(part, 0, count);
            }
        }
    }

    /** Free the model. It is opened again for the next picture. */
    public void release() {
        worker.execute(() -> {
            if (model != null) {
                model.close();
                model = null;
            }
        });
    }

    private void use(P found) {
        picture = found;
        classes = null;
        tellPicture();
        long start = System.nanoTime();
        if (model == null) {
            model = source.model();
            start = System.nanoTime();
        }
        classes = source.classify(model, found);
        took = System.nanoTime() - start;
        tellClasses();
    }

    private void tellPicture() {
        P found = picture;
        tell(to -> to.onPicture(found));
    }

    private void tellClasses() {
        List<Label> found = classes;
        long time = took;
        tell(to -> to.onClasses(found, time));
    }

    /** End the thread and free the model. Nothing is heard afterwards. */
    @Override
    public void close() {
        closed = true;
        release();
        worker.shutdown();
    }
}
