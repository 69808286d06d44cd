"""Words in families: of each topic one word for each relation."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """Topics that have the same relations.

    Args:
        name: of the family.
        relations: their names.
        topics: of each topic its words, in the order of the relations.
    """

    name: str
    relations: tuple[str, ...]
    topics: tuple[tuple[str, ...], ...]


def _table(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(line.split()) for line in text.strip().splitlines())


# One-word names only, no word in two places.
_COUNTRIES = """
england london english
france paris french
germany berlin german
spain madrid spanish
italy rome italian
greece athens greek
russia moscow russian
japan tokyo japanese
china beijing chinese
egypt cairo egyptian
sweden stockholm swedish
norway oslo norwegian
denmark copenhagen danish
finland helsinki finnish
poland warsaw polish
austria vienna austrian
hungary budapest hungarian
portugal lisbon portuguese
turkey ankara turkish
ireland dublin irish
cuba havana cuban
iran tehran iranian
iraq baghdad iraqi
canada ottawa canadian
"""
# Nouns that Python's help texts use in both forms.
_NOUNS = """
object objects
name names
value values
argument arguments
class classes
function functions
module modules
method methods
type types
expression expressions
statement statements
attribute attributes
parameter parameters
exception exceptions
string strings
number numbers
item items
key keys
character characters
operator operators
element elements
file files
variable variables
result results
"""

FAMILIES = (
    Family("countries", ("country", "capital", "people"), _table(_COUNTRIES)),
    Family("nouns", ("singular", "plural"), _table(_NOUNS)),
)
