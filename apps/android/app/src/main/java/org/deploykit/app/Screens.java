package org.deploykit.app;

/** The screens, by the ids of their buttons. */
final class Screens {
    private Screens() {}

    static Class<? extends Screen> of(int button) {
        return button == R.id.to_phone ? PhoneActivity.class : DrawActivity.class;
    }
}
