"""Reasons why the JSON of a snapshot cannot be read, in a user's words instead of msgspec's."""

import re

import msgspec

_TYPES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}


def damage(error: Exception, start: int = 0) -> str:
    """Return the reason why a file is not JSON; `start` bytes of it were read before."""
    if "truncated" in str(error):
        return "is cut short: the JSON text ends in the middle"
    found = re.search(r"malformed: (.*) \(byte (\d+)\)$", str(error))
    if found is None:
        return f"is not JSON ({error})"
    return f"is not JSON ({found[1]} at byte {start + int(found[2])})"


def mistyped(error: msgspec.ValidationError) -> str:
    """Return a message on a wrong type, with the path of the field in front."""
    message, _, path = str(error).partition(" - at ")
    missing = re.fullmatch(r"Object missing required field `(.+)`", message)
    path = path.strip("`").removeprefix("$").removeprefix(".")
    if missing is not None:
        return f"{path}.{missing[1]} is missing".removeprefix(".")
    if "datetime" in message:
        message = "must be a time such as 2026-01-31T12:00:00Z"
    elif unknown := re.fullmatch("Invalid enum value (.+)", message):
        message = f"has the unknown value {unknown[1]}; it must be a value of the API"
    elif types := re.fullmatch(r"Expected `(.+)`, got `(.+)`", message):
        wanted, given = (
            " or ".join(_TYPES.get(name, name) for name in each.split(" | ") if name != "null")
            for each in (types[1], f"{types[2]} | null")
        )
        message = f"must be {wanted}, not {given or 'null'}"
    return f"{path} {message}".lstrip()
