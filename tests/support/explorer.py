"""The page of the explorer in a browser, for tests: its controls by name."""

from typing import Any


class Explorer:
    """The page, with its controls by name."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def settle(self) -> None:
        """Wait until all that was asked of the server is drawn."""
        self.page.evaluate("explorer.state.busy")

    def click(self, name: str) -> None:
        self.page.click(f"#{name}")
        self.settle()

    def press(self, key: str) -> None:
        self.page.evaluate("document.activeElement.blur()")
        self.page.keyboard.press(key)
        self.settle()

    def fill(self, name: str, value: Any) -> None:
        self.page.fill(f"#{name}", str(value))

    def choose(self, name: str, value: str) -> None:
        self.page.select_option(f"#{name}", value)
        self.settle()

    def text(self, selector: str, side: int = 0) -> str:
        return " ".join(self.page.inner_text(f'.stage[data-side="{side}"] {selector}').split())

    def number(self, name: str, side: int = 0) -> int:
        return int(self.text(f".numbers .{name}", side).replace(",", ""))

    def answer(self, side: int = 0) -> Any:
        return self.page.evaluate(
            "side => JSON.parse(document.querySelector(`.stage[data-side='${side}'] .answer`).dataset.value)", side
        )

    def count(self, selector: str) -> int:
        return int(self.page.locator(selector).count())

    @property
    def message(self) -> str:
        return str(self.page.inner_text("#message")) if self.page.is_visible("#message") else ""
