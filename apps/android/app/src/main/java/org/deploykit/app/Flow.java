package org.deploykit.app;

import android.content.Context;
import android.util.AttributeSet;
import android.view.View;
import android.view.ViewGroup;

/** Places its children in lines, as words of a text, from the side where lines begin. */
public final class Flow extends ViewGroup {
    public Flow(Context context, AttributeSet attributes) {
        super(context, attributes);
    }

    @Override
    protected void onMeasure(int widthSpec, int heightSpec) {
        int width = MeasureSpec.getSize(widthSpec) - getPaddingLeft() - getPaddingRight();
        measureChildren(MeasureSpec.makeMeasureSpec(width, MeasureSpec.AT_MOST), MeasureSpec.UNSPECIFIED);
        setMeasuredDimension(MeasureSpec.getSize(widthSpec), lines(width, false));
    }

    @Override
    protected void onLayout(boolean changed, int left, int top, int right, int bottom) {
        lines(right - left - getPaddingLeft() - getPaddingRight(), true);
    }

    /** Go through the lines, and place the children there if {@code place}. Returns the height. */
    private int lines(int width, boolean place) {
        boolean toLeft = getLayoutDirection() == LAYOUT_DIRECTION_RTL;
        int x = 0, y = getPaddingTop(), height = 0;
        for (int i = 0; i < getChildCount(); ++i) {
            View child = getChildAt(i);
            if (child.getVisibility() == GONE) {
                continue;
            }
            if (x > 0 && x + child.getMeasuredWidth() > width) {
                x = 0;
                y += height;
                height = 0;
            }
            if (place) {
                int left = getPaddingLeft() + (toLeft ? width - x - child.getMeasuredWidth() : x);
                child.layout(left, y, left + child.getMeasuredWidth(), y + child.getMeasuredHeight());
            }
            x += child.getMeasuredWidth();
            height = Math.max(height, child.getMeasuredHeight());
        }
        return y + height + getPaddingBottom();
    }
}
