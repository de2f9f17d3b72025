"""The report of a run: its data, and its layout as HTML, Markdown and terminal text, with figures as SVG."""
