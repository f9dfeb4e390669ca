package org.deploykit.app;

import android.os.Bundle;
import android.os.Handler;
import android.os.Looper;
import android.widget.TextView;
import org.deploykit.app.thinking.Drawing;
import org.deploykit.app.thinking.Examples;
import org.deploykit.app.thinking.Raster;
import org.deploykit.app.thinking.Reader;
import org.deploykit.app.thinking.Reading;
import org.deploykit.app.thinking.Times;
import org.deploykit.digits.Digits;
import org.deploykit.digits.Options;

/** Draw a digit, and the model reads along. */
public final class DrawActivity extends Screen implements Reader.Listener {
    private static final String DRAWING = "drawing", NEXT = "next";
    private static final String[] NAMES = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

    private final Drawing drawing = new Drawing();
    private final Times times = new Times();
    private Reader reader;
    private PadView pad;
    private TextView guess;
    private TextView facts;
    private PictureView picture;
    private BarsView bars;
    private Digits model;
    /** The digit of the next example. */
    private int next;

    @Override
    int layout() {
        return R.layout.draw;
    }

    @Override
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        pad = findViewById(R.id.pad);
        guess = findViewById(R.id.guess);
        facts = findViewById(R.id.facts);
        picture = findViewById(R.id.picture);
        bars = findViewById(R.id.bars);
        if (state != null) {
            drawing.restore(state.getDoubleArray(DRAWING));
            next = state.getInt(NEXT);
        }
        pad.show(drawing, this::changed);
        onClick(R.id.undo, () -> edit(drawing::undo));
        onClick(R.id.clear, () -> edit(drawing::clear));
        onClick(R.id.example, () -> edit(() -> Examples.draw(next++ % NAMES.length, drawing)));
        Handler main = new Handler(Looper.getMainLooper());
        reader = new Reader(this::load, main::post, this);
        reader.use("cpu", 1);
        changed();
    }

    private Digits load(String device, int threads) {
        return Digits.load(this, new Options().device(device).threads(threads));
    }

    @Override
    protected void onSaveInstanceState(Bundle state) {
        super.onSaveInstanceState(state);
        state.putDoubleArray(DRAWING, numbers());
        state.putInt(NEXT, next);
    }

    @Override
    protected void onDestroy() {
        reader.close();
        super.onDestroy();
    }

    /** The drawing as numbers. */
    double[] numbers() {
        return drawing.numbers();
    }

    private void edit(Runnable change) {
        change.run();
        pad.invalidate();
        changed();
    }

    private void changed() {
        if (drawing.isEmpty()) {
            guess.setText(R.string.empty);
            picture.show(null);
            bars.show(NAMES, new float[NAMES.length]);
        } else {
            reader.read(Raster.of(drawing));
        }
    }

    @Override
    public void onRead(Reading reading) {
        if (drawing.isEmpty()) {
            return;
        }
        times.add(reading.nanoseconds);
        String words = getString(R.string.guess, reading.best(), reading.percent(reading.best()));
        if (!words.contentEquals(guess.getText())) { // screen readers hear what is set
            guess.setText(words);
        }
        picture.show(reading.picture);
        bars.show(NAMES, reading.probabilities);
        showFacts();
    }

    @Override
    public void onOpened(Digits found) {
        model = found;
        showFacts();
    }

    @Override
    public void onFailed(String device, String reason) {
        facts.setText(getString(R.string.failed, device, reason));
    }

    private void showFacts() {
        String device = model.device().description;
        facts.setText(times.runs() == 0
                ? device
                : getString(R.string.facts, device, times.milliseconds(0.5), times.milliseconds(1), times.runs()));
    }
}
