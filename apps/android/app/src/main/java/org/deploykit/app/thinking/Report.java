package org.deploykit.app.thinking;

import java.util.Locale;
import org.deploykit.digits.DeploykitException;
import org.deploykit.digits.Device;
import org.deploykit.digits.Digits;

/** Measures the model on each device, a line each. A device that fails is a line, too. */
public final class Report {
    private static final int RUNS = 50;

    /** Hears each line as soon as it is known. */
    public interface Listener {
        void onLine(String line);
    }

    private final Reader.Source source;
    private volatile boolean cancelled;

    public Report(Reader.Source source) {
        this.source = source;
    }

    /** End after the run that is under way. */
    public void cancel() {
        cancelled = true;
    }

    public void measure(Listener listener) {
        for (Device device : Digits.devices()) {
            if (cancelled) {
                return;
            }
            String line = device.name + ", " + device.description + ": ";
            try {
                line += measured(device.name);
            } catch (DeploykitException error) {
                line += error.getMessage();
            }
            listener.onLine(line);
        }
    }

    private String measured(String device) {
        float[] picture = new float[Raster.SIZE * Raster.SIZE];
        long start = System.nanoTime();
        try (Digits model = source.open(device, 1)) {
            model.run(picture, 1);
            double first = (System.nanoTime() - start) / 1e6;
            Times times = new Times();
            for (int i = 0; i < RUNS && !cancelled; ++i) {
                long begin = System.nanoTime();
                model.run(picture, 1);
                times.add(System.nanoTime() - begin);
            }
            return times.runs() == 0 ? "-" : String.format(Locale.ROOT, "first %.1f ms, median %.3f ms, 95 %% %.3f ms",
                    first, times.milliseconds(0.5), times.milliseconds(0.95));
        }
    }
}
