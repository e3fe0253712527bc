"""A reader of HTML pages that notes their elements and what they load."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["Reader"]

_VOID = {"meta", "link", "input", "br", "hr", "img"}


class Reader(HTMLParser):
    """Checks that elements nest, and keeps ids and everything that an attribute could load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.loads: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("src", "srcset", "data", "action", "poster") or (tag != "a" and "href" in name):
                self.loads.append(value or "")
            elif tag == "a" and name == "href":
                self.targets.append(value or "")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)
