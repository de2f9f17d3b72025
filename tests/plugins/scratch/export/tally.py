"""Tally: how many verdicts there are of each word, a line each; for a chat message."""

from collections import Counter

from fairlane.export.base import Content, Format


class Tally(Format):
    stream = "tally.txt"

    def files(self, content: Content) -> dict[str, bytes]:
        about = content.provenance
        words = Counter(row["verdict"] for row in content.table("verdicts").records())
        lines = [f"{about['run']} ({about['figures']}, {'complete' if about['complete'] else 'not complete'})"]
        lines += [f"{count} {word}" for word, count in sorted(words.items())]
        return {self.stream: ("\n".join(lines) + "\n").encode()}


PLUGIN = Tally()
