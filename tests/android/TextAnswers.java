import java.io.File;
import java.util.Arrays;
import java.util.Collections;
import org.deploykit.model.*;

/** Prints the answers to a question from contexts. */
public final class TextAnswers {
    public static void main(String[] words) {
        try (Model model = Model.open(Assets.folder(new File(words[1])), null)) {
            String several = "\ud83d\ude00 " + String.join("", Collections.nCopies(9, "sat on the mat. "));
            for (String context : Arrays.asList("the cat sat on a mat", "a", several)) {
                Span span = model.answer("who sat?", context);
                System.out.println(span.score + " " + span.start + " " + span.end + " " + span.text);
            }
            for (String question : Arrays.asList("who?", String.join(" ", Collections.nCopies(38, "who")))) {
                try {
                    model.answer(question, question.equals("who?") ? "" : "a");
                } catch (DeploykitException error) {
                    System.out.println(error.getMessage());
                }
            }
        }
    }
}
