import android.content.Context;
import android.content.res.AssetFileDescriptor;
import android.content.res.AssetManager;
import android.os.ParcelFileDescriptor;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import org.deploykit.lookup.*;

/** Loads a model as an app does, whose file has the assets as they are, or compressed. */
public final class InApp {
    private InApp() {}

    /** A file that is open. */
    private static final class Opened extends AssetFileDescriptor {
        private final FileInputStream stream;
        private final File file;

        Opened(File file) throws IOException {
            this.file = file;
            stream = new FileInputStream(file);
        }

        @Override
        public ParcelFileDescriptor getParcelFileDescriptor() {
            return new ParcelFileDescriptor() {
                @Override
                public int getFd() {
                    try {
                        for (File each : new File("/proc/self/fd").listFiles()) {
                            if (each.getCanonicalPath().equals(file.getCanonicalPath())) {
                                return Integer.parseInt(each.getName());
                            }
                        }
                    } catch (IOException error) {
                        throw new AssertionError(error);
                    }
                    throw new AssertionError();
                }
            };
        }

        @Override
        public long getLength() {
            return file.length();
        }

        @Override
        public void close() throws IOException {
            stream.close();
        }
    }

    private static Context context(File assets, File cache, boolean compressed) {
        AssetManager manager = new AssetManager() {
            @Override
            public AssetFileDescriptor openFd(String name) throws IOException {
                if (compressed) {
                    throw new FileNotFoundException(name);
                }
                return new Opened(new File(assets, name));
            }

            @Override
            public InputStream open(String name) throws IOException {
                return new FileInputStream(new File(assets, name));
            }
        };
        return new Context() {
            @Override
            public Context getApplicationContext() {
                return this;
            }

            @Override
            public File getCacheDir() {
                return cache;
            }

            @Override
            public AssetManager getAssets() {
                return manager;
            }

            @Override
            public Object getSystemService(String name) {
                throw new AssertionError(name);
            }
        };
    }

    /** The names that parameters have in the classes, and in the message of a null. */
    private static void names(Context context) throws NoSuchMethodException {
        Class<?> numbers = long.class;
        System.out.println(Arrays.toString(
            Lookup.class.getMethod("run", float[].class, long[].class, numbers, numbers).getParameters()));
        System.out.println(Arrays.toString(Assets.class.getMethod("open", String.class).getParameters()));
        try (Lookup model = Lookup.load(context)) {
            model.run(null, new long[1], 1, 3);
        } catch (NullPointerException error) {
            System.out.println(error.getMessage());
        }
    }

    public static void main(String[] words) throws NoSuchMethodException {
        Options options = new Options().memory(() -> Long.MAX_VALUE / 2);
        Context context = context(new File(words[1]), new File(words[2]), words[0].equals("compressed"));
        if (words[0].equals("names")) {
            names(context);
            return;
        }
        try (Lookup model = Lookup.load(context, options)) {
            System.out.println(model.weightsMapped() + " " + model.run(new float[3], new long[1], 1, 3).scores);
        }
    }
}
