import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.deploykit.model.*;

/** Prints the words for the masks of texts: those of a file, in which each ends with a zero byte. */
public final class TextMasks {
    private static void print(List<List<Word>> masks) {
        StringBuilder line = new StringBuilder().append(masks.size());
        for (List<Word> words : masks) {
            for (Word word : words) {
                line.append('\t').append(word.token).append('\t').append(word.score).append('\t').append(word.text);
            }
        }
        System.out.println(line);
    }

    private static void refused(Runnable call) {
        try {
            call.run();
        } catch (DeploykitException error) {
            System.out.println(error.getClass().getSimpleName() + " " + error.getMessage());
        }
    }

    public static void main(String[] words) throws Exception {
        String file = new String(Files.readAllBytes(Paths.get(words[3])), StandardCharsets.UTF_8);
        List<String> texts = Arrays.asList(file.substring(0, file.length() - 1).split("\0", -1));
        int count = Integer.parseInt(words[4]);
        Model model = Model.open(Assets.folder(new File(words[1])), null);
        for (List<List<Word>> masks : model.fill(texts, count)) {
            print(masks);
        }
        print(model.fill(texts.get(0), 1000));
        System.out.println(model.fill(Collections.emptyList(), 1));
        refused(() -> model.fill("the cat", 1));
        refused(() -> model.fill(String.join(" ", Collections.nCopies(40, "cat")) + " " + texts.get(0), 1));
        refused(() -> model.fill(texts, 0));
        model.close();
        refused(() -> model.fill(texts, 1));
    }
}
