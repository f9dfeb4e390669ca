"""What everything stands on: dtypes, sizes, files, threads, and the tools of this machine."""
