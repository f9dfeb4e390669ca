"""What sessions do for a task: texts, pictures and sound in, answers out."""
