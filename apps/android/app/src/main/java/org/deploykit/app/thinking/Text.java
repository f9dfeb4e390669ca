package org.deploykit.app.thinking;

import java.text.BreakIterator;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A text with its paragraphs and its passages: sentences, by the same rules as in
 * {@code apps/web/search/passages.ts}. A heading belongs to the first sentence below it; abbreviations and wrapped lines
 * end no sentence.
 *
 * <p>Where sentences end is what {@link BreakIterator} says. On Android it has the rules of ICU, as browsers do; those of
 * other Javas are a little different.
 */
public final class Text {
    /** A longer sentence is cut at a space, because models cut off long texts. In units of UTF-16. */
    private static final int LONGEST = 1000;
    /** Longer paragraphs are no headings. */
    private static final int HEADING = 60;
    /** A paragraph of more units is shown as several parts. */
    private static final int LONGEST_SHOWN = 2000;
    /** What JavaScript takes for space, which not every Java does. */
    private static final String INLINE = "\\t\\x0b-\\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff";
    private static final String SPACES = INLINE + "\\n", SPACE = "[" + SPACES + "]";
    /** The end of a line of at least this many units, which is wrapped: a space. */
    private static final Pattern WRAPPED = Pattern.compile("(?<=[^\\n]{40})\\n");
    /** What separates paragraphs: an empty line, or the next line begins an item of a list. */
    private static final Pattern BREAK = Pattern.compile(
            "\\n" + SPACE + "*\\n|\\n(?=[" + INLINE + "]*(?:[-*•]|[0-9]+[.)])" + SPACE + ")");
    private static final Pattern ABBREVIATED = Pattern.compile("(?:^|[" + SPACES + "(])"
            + "(?:\\p{Lu}|Mr|Mrs|Ms|Dr|Prof|St|No|vs|etc|e\\.g|i\\.e|cf|Fig)\\." + SPACE + "*\\z");
    private static final Pattern ENDED = Pattern.compile("[.!?:;…。！？][\"'”’»)\\]]*\\z");

    /** A part of the text, from {@code start} to before {@code end}. */
    public static final class Part {
        public final int start;
        public final int end;

        Part(int start, int end) {
            this.start = start;
            this.end = end;
        }
    }

    public final String whole;
    public final List<Part> passages = new ArrayList<>();
    /** The paragraphs, or parts of long ones, as they are shown. No passage but that of a heading is in two of them. */
    public final List<Part> shown = new ArrayList<>();

    private final Function<String, int[]> ends;

    public Text(String text) {
        this(text, Text::endsOfSentences);
    }

    /** A text whose sentences end where {@code ends} says. */
    public Text(String text, Function<String, int[]> ends) {
        this.ends = ends;
        whole = text.replaceAll("\\r\\n?", "\n").replaceFirst("^\ufeff", "");
        List<Part> paragraphs = paragraphs();
        int heading = -1;
        for (int i = 0; i < paragraphs.size(); ++i) {
            Part paragraph = paragraphs.get(i);
            int first = passages.size();
            if (i + 1 < paragraphs.size() && isHeading(paragraph, paragraphs.get(i + 1))) {
                heading = paragraph.start;
            } else {
                split(paragraph, heading < 0 ? paragraph.start : heading);
                heading = -1;
            }
            show(paragraph, first);
        }
    }

    /** A passage on one line, its heading before it. */
    public String line(int passage) {
        Part part = passages.get(passage);
        String text = whole.substring(part.start, part.end);
        return text.replaceAll("\\n" + SPACE + "*\\n", " · ").replaceAll(SPACE + "+", " ");
    }

    /** The part that is shown in which a passage ends. */
    public int place(int passage) {
        int low = 0, high = shown.size() - 1, end = passages.get(passage).end;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (shown.get(middle).end < end) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    private List<Part> paragraphs() {
        List<Part> found = new ArrayList<>();
        Matcher breaks = BREAK.matcher(whole);
        int start = 0;
        while (breaks.find()) {
            add(found, start, breaks.start());
            start = breaks.end();
        }
        add(found, start, whole.length());
        return found;
    }

    private void add(List<Part> found, int start, int end) {
        if (!trimmed(start, end).isEmpty()) {
            found.add(new Part(start, end));
        }
    }

    /** Whether a paragraph is a short line without an end, above a longer one. */
    private boolean isHeading(Part paragraph, Part next) {
        String line = trimmed(paragraph.start, paragraph.end);
        return line.length() < HEADING && line.indexOf('\n') < 0 && !ENDED.matcher(line).find()
                && next.end - next.start >= HEADING;
    }

    /** Add the passages of a paragraph; the first one begins at {@code from}. */
    private void split(Part paragraph, int from) {
        String text = whole.substring(paragraph.start, paragraph.end);
        for (int at : ends.apply(WRAPPED.matcher(text).replaceAll(" "))) {
            int to = paragraph.start + at;
            if (to == paragraph.end || !ABBREVIATED.matcher(whole).region(from, to).find()) {
                cut(from, to);
                from = to;
            }
        }
    }

    private static int[] endsOfSentences(String text) {
        BreakIterator sentences = BreakIterator.getSentenceInstance();
        sentences.setText(text);
        int[] found = new int[text.length()];
        int count = 0;
        for (int at = sentences.next(); at != BreakIterator.DONE; at = sentences.next()) {
            found[count++] = at;
        }
        return Arrays.copyOf(found, count);
    }

    /** Add a part of the text without the space around it, in pieces that are not too long. */
    private void cut(int start, int end) {
        for (int from = start; from < end; ) {
            int space = whole.lastIndexOf(' ', from + LONGEST);
            int to = end - from <= LONGEST ? end : space > from ? space : from + LONGEST;
            int first = from, last = to;
            while (first < last && isSpace(whole.charAt(first))) {
                ++first;
            }
            while (first < last && isSpace(whole.charAt(last - 1))) {
                --last;
            }
            if (first < last) {
                passages.add(new Part(first, last));
            }
            from = to;
        }
    }

    /** Add what is shown of a paragraph, whose passages are those from {@code first} on. */
    private void show(Part paragraph, int first) {
        int start = paragraph.start;
        for (Part passage : passages.subList(first, passages.size())) {
            if (passage.end - start > LONGEST_SHOWN && passage.start > start) {
                shown.add(new Part(start, passage.start));
                start = passage.start;
            }
        }
        shown.add(new Part(start, paragraph.end));
    }

    private String trimmed(int start, int end) {
        while (start < end && isSpace(whole.charAt(start))) {
            ++start;
        }
        while (start < end && isSpace(whole.charAt(end - 1))) {
            --end;
        }
        return whole.substring(start, end);
    }

    private static boolean isSpace(char each) {
        return each >= '\t' && each <= '\r' || each == ' ' || each == 0xa0 || each == 0x1680
                || each >= 0x2000 && each <= 0x200a || each == 0x2028 || each == 0x2029 || each == 0x202f
                || each == 0x205f || each == 0x3000 || each == 0xfeff;
    }
}
