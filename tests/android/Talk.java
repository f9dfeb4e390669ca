import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Flow;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.deploykit.model.*;

/** Cases of a model that generates, which print what they find; `tests/android/test_answers_in_java.py` has the rest. */
public final class Talk {
    private static final List<Message> THREE =
        Arrays.asList(Message.user("abc"), Message.assistant("de"), Message.user("f"));

    private static File assets;

    private static Model open(Options options) {
        return Model.open(Assets.folder(assets), options);
    }

    private static Settings nine() {
        return new Settings().maxTokens(9).ignoreEnd(true);
    }

    public static void main(String[] words) throws Exception {
        assets = new File(words[1]);
        switch (words[0]) {
            case "answers": answers(words[3]); break;
            case "pieces": pieces(); break;
            case "remembered": remembered(); break;
            case "refused": refused(); break;
            case "listeners": listeners(); break;
            case "publisher": publisher(); break;
            case "misuse": misuse(); break;
            case "closing": closing(); break;
            case "memory": memory(); break;
            case "unspoken": unspoken(); break;
            case "repeated": repeated(); break;
            case "windows": windows(); break;
            case "saved": saved(); break;
            case "restored": restored(new File(words[3]), new File(words[4])); break;
            case "unsaved": unsaved(new File(words[3])); break;
            case "rate": rate(words[3]); break;
            default: throw new AssertionError(words[0]);
        }
    }

    /** An answer as a literal of Python. */
    private static void print(Answer answer) {
        System.out.println("[" + quoted(answer.text) + ", " + Arrays.toString(answer.tokens) + ", '"
            + answer.reason.name().toLowerCase() + "', " + Arrays.toString(answer.logprobs) + "]");
    }

    private static String quoted(String text) {
        StringBuilder made = new StringBuilder("'");
        for (char unit : text.toCharArray()) {
            made.append(String.format("\\u%04x", (int) unit));
        }
        return made.append("'").toString();
    }

    private static void answers(String stop) {
        try (Model model = open(new Options().threads(2))) {
            Prompt hello = Prompt.text("hello");
            print(model.complete(hello, nine()));
            print(model.complete(Prompt.user("abc"), nine()));
            print(model.complete(Prompt.messages(THREE), nine()));
            print(model.complete(Prompt.tokens(1, 2, 3, 4), nine()));
            print(model.complete(hello, new Settings().maxTokens(20).ignoreEnd(true).stop("never", stop)));
            Settings drawn = new Settings().maxTokens(30).temperature(0.9f).topP(0.95f).seed(5);
            print(model.complete(hello, drawn));
            print(model.complete(hello, new Settings(drawn).seed(6).topK(30).minP(0.01f).typicalP(0.9f)));
            print(model.complete(hello, new Settings(drawn).repetitionPenalty(1.3f).presencePenalty(0.2f)
                .frequencyPenalty(0.1f).penaltyLast(8).logitBias(7, 4).logitBias(3, Float.NEGATIVE_INFINITY)));
            print(model.complete(Prompt.text("a".repeat(37)), new Settings(drawn).maxTokens(Integer.MAX_VALUE)));
            print(model.complete(hello));
            print(model.complete(hello, new Settings().maxTokens(0)));
        }
    }

    private static void pieces() {
        try (Model model = open(null)) {
            String whole = model.complete(Prompt.text("hello"), nine()).text;
            StringBuilder text = new StringBuilder();
            List<Integer> tokens = new ArrayList<>();
            Generation generation = model.generate(Prompt.text("hello"), nine());
            while (generation.hasNext()) {
                Piece piece = generation.next();
                text.append(piece.text);
                tokens.add(piece.token);
            }
            Answer answer = generation.answer();
            System.out.println(whole.contentEquals(text) + " " + answer.text.equals(whole));
            System.out.println(tokens.toString().equals(Arrays.toString(answer.tokens)) + " " + answer.reason);
            System.out.println(answer.rate() > 0 && answer.promptSeconds > 0 && answer.seconds > 0);
            try {
                generation.next();
            } catch (NoSuchElementException error) {
                System.out.println(error.getMessage());
            }
        }
    }

