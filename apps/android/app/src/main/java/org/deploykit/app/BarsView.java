package org.deploykit.app;

import android.content.Context;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.text.TextPaint;
import android.text.TextUtils;
import android.util.AttributeSet;
import android.util.TypedValue;
import android.view.View;

/** Shows a list of names, each with a bar and a part from 0 to 1. Screen readers hear the largest ones. */
public final class BarsView extends View {
    private static final int SPOKEN = 3;

    private final TextPaint text = new TextPaint(Paint.ANTI_ALIAS_FLAG);
    private final Paint bar = new Paint(Paint.ANTI_ALIAS_FLAG);
    private String[] names = {};
    private float[] parts = {};

    public BarsView(Context context, AttributeSet attributes) {
        super(context, attributes);
        float size = TypedValue.applyDimension(
                TypedValue.COMPLEX_UNIT_SP, 14, context.getResources().getDisplayMetrics());
        text.setTextSize(size);
        text.setColor(context.getColor(R.color.text));
    }

    /** Show these parts. */
    void show(String[] names, float[] parts) {
        boolean resized = names.length != this.names.length;
        this.names = names;
        this.parts = parts;
        setContentDescription(spoken());
        if (resized) {
            requestLayout();
        }
        invalidate();
    }

    private String spoken() {
        StringBuilder words = new StringBuilder();
        boolean[] said = new boolean[names.length];
        for (int i = 0; i < Math.min(SPOKEN, names.length); ++i) {
            int best = -1;
            for (int each = 0; each < names.length; ++each) {
                best = !said[each] && (best < 0 || parts[each] > parts[best]) ? each : best;
            }
            said[best] = true;
            words.append(i == 0 ? "" : ", ").append(names[best]).append(": ").append(percent(best));
        }
        return words.toString();
    }

    private String percent(int index) {
        return getContext().getString(R.string.percent, Math.round(100 * parts[index]));
    }

    private float line() {
        return 1.6f * text.getTextSize();
    }

    @Override
    protected void onMeasure(int widthSpec, int heightSpec) {
        setMeasuredDimension(MeasureSpec.getSize(widthSpec), (int) Math.ceil(line() * names.length));
    }

    @Override
    protected void onDraw(Canvas canvas) {
        float size = text.getTextSize(), name = 0, value = text.measureText("100 %") + size / 2;
        for (String each : names) {
            name = Math.min(getWidth() / 2f, Math.max(name, text.measureText(each) + size / 2));
        }
        float room = getWidth() - name - value;
        for (int i = 0; i < names.length; ++i) {
            float base = line() * i + 1.1f * size, top = line() * i + 0.25f * size;
            write(canvas, TextUtils.ellipsize(names[i], text, name - size / 2, TextUtils.TruncateAt.END), 0, base);
            fill(canvas, R.color.line, name, room, top);
            if (parts[i] * room >= 1) {
                fill(canvas, R.color.ink, name, parts[i] * room, top);
            }
            String percent = percent(i);
            write(canvas, percent, getWidth() - text.measureText(percent), base);
        }
    }

    /** Where something begins that is {@code from} away from the side where lines begin. */
    private float left(float from, float width) {
        return getLayoutDirection() == LAYOUT_DIRECTION_RTL ? getWidth() - from - width : from;
    }

    private void write(Canvas canvas, CharSequence words, float from, float base) {
        canvas.drawText(words, 0, words.length(), left(from, text.measureText(words, 0, words.length())), base, text);
    }

    private void fill(Canvas canvas, int colour, float from, float width, float top) {
        float left = left(from, width), size = text.getTextSize();
        bar.setColor(getContext().getColor(colour));
        canvas.drawRoundRect(left, top, left + width, top + size, size / 2, size / 2, bar);
    }
}
