package org.deploykit.app;

import android.content.ClipData;
import android.content.ClipboardManager;
import android.content.ContentResolver;
import android.content.Context;
import android.content.Intent;
import android.net.Uri;
import android.os.Bundle;
import android.os.Handler;
import android.os.Looper;
import android.text.Editable;
import android.text.TextWatcher;
import android.view.View;
import android.widget.Button;
import android.widget.EditText;
import android.widget.ListView;
import android.widget.ProgressBar;
import android.widget.TextView;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import org.deploykit.app.models.sentences.Sentences;
import org.deploykit.app.thinking.Hit;
import org.deploykit.app.thinking.Searcher;
import org.deploykit.app.thinking.Text;
import org.deploykit.app.thinking.TextFile;

/** Ask a text in one's own words: the closest passages are listed, and marked in the text. */
public final class SearchActivity extends Screen implements Searcher.Listener {
    private static final int OPEN = 1;

    private Searcher searcher;
    private PassagesAdapter passages;
    private ListView list;
    private EditText query;
    private TextView status;
    private TextView problem;
    private ProgressBar progress;
    private Button stop;
    private Text text = new Text("");
    private boolean stopped;
    private int read;

    @Override
    protected int layout() {
        return R.layout.search;
    }

    @Override
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        passages = new PassagesAdapter(this);
        list = findViewById(R.id.passages);
        query = findViewById(R.id.query);
        status = findViewById(R.id.status);
        problem = findViewById(R.id.problem);
        progress = findViewById(R.id.progress);
        stop = findViewById(R.id.stop);
        list.setAdapter(passages);
        list.setOnItemClickListener((parent, view, row, id) -> choose(row));
        onClick(R.id.paste, this::paste);
        onClick(R.id.open, this::open);
        onClick(R.id.sample, () -> searcher.takeSample());
        onClick(R.id.stop, this::toggle);
        searcher = (Searcher) getLastNonConfigurationInstance();
        if (searcher == null) {
            searcher = newSearcher();
        }
        searcher.tell(this);
        if (state == null) {
            take(getIntent());
        }
    }

    private Searcher newSearcher() {
        ContentSource source = new ContentSource(this);
        Handler main = new Handler(Looper.getMainLooper());
        return new Searcher(source, new File(getFilesDir(), "search.txt"), main::post);
    }

    @Override
    protected void onPostCreate(Bundle state) { // the query is restored by now
        super.onPostCreate(state);
        searcher.ask(query.getText().toString());
        query.addTextChangedListener(new TextWatcher() {
            @Override
            public void afterTextChanged(Editable words) {
                searcher.ask(words.toString());
            }

            @Override
            public void beforeTextChanged(CharSequence words, int start, int count, int after) {}

            @Override
            public void onTextChanged(CharSequence words, int start, int before, int count) {}
        });
    }

    @Override
    protected void onNewIntent(Intent intent) {
        super.onNewIntent(intent);
        take(intent);
    }

    /** Take the text that another app shares. */
    private void take(Intent intent) {
        if (!Intent.ACTION_SEND.equals(intent.getAction())) {
            return;
        }
        CharSequence shared = intent.getCharSequenceExtra(Intent.EXTRA_TEXT);
        Uri stream = intent.getParcelableExtra(Intent.EXTRA_STREAM);
        if (shared != null) {
            take(shared);
        } else if (stream != null) {
            take(stream);
        }
    }

    private void take(CharSequence words) {
        byte[] bytes = words.toString().getBytes(StandardCharsets.UTF_8);
        problem.setVisibility(View.GONE);
        searcher.take(() -> new ByteArrayInputStream(bytes));
    }

    private void take(Uri file) {
        ContentResolver resolver = getApplicationContext().getContentResolver();
        problem.setVisibility(View.GONE);
        searcher.take(() -> {
            InputStream stream = resolver.openInputStream(file);
            if (stream == null) {
                throw new FileNotFoundException(file.toString());
            }
            return stream;
        });
    }

    private void paste() {
        ClipData clip = getSystemService(ClipboardManager.class).getPrimaryClip();
        CharSequence words = clip == null || clip.getItemCount() == 0 ? null : clip.getItemAt(0).getText();
        if (words == null || words.toString().trim().isEmpty()) {
            show(getString(R.string.nothing_to_paste));
        } else {
            take(words);
        }
    }

    private void open() {
        Intent intent = new Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE).setType("text/*");
        startOther(intent, OPEN);
    }

    @Override
    protected void onActivityResult(int request, int result, Intent data) {
        if (request == OPEN && result == RESULT_OK && data != null && data.getData() != null) {
            take(data.getData());
        }
    }

    private void toggle() {
        if (stopped) {
            problem.setVisibility(View.GONE);
            searcher.resume();
        } else {
            searcher.stop();
        }
    }

    /** Ask what is suggested, or show a passage in the text. */
    private void choose(int row) {
        String idea = passages.idea(row);
        if (idea != null) {
            query.setText(idea);
            query.setSelection(idea.length());
        } else {
            list.setSelection(passages.rowOfPassage(row));
        }
    }

    @Override
    public void onText(Text text, boolean sample) {
        this.text = text;
        progress.setMax(text.passages.size());
        passages.show(text, sample);
        passages.mark(Collections.emptyList());
        list.setSelection(0);
    }

    @Override
    public void onRead(int passages, boolean stopped) {
        boolean done = passages == text.passages.size();
        this.stopped = stopped;
        read = passages;
        findViewById(R.id.reading).setVisibility(done ? View.GONE : View.VISIBLE);
        progress.setProgress(passages);
        progress.setContentDescription(getString(R.string.reading, passages, text.passages.size()));
        stop.setText(stopped ? R.string.go_on : R.string.stop);
        if (done) {
            reportFullyDrawn();
        }
    }

    @Override
    public void onFound(String words, List<Hit> hits) {
        if (!words.contentEquals(query.getText())) {
            return;
        }
        passages.mark(hits);
        passages.offerIdeas(words.trim().isEmpty());
        if (words.trim().isEmpty()) {
            tell(getString(R.string.ask));
        } else if (hits.isEmpty()) {
            tell(getString(read < text.passages.size() ? R.string.nothing_yet : R.string.nothing));
        } else {
            tell(getResources().getQuantityString(R.plurals.found, hits.size(), hits.size()));
        }
    }

    private void tell(String words) {
        if (!words.contentEquals(status.getText())) { // screen readers hear what is set
            status.setText(words);
        }
    }

    @Override
    public void onFailed(Exception error) {
        if (error instanceof TextFile.TooLargeException) {
            show(getString(R.string.too_large, TextFile.LARGEST / 1_000_000));
        } else if (error instanceof TextFile.NoTextException) {
            show(getString(R.string.no_text));
        } else {
            show(error.getLocalizedMessage());
        }
    }

    private void show(String words) {
        problem.setText(words);
        problem.setVisibility(View.VISIBLE);
    }

    @Override
    void release() {
        searcher.release();
    }

    @Override
    public Object onRetainNonConfigurationInstance() {
        return searcher;
    }

    @Override
    protected void onDestroy() {
        searcher.tell(null);
        if (!isChangingConfigurations()) {
            searcher.close();
        }
        super.onDestroy();
    }

    /** Opens the model and the sample of the app. */
    private static final class ContentSource implements Searcher.Source {
        private final Context context;

        ContentSource(Context context) {
            this.context = context.getApplicationContext();
        }

        @Override
        public Sentences model() {
            return Sentences.load(context);
        }

        @Override
        public InputStream sample() {
            return context.getResources().openRawResource(R.raw.lighthouse);
        }
    }
}