    private static void remembered() {
        try (Model model = open(null)) {
            System.out.println(model.complete(Prompt.text("hello"), nine()).promptTokens);
            System.out.println(model.complete(Prompt.text("hello"), nine()).promptTokens);
            System.out.println(model.complete(Prompt.text("help"), nine()).promptTokens);
            model.completeReserve(40);
            System.out.println(model.complete(Prompt.text("hello"), nine()).promptTokens);
            Chat chat = model.chat("s", new Settings().maxTokens(4).ignoreEnd(true));
            Answer first = chat.ask("abc");
            int read = first.promptTokens;
            Answer second = chat.ask("d");
            System.out.println(read + " " + second.promptTokens + " " + chat.messages().size());
            print(first);
            print(second);
            try {
                chat.ask("x".repeat(50));
            } catch (DataException error) {
                System.out.println(chat.messages().size());
            }
            chat.reset();
            System.out.println(chat.messages());
            System.out.println(chat.ask("abc").text.equals(first.text));
        }
    }

    private interface Call {
        void run();
    }

    private static void refuse(Call call) {
        try {
            call.run();
            System.out.println("nothing");
        } catch (RuntimeException error) {
            System.out.println(error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }

    private static void refused() {
        Settings own = new Settings();
        for (Call call : Arrays.<Call>asList(
                () -> own.temperature(Float.NaN), () -> own.temperature(-1), () -> own.topP(2), () -> own.topK(-1),
                () -> own.minP(Float.NaN), () -> own.repetitionPenalty(0), () -> own.penaltyLast(-2),
                () -> own.presencePenalty(Float.POSITIVE_INFINITY), () -> own.seed(-1), () -> own.maxTokens(-1),
                () -> own.stop(""), () -> own.stop("x".repeat(257)), () -> own.logitBias(10_000_000, 1),
                () -> own.logitBias(0, Float.NaN))) {
            refuse(call);
        }
        Model model = open(null);
        String text = model.complete(Prompt.text("hello"), nine()).text;
        for (Prompt prompt : Arrays.asList(
                Prompt.text(""), Prompt.text("a".repeat(50)), Prompt.tokens(), Prompt.tokens(1, 10_000_000),
                Prompt.tokens(-1), Prompt.messages(new Message("robot", "x")), Prompt.tokens(new int[41]))) {
            refuse(() -> model.complete(prompt));
        }
        Settings none = new Settings();
        for (int token = 0; token < 50; ++token) {
            none.logitBias(token, Float.NEGATIVE_INFINITY);
        }
        refuse(() -> model.complete(Prompt.text("hello"), none));
        refuse(() -> model.completeReserve(41));
        refuse(() -> Model.completeMemory(0));
        try (Generation open = model.generate(Prompt.text("hello"), nine())) {
            refuse(() -> model.complete(Prompt.text("abc")));
            refuse(() -> model.completeReserve(8));
            System.out.println(text.startsWith(open.next().text));
        }
        System.out.println(model.complete(Prompt.text("hello"), nine()).text.equals(text));
        model.completeReserve(4);
        refuse(() -> model.complete(Prompt.text("hello")));
        System.out.println(model.complete(Prompt.text("abc")).tokens.length);
        model.close();
        refuse(() -> model.complete(Prompt.text("hello")));
        refuse(() -> model.completeReserve(8));
    }

    private static void listeners() throws Exception {
        ExecutorService pool = Executors.newSingleThreadExecutor();
        try (Model model = open(null)) {
            Prompt hello = Prompt.text("hello");
            Answer whole = model.complete(hello, nine());
            for (int most = 1; most <= 9; ++most) {
                int end = most;
                List<Piece> heard = new ArrayList<>();
                Answer part = model.complete(hello, nine(), piece -> heard.add(piece) && heard.size() < end);
                int[] expected = Arrays.copyOf(whole.tokens, most);
                if (!Arrays.equals(part.tokens, expected) || heard.size() != most) {
                    throw new AssertionError(Arrays.toString(part.tokens));
                }
                System.out.print(part.reason + (most < 9 ? " " : "\n"));
            }
            refuse(() -> model.complete(hello, nine(), piece -> {
                throw new IllegalStateException("of the listener");
            }));
            System.out.println(model.completeAsync(pool, hello, nine(), null).get().text.equals(whole.text));
            try {
                model.completeAsync(pool, Prompt.text(""), null, null).get();
            } catch (ExecutionException error) {
                System.out.println(error.getCause().getClass().getSimpleName());
            }
            CompletableFuture<Future<Answer>> own = new CompletableFuture<>();
            AtomicInteger heard = new AtomicInteger();
            Settings long_ = new Settings().ignoreEnd(true);
            own.complete(model.completeAsync(pool, hello, long_, piece -> {
                if (heard.incrementAndGet() == 3) {
                    own.join().cancel(true);
                }
                return true;
            }));
            try {
                own.join().get();
            } catch (CancellationException error) {
                pool.submit(() -> {}).get(); // behind the answer
                System.out.println("cancelled " + heard);
            }
            System.out.println(model.complete(hello, nine()).text.equals(whole.text));
            Generation open = model.generate(hello, nine());
            open.next();
            open.close();
            System.out.println(open.hasNext() + " " + open.answer().reason + " " + open.answer().tokens.length);
        }
        pool.shutdown();
    }

    /** Requests so many pieces at a time, and notes what it gets. */
    private static class Reader implements Flow.Subscriber<Piece> {
        final StringBuilder text = new StringBuilder();
        final CountDownLatch ended = new CountDownLatch(1);
        final Semaphore got = new Semaphore(0);
        final long atOnce;
        volatile int pieces;
        volatile Throwable error;
        volatile boolean complete;
        volatile Flow.Subscription subscription;

        Reader(long atOnce) {
            this.atOnce = atOnce;
        }

        @Override
        public void onSubscribe(Flow.Subscription given) {
            subscription = given;
            if (atOnce > 0) {
                given.request(atOnce);
            }
        }

        @Override
        public void onNext(Piece piece) {
            text.append(piece.text);
            ++pieces;
            got.release();
            if (atOnce > 0 && pieces % atOnce == 0) {
                subscription.request(atOnce);
            }
        }

        @Override
        public void onError(Throwable found) {
            error = found;
            ended.countDown();
        }

        @Override
        public void onComplete() {
            complete = true;
            ended.countDown();
        }
    }

    private static void publisher() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(2);
        try (Model model = open(null)) {
            Prompt hello = Prompt.text("hello");
            String whole = model.complete(hello, nine()).text;
            Flow.Publisher<Piece> publisher = model.publish(pool, hello, nine());
            for (long atOnce : new long[] {1, 2, 100, Long.MAX_VALUE}) {
                Reader reader = new Reader(atOnce);
                publisher.subscribe(reader);
                reader.ended.await();
                System.out.println(reader.text.toString().equals(whole) + " " + reader.pieces + " " + reader.complete);
            }
            Reader inPlace = new Reader(1);
            model.publish(Runnable::run, hello, nine()).subscribe(inPlace);
            System.out.println(inPlace.text.toString().equals(whole) + " " + inPlace.complete);

            // Slow: nothing is written that was not requested.
            Reader slow = new Reader(0);
            publisher.subscribe(slow);
            Thread.sleep(50);
            System.out.println(slow.pieces + " " + model.complete(hello, nine()).text.equals(whole));
            slow.subscription.request(2);
            slow.got.acquire(2);
            Thread.sleep(100);
            System.out.println(slow.pieces + " " + slow.got.availablePermits());
            refuse(() -> model.complete(hello));
            Reader second = new Reader(1);
            publisher.subscribe(second);
            second.ended.await();
            System.out.println(second.error.getClass().getSimpleName());
            for (int i = 0; i < 7; ++i) {
                Thread.sleep(5);
                slow.subscription.request(1);
            }
            slow.ended.await();
            System.out.println(slow.text.toString().equals(whole) + " " + slow.complete);

            Reader left = new Reader(0);
            publisher.subscribe(left);
            left.subscription.request(3);
            left.got.acquire(3);
            left.subscription.cancel();
            left.subscription.cancel();
            left.subscription.request(5);
            System.out.println(model.complete(hello, nine()).text.equals(whole) + " " + left.pieces + " " + left.ended.getCount());
            Reader unasked = new Reader(0);
            publisher.subscribe(unasked);
            unasked.subscription.cancel();
            unasked.subscription.request(1);
            Reader none = new Reader(0);
            publisher.subscribe(none);
            none.subscription.request(0);
            none.ended.await();
            System.out.println(unasked.pieces + " " + none.error.getClass().getSimpleName());
            Reader empty = new Reader(1);
            model.publish(pool, Prompt.text(""), null).subscribe(empty);
            empty.ended.await();
            Reader zero = new Reader(1);
            model.publish(pool, hello, new Settings().maxTokens(0)).subscribe(zero);
            zero.ended.await();
            System.out.println(empty.error.getClass().getSimpleName() + " " + zero.pieces + " " + zero.complete);
            pool.shutdown();
            Reader rejected = new Reader(1);
            publisher.subscribe(rejected);
            System.out.println(rejected.error.getClass().getSimpleName());
            refuse(() -> publisher.subscribe(null));
            System.out.println(model.complete(hello, nine()).text.equals(whole));
        }
    }

    /** A subscriber that throws, and many threads that ask at once. */
    private static void misuse() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        try (Model model = open(null)) {
            String whole = model.complete(Prompt.text("hello"), nine()).text;
            CountDownLatch thrown = new CountDownLatch(1);
            model.publish(task -> pool.execute(() -> {
                try {
                    task.run();
                } catch (IllegalStateException error) {
                    thrown.countDown();
                }
            }), Prompt.text("hello"), nine()).subscribe(new Reader(1) {
                @Override
                public void onNext(Piece piece) {
                    throw new IllegalStateException();
                }
            });
            thrown.await();
            AtomicInteger right = new AtomicInteger(), busy = new AtomicInteger(), other = new AtomicInteger();
            List<Future<?>> all = new ArrayList<>();
            for (int i = 0; i < 40; ++i) {
                all.add(pool.submit(() -> {
                    try {
                        (model.complete(Prompt.text("hello"), nine()).text.equals(whole) ? right : other).incrementAndGet();
                    } catch (BusyException error) {
                        busy.incrementAndGet();
                    }
                }));
            }
            for (Future<?> each : all) {
                each.get();
            }
            System.out.println((right.get() > 0) + " " + (right.get() + busy.get()) + " " + other);
            System.out.println(model.complete(Prompt.text("hello"), nine()).text.equals(whole));
        }
        pool.shutdown();
    }

