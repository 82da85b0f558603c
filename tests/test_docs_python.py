"""The Python that a document shows is run, block after block, and prints what the document shows."""

from pathlib import Path
from typing import Any

import pytest
from documents import DOCUMENTS, make_workspace, name_of, python_blocks, run_code
from shown_output import output_matches, trimmed

WITH_CODE = [document for document in DOCUMENTS if python_blocks(document)]


@pytest.mark.parametrize("document", WITH_CODE, ids=name_of)
def test_code_of_a_document(document: Path, tmp_path: Path):
    make_workspace(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for code in python_blocks(document):
        printed = run_code(document, code, tmp_path, names)
        shown = trimmed("\n".join(code.shown or []))
        assert output_matches(shown, trimmed(printed)), (
            f"{name_of(document)}:{code.line} does not print what is shown (`make docs` rewrites that), but:\n{printed}"
        )


def test_there_is_code_to_run():
    assert "docs/python.md" in map(name_of, WITH_CODE)
