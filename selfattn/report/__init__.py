"""The report of a comparison: a record of figures in, one HTML file, one Markdown file and one JSON file out.

`sections/` turn a record into blocks (`blocks`); `write` writes the files, whose text `html` and `text` make. `ranking`
and `verdict` say what may be said of the figures, `numbers` and `pictures` how numbers, models, tokens and curves look,
and `selfattn.words` holds everything that is said, a catalogue a language.
"""