    private static void closing() throws Exception {
        ExecutorService pool = Executors.newSingleThreadExecutor();
        for (int round = 0; round < 20; ++round) {
            Model model = open(new Options().threads(1 + round % 2));
            CountDownLatch begun = new CountDownLatch(1);
            Future<String> found = pool.submit(() -> {
                try {
                    while (true) {
                        model.complete(Prompt.text("hello"), new Settings().ignoreEnd(true), piece -> {
                            begun.countDown();
                            return true;
                        });
                    }
                } catch (ClosedException error) {
                    return error.getMessage();
                }
            });
            begun.await();
            model.close();
            if (!found.get().equals("the model is closed")) {
                throw new AssertionError(found.get());
            }
        }
        Model model = open(null);
        Reader reader = new Reader(0);
        model.publish(pool, Prompt.text("hello"), nine()).subscribe(reader);
        reader.subscription.request(1);
        reader.got.acquire();
        model.close();
        reader.subscription.request(1);
        reader.ended.await();
        System.out.println(reader.pieces + " " + reader.error.getClass().getSimpleName());
        pool.shutdown();
    }

    private static void memory() {
        System.out.println(Model.completeMemory(1) + " " + Model.completeMemory(40));
        long needed = Model.completeMemory(40);
        long[] free = {needed - 1};
        try (Model model = open(new Options().memory(() -> free[0]))) {
            refuse(() -> model.complete(Prompt.text("hello")));
            refuse(() -> model.completeReserve(40));
            free[0] = needed;
            System.out.println(model.complete(Prompt.text("hello"), nine()).tokens.length);
            free[0] = 0; // what is there is given back first
            model.completeReserve(40);
            System.out.println(model.complete(Prompt.text("hello"), nine()).tokens.length);
        }
    }

