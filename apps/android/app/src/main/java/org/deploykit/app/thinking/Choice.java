package org.deploykit.app.thinking;

import java.util.Map;

/**
 * The device that the user chose, kept as texts. While a device is opened, its name is noted: if the app ends there, the
 * next start is on the CPU and says why.
 */
public final class Choice {
    public static final String CPU = "cpu";
    private static final String DEVICE = "device", TRYING = "trying", THREADS = "threads";

    /** Where texts are kept. Each change must be on the disk when {@code put} returns. */
    public interface Store {
        Map<String, ?> all();

        /** Keep a text; null removes it. */
        void put(String name, String text);
    }

    private final Store store;
    /** The device at which the app ended the last time; null if there is none. */
    public final String fatal;

    public Choice(Store store) {
        this.store = store;
        fatal = text(TRYING);
        if (fatal != null) {
            store.put(DEVICE, CPU);
            store.put(TRYING, null);
        }
    }

    public String device() {
        String found = text(DEVICE);
        return found == null ? CPU : found;
    }

    public int threads() {
        String found = text(THREADS);
        return found == null ? 1 : Integer.parseInt(found);
    }

    /** Called before a device is opened. */
    public void begin(String device, int threads) {
        if (!device.equals(CPU)) {
            store.put(TRYING, device);
        }
        store.put(THREADS, String.valueOf(threads));
    }

    /** Called when the device works, or has failed without ending the app. */
    public void end(String device, boolean works) {
        store.put(TRYING, null);
        if (works) {
            store.put(DEVICE, device);
        }
    }

    private String text(String name) {
        Object found = store.all().get(name);
        return found == null ? null : found.toString();
    }
}
