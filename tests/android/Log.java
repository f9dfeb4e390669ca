package android.util;

/** Prints what is logged. */
public final class Log {
    private Log() {}

    public static int w(String tag, String message) {
        System.out.println(tag + ": " + message);
        return 0;
    }
}