    private static void unspoken() {
        try (Model model = open(null)) {
            refuse(() -> model.complete(Prompt.user("abc")));
            System.out.println(model.complete(Prompt.text("hello"), nine()).tokens.length);
        }
    }

    /** The template of this model writes 60 tokens for each character. */
    private static void repeated() {
        try (Model model = open(null)) {
            refuse(() -> model.complete(Prompt.user("abc".repeat(60))));
            refuse(() -> model.complete(Prompt.user("\"\\\n\u0001")));
        }
    }

    private static void windows() {
        Settings slides = new Settings().ignoreEnd(true).overflow(Settings.Overflow.WINDOW);
        try (Model model = open(null)) {
            print(model.complete(Prompt.user("abc"), new Settings(slides).maxTokens(70)));
            print(model.complete(Prompt.user("abc"), new Settings(slides).maxTokens(70).sinks(0)));
            print(model.complete(Prompt.text("ab".repeat(40)), new Settings(slides).maxTokens(5).sinks(3)));
            refuse(() -> model.complete(Prompt.text("a"), new Settings(slides).maxTokens(1).sinks(39)));
            refuse(() -> slides.sinks(-1));
            model.completeReserve(20); // of less than the model takes
            Answer answer = model.complete(Prompt.text("hello"), new Settings(slides).sinks(2).maxTokens(50));
            System.out.println(answer.tokens.length + " " + answer.reason);
        }
    }

