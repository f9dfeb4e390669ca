package org.deploykit.app;

import java.util.HashMap;
import java.util.Map;

/** The screens, by the ids of their buttons. */
final class Screens {
    private static final Map<Integer, Class<? extends Screen>> SCREENS = new HashMap<>();

    static {
        SCREENS.put(R.id.to_draw, DrawActivity.class);
        SCREENS.put(R.id.to_search, SearchActivity.class);
        SCREENS.put(R.id.to_picture, PictureActivity.class);
        SCREENS.put(R.id.to_phone, PhoneActivity.class);
        SCREENS.put(R.id.to_about, AboutActivity.class);
    }

    private Screens() {}

    static Class<? extends Screen> of(int button) {
        return SCREENS.get(button);
    }
}
