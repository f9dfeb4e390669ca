package org.deploykit.app;

import android.content.Context;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.util.AttributeSet;
import android.view.View;
import org.deploykit.app.thinking.Raster;

/** Shows the picture that the model got. */
public final class PictureView extends View {
    private final Paint ink = new Paint();
    private float[] picture;

    public PictureView(Context context, AttributeSet attributes) {
        super(context, attributes);
    }

    /** Show a picture; null shows none. */
    void show(float[] picture) {
        this.picture = picture;
        invalidate();
    }

    @Override
    protected void onDraw(Canvas canvas) {
        canvas.drawColor(getContext().getColor(R.color.card));
        float side = getWidth() / (float) Raster.SIZE;
        for (int at = 0; picture != null && at < picture.length; ++at) {
            float x = at % Raster.SIZE * side, y = at / Raster.SIZE * side;
            ink.setColor(getContext().getColor(R.color.ink));
            ink.setAlpha(Math.round(255 * picture[at]));
            canvas.drawRect(x, y, x + side, y + side, ink);
        }
    }
}
