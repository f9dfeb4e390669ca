/* What `main.c` measures: one way to run a model. Each side is a file of C that defines these. */
#ifndef SIDE_H
#define SIDE_H

/* Copies `given_input` to where the model reads it, and prepares whatever is prepared once. Returns 0, or the number of
   an error. */
int side_open(void);

/* Runs the model once. Returns 0, or the number of an error. */
int side_run(void);

/* The output of the last run, `given_output_bytes` of them. */
const void* side_output(void);

/* The input of the run, constant data. */
extern const unsigned char given_input[];
extern const unsigned given_input_bytes, given_output_bytes;

#endif
