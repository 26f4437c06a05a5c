"""Parts of the library that comes along, in folders of their own, whose files a test may change."""

import json
import shutil

from lyra_opt.core.documents import format_document
from lyra_opt.instances.library import library
from lyra_opt.instances.library.shelf import Library


def part_of_library(target, *names):
    """Copy instances that have files, and what records, solutions and proofs say of them."""
    source = library().folder
    for folder in ("catalogues", "records", "solutions", "proofs"):
        (target / folder).mkdir(parents=True)
    for kind in ("catalogues", "records"):
        for path in (source / kind).glob("*.json"):
            document = json.loads(path.read_text())
            named = [each for each in document["instances"] if each["id"] in names]
            if named:
                text = format_document({**document, "instances": named})
                (target / kind / path.name).write_text(text)
    for name in names:
        for pattern in (f"{name}.json", f"solutions/{name}.*", f"proofs/{name}.*"):
            for path in source.glob(pattern):
                shutil.copyfile(path, target / path.relative_to(source))
    return Library(target)
