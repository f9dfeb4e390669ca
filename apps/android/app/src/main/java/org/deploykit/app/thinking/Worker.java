package org.deploykit.app.thinking;

import java.io.IOException;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Works on a thread of its own, and tells a listener on the main thread what happens. */
abstract class Worker<L extends Worker.Hears> implements AutoCloseable {
    /** Hears of what happens, on the executor that was given for it. */
    public interface Hears {
        /** What was given could not be read, or the model has failed. */
        void onFailed(Exception problem);
    }

    interface Attempt {
        void run() throws IOException;
    }

    interface Call<L> {
        void to(L listener);
    }

    final ExecutorService worker = Executors.newSingleThreadExecutor();
    volatile boolean closed;
    private final Executor main;
    /** Used on the main thread only. */
    private L listener;

    Worker(Executor main) {
        this.main = main;
    }

    /** From now on {@code listener} hears, first of all of what there is; null hears nothing. */
    public void tell(L listener) {
        this.listener = listener;
        worker.execute(this::tellAll);
    }

    /** Tell what there is. */
    abstract void tellAll();

    final void tell(Call<L> call) {
        main.execute(() -> {
            if (listener != null && !closed) {
                call.to(listener);
            }
        });
    }

    final void attempt(Attempt what) {
        try {
            what.run();
        } catch (IOException | RuntimeException error) { // a provider of another app may raise anything
            tell(to -> to.onFailed(error));
        }
    }
}
