package org.deploykit.app;

import android.content.Context;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.graphics.Path;
import android.util.AttributeSet;
import android.view.MotionEvent;
import android.view.View;
import org.deploykit.app.thinking.Drawing;

/** The pad: draws a {@link Drawing} and changes it with the first finger, a mouse or a pen. */
public final class PadView extends View {
    /** Width of the line, as a fraction of the pad. */
    private static final float PEN = 0.055f;
    private static final int NOBODY = -1;

    private final Paint pen = new Paint(Paint.ANTI_ALIAS_FLAG);
    private final Paint grid = new Paint();
    private final Path line = new Path();
    private Drawing drawing = new Drawing();
    private Runnable changed = () -> {};
    private int finger = NOBODY;

    public PadView(Context context, AttributeSet attributes) {
        super(context, attributes);
        pen.setColor(context.getColor(R.color.ink));
        pen.setStyle(Paint.Style.STROKE);
        pen.setStrokeCap(Paint.Cap.ROUND);
        pen.setStrokeJoin(Paint.Join.ROUND);
        grid.setColor(context.getColor(R.color.line));
    }

    /** Show a drawing; {@code changed} is called when the user changes it. */
    void show(Drawing drawing, Runnable changed) {
        this.drawing = drawing;
        this.changed = changed;
        invalidate();
    }

    @Override
    protected void onMeasure(int widthSpec, int heightSpec) {
        int width = MeasureSpec.getSize(widthSpec);
        boolean free = MeasureSpec.getMode(heightSpec) == MeasureSpec.UNSPECIFIED;
        int side = free ? width : Math.min(width, MeasureSpec.getSize(heightSpec));
        setMeasuredDimension(side, side);
    }

    @Override
    protected void onDraw(Canvas canvas) {
        float side = getWidth();
        for (int part = 0; part <= 4; ++part) {
            float at = Math.min(side - 1, part * side / 4);
            canvas.drawLine(at, 0, at, side, grid);
            canvas.drawLine(0, at, side, at, grid);
        }
        pen.setStrokeWidth(PEN * side);
        for (Drawing.Stroke stroke : drawing.strokes()) {
            line.rewind();
            line.moveTo(side * (float) stroke.x[0], side * (float) stroke.y[0]);
            for (int i = 0; i < stroke.count; ++i) { // a line of one point is a dot
                line.lineTo(side * (float) stroke.x[i], side * (float) stroke.y[i]);
            }
            canvas.drawPath(line, pen);
        }
    }

    @Override
    public boolean onTouchEvent(MotionEvent event) {
        switch (event.getActionMasked()) {
            case MotionEvent.ACTION_DOWN:
                getParent().requestDisallowInterceptTouchEvent(true);
                finger = event.getPointerId(0);
                drawing.begin(event.getX() / getWidth(), event.getY() / getWidth());
                change();
                return true;
            case MotionEvent.ACTION_MOVE:
                follow(event);
                return true;
            case MotionEvent.ACTION_POINTER_UP:
                if (event.getPointerId(event.getActionIndex()) == finger) {
                    finger = NOBODY;
                }
                return true;
            case MotionEvent.ACTION_UP:
                performClick();
                finger = NOBODY;
                return true;
            default:
                finger = event.getActionMasked() == MotionEvent.ACTION_CANCEL ? NOBODY : finger;
                return super.onTouchEvent(event);
        }
    }

    /** Extend the line by the places of the first finger, with those that the system has gathered before. */
    private void follow(MotionEvent event) {
        int index = finger == NOBODY ? -1 : event.findPointerIndex(finger);
        if (index < 0) {
            return;
        }
        boolean longer = false;
        for (int i = 0; i < event.getHistorySize(); ++i) {
            longer |= extend(event.getHistoricalX(index, i), event.getHistoricalY(index, i));
        }
        if (extend(event.getX(index), event.getY(index)) | longer) {
            change();
        }
    }

    private boolean extend(float x, float y) {
        return drawing.extend(x / getWidth(), y / getWidth());
    }

    private void change() {
        invalidate();
        changed.run();
    }
}
