"""Write the table of monoids into a page: `make cards`."""

import re
import sys
from pathlib import Path

from sash import monoids

BETWEEN = re.compile(r"(<!-- cards: .*? -->\n\n).*?(\n<!-- /cards -->)", re.DOTALL)

if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(BETWEEN.sub(lambda found: found[1] + monoids.cards_markdown() + found[2], page.read_text()))
