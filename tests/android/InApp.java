import android.content.Context;
import android.content.res.AssetFileDescriptor;
import android.content.res.AssetManager;
import android.os.ParcelFileDescriptor;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
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

    public static void main(String[] words) {
        Options options = new Options().memory(() -> Long.MAX_VALUE / 2);
        Context context = context(new File(words[1]), new File(words[2]), words[0].equals("compressed"));
        try (Lookup model = Lookup.load(context, options)) {
            System.out.println(model.weightsMapped() + " " + model.run(new float[3], new long[1], 1, 3).scores);
        }
    }
}
