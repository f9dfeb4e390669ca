package org.deploykit.app.thinking;

import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicReference;
import org.deploykit.digits.DeploykitException;
import org.deploykit.digits.Digits;

/**
 * Reads drawings on a thread of its own. A picture that comes while another one is read waits; of several the newest is
 * read. Devices are opened on a second thread, while readings go on with the one before.
 */
public final class Reader implements AutoCloseable {
    /** Makes the model. Raises {@link DeploykitException}, for instance when there is no such device. */
    public interface Source {
        Digits open(String device, int threads);
    }

    /** Hears of what happens, on the executor that was given for it. */
    public interface Listener {
        void onRead(Reading reading);

        /** The model is on the device that was asked for. */
        void onOpened(String device, Digits model);

        /** A device could not be opened. */
        void onFailed(String device, String reason);

        /** A run failed on a device. */
        void onLost(String device, String reason);
    }

    private final Source source;
    private final Executor main;
    private final Listener listener;
    private final ExecutorService reading = Executors.newSingleThreadExecutor();
    private final ExecutorService opening = Executors.newSingleThreadExecutor();
    private final AtomicReference<float[]> waiting = new AtomicReference<>();
    private volatile boolean closed;
    /** Used on the thread of readings only. */
    private Digits model;

    public Reader(Source source, Executor main, Listener listener) {
        this.source = source;
        this.main = main;
        this.listener = listener;
    }

    /** Go on with another device once it is ready. If it cannot be opened, the one before stays. */
    public void use(String device, int threads) {
        opening.execute(() -> {
            try {
                Digits found = source.open(device, threads);
                found.run(new float[Raster.SIZE * Raster.SIZE], 1);
                reading.execute(() -> replace(device, found));
            } catch (DeploykitException error) {
                tell(() -> listener.onFailed(device, error.getMessage()));
            }
        });
    }

    /** Free the model, until the next {@link #use}. */
    public void release() {
        reading.execute(() -> {
            if (model != null) {
                model.close();
                model = null;
            }
        });
    }

    /** Read a picture. */
    public void read(float[] picture) {
        if (waiting.getAndSet(picture) == null) {
            reading.execute(this::readNewest);
        }
    }

    private void replace(String device, Digits found) {
        if (model != null) {
            model.close();
        }
        model = found;
        tell(() -> listener.onOpened(device, found));
        readNewest();
    }

    private void readNewest() {
        float[] picture = model == null ? null : waiting.getAndSet(null);
        if (picture == null) {
            return;
        }
        long start = System.nanoTime();
        try {
            float[] found = model.run(picture, 1).probability.floats();
            Reading result = new Reading(picture, found, System.nanoTime() - start);
            tell(() -> listener.onRead(result));
        } catch (DeploykitException error) {
            String device = model.device().name;
            tell(() -> listener.onLost(device, error.getMessage()));
        }
    }

    private void tell(Runnable what) {
        main.execute(() -> {
            if (!closed) {
                what.run();
            }
        });
    }

    /** End both threads and free the model. Nothing is heard afterwards. */
    @Override
    public void close() {
        closed = true;
        opening.execute(() -> {
            reading.execute(() -> {
                if (model != null) {
                    model.close();
                }
            });
            reading.shutdown();
        });
        opening.shutdown();
    }
}
