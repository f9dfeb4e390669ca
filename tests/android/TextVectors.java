import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.deploykit.model.*;

/** Prints the vectors of the texts in a file, in which each ends with a zero byte. */
public final class TextVectors {
    public static void main(String[] words) throws IOException {
        String file = new String(Files.readAllBytes(Paths.get(words[3])), StandardCharsets.UTF_8);
        List<String> texts = Arrays.asList(file.substring(0, file.length() - 1).split("\0", -1));
        try (Model model = Model.open(Assets.folder(new File(words[1])), null)) {
            for (float[] vector : model.embed(texts)) {
                StringBuilder line = new StringBuilder();
                for (float x : vector) {
                    line.append(x).append(' ');
                }
                System.out.println(line);
            }
            float[][] two = model.embed("a", "the cat");
            System.out.println(two.length + " " + two[1].length);
            System.out.println(model.embed(Collections.emptyList()).length);
        }
    }
}
