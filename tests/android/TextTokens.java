import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.deploykit.model.*;

/** Prints the spans of texts: those of a file, in which each ends with a zero byte, and those that follow here. */
public final class TextTokens {
    private static void print(String text, List<Span> spans) {
        StringBuilder line = new StringBuilder();
        for (Span span : spans) {
            if (!text.substring(span.start, span.end).equals(span.text)) {
                throw new AssertionError(span);
            }
            line.append(span.label).append(' ').append(span.score).append(' ').append(span.start).append(' ');
            line.append(span.end).append(' ');
        }
        System.out.println(line);
    }

    private static void several(Model model, List<String> texts) throws InterruptedException {
        String expected = model.tokens(texts).toString();
        List<String> failed = Collections.synchronizedList(new ArrayList<>());
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; ++i) {
            threads[i] = new Thread(() -> {
                for (int run = 0; run < 10; ++run) {
                    if (!model.tokens(texts).toString().equals(expected)) {
                        failed.add("other spans");
                    }
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(failed);
    }

    public static void main(String[] words) throws Exception {
        String file = new String(Files.readAllBytes(Paths.get(words[3])), StandardCharsets.UTF_8);
        List<String> texts = Arrays.asList(file.substring(0, file.length() - 1).split("\0", -1));
        Model model = Model.open(Assets.folder(new File(words[1])), null);
        List<List<Span>> found = model.tokens(texts);
        for (int i = 0; i < texts.size(); ++i) {
            print(texts.get(i), found.get(i));
        }
        print(texts.get(0), model.tokens(texts.get(0)));
        print("a \ud83d b", model.tokens("a \ud83d b"));
        System.out.println(model.tokens(Collections.emptyList()) + " " + Model.LABELS);
        several(model, texts);
        model.close();
        try {
            model.tokens("a");
        } catch (ClosedException error) {
            System.out.println(error.getMessage());
        }
    }
}