    private static byte[] saved(Chat chat) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        chat.save(bytes);
        return bytes.toByteArray();
    }

    /** What is said after a conversation was saved, in the same model, in another one, and where it was read again. */
    private static void saved() throws IOException {
        Settings three = new Settings().maxTokens(3).ignoreEnd(true);
        String said = "a\"b\n";
        try (Model model = open(null); Model other = open(null)) {
            Chat chat = model.chat("s", three);
            chat.ask(said);
            byte[] saved = saved(chat);
            String text = chat.ask("d").text;
            Chat again = other.chat(null, three);
            again.ask("other");
            again.restore(new ByteArrayInputStream(saved));
            System.out.println(again.messages().get(1).content.equals(said) + " " + again.messages().size());
            Answer answer = again.ask("d");
            System.out.println(answer.text.equals(text) + " " + answer.promptTokens);
            other.completeReserve(40);
            System.out.println(again.messages().toString().equals(chat.messages().toString()) + " " + other.complete(
                Prompt.messages(again.messages().subList(0, 4)), three).text.equals(text));
            ByteArrayOutputStream bare = new ByteArrayOutputStream();
            model.save(bare);
            other.restore(new ByteArrayInputStream(bare.toByteArray()));
            refuse(() -> restore(again, bare.toByteArray()));
            System.out.println(again.messages().size());
        }
    }

    private static void restore(Chat chat, byte[] saved) {
        try {
            chat.restore(new ByteArrayInputStream(saved));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Go on with what Python saved, and save what follows. */
    private static void restored(File given, File made) throws IOException {
        try (Model model = open(null)) {
            Chat chat = model.chat(null, new Settings().maxTokens(3).ignoreEnd(true));
            try (InputStream in = new FileInputStream(given)) {
                chat.restore(in);
            }
            Answer answer = chat.ask("d");
            System.out.println(quoted(answer.text) + ", " + answer.promptTokens);
            try (OutputStream out = new FileOutputStream(made)) {
                chat.save(out);
            }
        }
    }

    private static void unsaved(File another) throws IOException {
        try (Model model = open(null)) {
            Chat chat = model.chat(null, new Settings().maxTokens(3).ignoreEnd(true));
            refuse(() -> save(chat));
            model.completeReserve(40);
            refuse(() -> save(chat));
            chat.ask("abc");
            byte[] saved = saved(chat);
            byte[] altered = saved.clone();
            altered[saved.length / 2] ^= 1;
            for (byte[] bytes : Arrays.asList(
                    new byte[0], new byte[5000], Arrays.copyOf(saved, saved.length - 1), altered,
                    Files.readAllBytes(another.toPath()))) {
                refuse(() -> restore(chat, bytes));
            }
            System.out.println(model.complete(Prompt.user("abc"), new Settings().maxTokens(3).ignoreEnd(true)).promptTokens);
            try (Generation open = model.generate(Prompt.text("hello"), nine())) {
                refuse(() -> save(chat));
                refuse(() -> restore(chat, saved));
            }
            try {
                model.save(new OutputStream() {
                    @Override
                    public void write(int value) throws IOException {
                        throw new IOException("the disk is full");
                    }
                });
            } catch (IOException error) {
                System.out.println(error.getMessage());
            }
            model.completeReserve(6);
            refuse(() -> restore(chat, saved));
            model.close();
            refuse(() -> save(chat));
            refuse(() -> restore(chat, saved));
        }
    }

    private static void save(Chat chat) {
        try {
            saved(chat);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Prints how fast an answer is. */
    private static void rate(String prompt) {
        try (Model model = open(new Options().threads(Integer.getInteger("threads", 2)))) {
            for (int i = 0; i < 3; ++i) {
                model.completeReserve(1024);
                Answer answer = model.complete(Prompt.user(prompt), new Settings().maxTokens(64).ignoreEnd(true));
                System.out.println(answer.promptTokens + " " + answer.promptTokens / answer.promptSeconds + " " + answer.rate());
                System.out.println(answer);
            }
        }
    }
}
