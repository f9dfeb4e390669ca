package org.deploykit.app;

import android.content.Context;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.util.AttributeSet;
import android.util.TypedValue;
import android.view.View;

/** Shows a list of names, each with a bar and a part from 0 to 1. Screen readers hear the largest ones. */
public final class BarsView extends View {
    private static final int SPOKEN = 3;

    private final Paint text = new Paint(Paint.ANTI_ALIAS_FLAG);
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
            canvas.drawText(names[i], 0, base, text);
            bar.setColor(getContext().getColor(R.color.line));
            canvas.drawRoundRect(name, top, name + room, top + size, size / 2, size / 2, bar);
            bar.setColor(getContext().getColor(R.color.ink));
            if (parts[i] * room >= 1) {
                canvas.drawRoundRect(name, top, name + parts[i] * room, top + size, size / 2, size / 2, bar);
            }
            String percent = percent(i);
            canvas.drawText(percent, getWidth() - text.measureText(percent), base, text);
        }
    }
}
