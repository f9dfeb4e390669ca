"""Running an artifact for the web: in node and in headless Chromium."""
