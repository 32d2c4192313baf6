"""The report of a comparison: a record of figures in, one HTML file, one Markdown file and one JSON file out.

`sections/` turn a record into blocks (`blocks`); `write` puts them in order and writes the files, whose text the
renderers in `render/` make. `ranking` and `verdict` say what may be said of the figures, `drawing/` how numbers,
models, texts and curves look, and `selfattn.words` holds everything that is said, a catalogue a language.
"""
