"""Runs an artifact for the web, in node or in headless Chromium."""
