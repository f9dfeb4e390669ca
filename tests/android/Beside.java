import com.acme.talk.*;
import java.io.File;
import java.util.Arrays;

/** A model that generates, and another one beside it. */
public final class Beside {
    private Beside() {}

    public static void main(String[] words) {
        Assets assets = Assets.folder(new File(words[1]));
        try (Teller teller = Teller.open(assets, null); Next next = Next.open(assets, null)) {
            Settings settings = new Settings().maxTokens(6).temperature(0).ignoreEnd(true);
            System.out.println(Arrays.toString(teller.complete(Prompt.text("abc"), settings).tokens));
            System.out.println(next.run(Tensor.of(new float[16], 1, 16)).more.size());
            Chat chat = teller.chat("S", settings);
            System.out.println(chat.ask("a").tokens.length);
        }
    }
}
