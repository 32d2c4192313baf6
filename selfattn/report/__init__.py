"""The report of a comparison: a record of figures in, one HTML file, one Markdown file and one JSON file out.

The rooms, each imported by its own name so that nothing is loaded that is not used:

- `record`: the record as frozen dataclasses; `reading`: a JSON object or file checked and turned into one.
- `verdict`: the question, the sentences and the badges, composed from the figures alone.
- `summary`, `training`, `settings`, `explorer`: what the parts of the report show, as text and plain data.
- `words`, `wordlist`: everything it says, in English and Korean.
- `numbers`, `scale`, `palette`, `tokens`, `charts`: how figures, models, texts and curves are drawn.
- `html`, `markdown`, `terminal`: three renderings of a record; `files` writes them.
- `attention_svg`, `attention_text`: one attention map as a picture and as terminal text.
"""
