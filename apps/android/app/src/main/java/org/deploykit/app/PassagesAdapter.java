package org.deploykit.app;

import android.content.Context;
import android.graphics.Color;
import android.text.SpannableString;
import android.text.Spanned;
import android.text.style.BackgroundColorSpan;
import android.view.LayoutInflater;
import android.view.View;
import android.view.ViewGroup;
import android.widget.BaseAdapter;
import android.widget.TextView;
import java.util.Collections;
import java.util.List;
import org.deploykit.app.thinking.Hit;
import org.deploykit.app.thinking.Searcher;
import org.deploykit.app.thinking.Text;

/** The rows below a query: the passages that answer it, or queries to try, then the text with these passages marked. */
final class PassagesAdapter extends BaseAdapter {
    /** What a row is. */
    private static final int HIT = 0, IDEA = 1, HEAD = 2, PART = 3, KINDS = 4;
    private static final int[] LAYOUTS = {R.layout.hit, R.layout.idea, R.layout.head, R.layout.part};
    /** Characters of a passage that its row shows. */
    private static final int LONGEST = 320;
    /** How much of the colour of marks the last of the answers has. */
    private static final float FAINT = 0.35f;

    private final Context context;
    private final String[] ideas;
    private Text text = new Text("");
    private List<Hit> hits = Collections.emptyList();
    private boolean sample;
    private boolean offers;

    PassagesAdapter(Context context) {
        this.context = context;
        ideas = context.getResources().getStringArray(R.array.ideas);
    }

    void show(Text text, boolean sample) {
        this.text = text;
        this.sample = sample;
    }

    void mark(List<Hit> hits) {
        this.hits = hits;
        notifyDataSetChanged();
    }

    /** Whether queries to try are shown, where the text is the sample. */
    void offerIdeas(boolean offers) {
        this.offers = offers;
        notifyDataSetChanged();
    }

    /** The query that a row suggests; null if it is another row. */
    String idea(int row) {
        return getItemViewType(row) == IDEA ? ideas[row] : null;
    }

    /** The row of the text with the passage that this row has. */
    int rowOfPassage(int row) {
        return above() + 1 + text.place(hits.get(row).passage);
    }

    private int above() {
        return hits.isEmpty() && sample && offers ? ideas.length : hits.size();
    }

    @Override
    public int getCount() {
        return above() + 1 + text.shown.size();
    }

    @Override
    public int getViewTypeCount() {
        return KINDS;
    }

    @Override
    public int getItemViewType(int row) {
        if (row < above()) {
            return hits.isEmpty() ? IDEA : HIT;
        }
        return row == above() ? HEAD : PART;
    }

    @Override
    public boolean areAllItemsEnabled() {
        return false;
    }

    @Override
    public boolean isEnabled(int row) {
        return row < above();
    }

    @Override
    public Object getItem(int row) {
        return words(row);
    }

    @Override
    public long getItemId(int row) {
        return row;
    }

    @Override
    public View getView(int row, View old, ViewGroup parent) {
        int layout = LAYOUTS[getItemViewType(row)];
        View view = old == null ? LayoutInflater.from(context).inflate(layout, parent, false) : old;
        ((TextView) view.findViewById(R.id.words)).setText(words(row));
        if (getItemViewType(row) == HIT) {
            float score = hits.get(row).score;
            TextView shown = view.findViewById(R.id.score);
            shown.setText(context.getString(R.string.score, score));
            shown.setContentDescription(context.getString(R.string.score_spoken, score));
        }
        return view;
    }

    private CharSequence words(int row) {
        switch (getItemViewType(row)) {
            case HIT:
                String line = text.line(hits.get(row).passage);
                return line.length() > LONGEST ? line.substring(0, LONGEST).trim() + " …" : line;
            case IDEA:
                return ideas[row];
            case HEAD:
                return context.getResources().getQuantityString(R.plurals.text_facts, text.passages.size(),
                        text.passages.size(), Searcher.memory(text) / 1e6);
            default:
                return marked(text.shown.get(row - above() - 1));
        }
    }

    /** A part of the text. The closest passage has the strongest mark. */
    private CharSequence marked(Text.Part part) {
        SpannableString words = new SpannableString(text.whole.substring(part.start, part.end));
        for (Hit hit : hits) {
            Text.Part passage = text.passages.get(hit.passage);
            int start = Math.max(passage.start, part.start), end = Math.min(passage.end, part.end);
            if (start < end) {
                words.setSpan(new BackgroundColorSpan(colour(hit.score)), start - part.start, end - part.start,
                        Spanned.SPAN_EXCLUSIVE_EXCLUSIVE);
            }
        }
        return words;
    }

    private int colour(float score) {
        float most = hits.get(0).score, least = hits.get(hits.size() - 1).score;
        float strength = most > least ? FAINT + (1 - FAINT) * (score - least) / (most - least) : 1;
        int full = context.getColor(R.color.mark);
        return Color.argb(Math.round(255 * strength), Color.red(full), Color.green(full), Color.blue(full));
    }
}
