package org.deploykit.app;

import android.view.View;
import android.view.accessibility.AccessibilityNodeInfo;
import java.util.ArrayList;

/** What a screen reader is told of a screen: a line for each view, in the order in which they are read. */
final class Nodes {
    /** Characters of a label that are written. */
    private static final int LONGEST = 160;

    private Nodes() {}

    static String of(View root) {
        StringBuilder lines = new StringBuilder();
        write(root, 0, lines);
        return lines.toString();
    }

    private static void write(View view, int depth, StringBuilder lines) {
        AccessibilityNodeInfo node = view.createAccessibilityNodeInfo();
        for (int i = 0; i < depth; ++i) {
            lines.append("  ");
        }
        String name = String.valueOf(node.getClassName());
        lines.append(name.substring(name.lastIndexOf('.') + 1)).append(label(node)).append(traits(node)).append('\n');
        ArrayList<View> children = new ArrayList<>();
        view.addChildrenForAccessibility(children);
        for (View child : children) {
            write(child, depth + 1, lines);
        }
    }

    private static String label(AccessibilityNodeInfo node) {
        CharSequence words = node.getContentDescription() == null ? node.getText() : node.getContentDescription();
        String label = words == null ? "" : words.toString().replace("\n", "\\n");
        if (label.length() > LONGEST) {
            label = label.substring(0, LONGEST) + "…";
        }
        return label.isEmpty() ? "" : " \"" + label + '"';
    }

    private static String traits(AccessibilityNodeInfo node) {
        String traits = node.isEnabled() ? "" : " disabled";
        traits += node.isClickable() ? " clickable" : "";
        traits += node.isFocusable() ? " focusable" : "";
        traits += node.isCheckable() ? node.isChecked() ? " checked" : " unchecked" : "";
        traits += node.isSelected() ? " selected" : "";
        traits += node.isEditable() ? " editable" : "";
        traits += node.isScrollable() ? " scrollable" : "";
        return traits + (node.getLiveRegion() == View.ACCESSIBILITY_LIVE_REGION_NONE ? "" : " live");
    }
}
