import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.List;
import org.deploykit.model.*;

/** Prints the classes of texts, with tables wherever they lie. */
public final class TextClasses {
    /** Assets of a folder of which those at `offset` bytes in a file are mapped, or none with -1. */
    private static Assets at(File folder, File place, int offset) {
        return new Assets() {
            @Override
            public Range range(String name) throws IOException {
                if (offset < 0) {
                    return null;
                }
                byte[] data = Files.readAllBytes(new File(folder, name).toPath());
                File file = new File(place, "moved" + offset + name.replace('/', '-'));
                byte[] moved = new byte[offset + data.length];
                System.arraycopy(data, 0, moved, offset, data.length);
                Files.write(file.toPath(), moved);
                return new Range(file.getPath(), offset, data.length);
            }

            @Override
            public InputStream open(String name) throws IOException {
                return new FileInputStream(new File(folder, name));
            }
        };
    }

    public static void main(String[] words) throws IOException {
        File folder = new File(words[1]), place = new File(words[2]);
        String file = new String(Files.readAllBytes(Paths.get(words[3])), StandardCharsets.UTF_8);
        List<String> texts = Arrays.asList(file.substring(0, file.length() - 1).split("\0", -1));
        try (Model model = Model.open(Assets.folder(folder), null)) {
            for (List<Label> labels : model.classify(texts)) {
                System.out.println(labels.get(0) + " " + labels.get(1));
            }
        }
        for (int offset : new int[] {4, 8, 70001, -1}) {
            try (Model model = Model.open(at(folder, place, offset), null)) {
                System.out.println(model.classify(texts.get(0)));
            }
        }
        byte[] damaged = Files.readAllBytes(new File(folder, "model/tokenizer.bin").toPath());
        Files.write(new File(folder, "model/tokenizer.bin").toPath(), Arrays.copyOf(damaged, 1000));
        open(folder);
        Arrays.fill(damaged, 0, 4, (byte) 0);
        Files.write(new File(folder, "model/tokenizer.bin").toPath(), damaged);
        open(folder);
        Files.delete(new File(folder, "model/tokenizer.bin").toPath());
        open(folder);
    }

    private static void open(File folder) {
        try (Model model = Model.open(Assets.folder(folder), null)) {
            System.out.println("opened");
        } catch (WeightsException error) {
            System.out.println(error.getMessage());
        }
    }
}
