"""The report of a comparison: a record of figures in, one HTML file, one Markdown file and one JSON file out.

Sections turn a record into blocks (`blocks`), each in a file of `sections/`; `contents` puts them in order, and the
renderers in `render/` draw every block. `verdict/` says what may be said of the figures, `drawing/` how numbers,
models, texts and curves look, `words/` holds everything that is said, a catalogue a language; `write` writes the files.
"""
