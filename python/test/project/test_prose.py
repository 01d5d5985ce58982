"""The reminder of plain words finds each kind of passage, and the sources have none."""

import pytest

from python.dev import prose


def reasons(docstring, name="value"):
    source = f'def {name}():\n    """{docstring}"""\n'
    return [finding.reason for text in prose.docstrings(source, "a.py")
            for finding in prose.judge(text)]


@pytest.mark.parametrize("first", ["Whether", "What", "Of", "Where", "As", "The same"])
def test_openers(first):
    assert reasons(f"{first} rows are read.") == [f'opens with "{first}"']


@pytest.mark.parametrize("text", [
    "True if all lanes read the same address.", "Bytes from one row to the next.",
    "Ask `what_nobody_met` first.", "Print ``nobody`` there.",
    "Example::\n\n        nobody met\n\n    The end.\n"])
def test_plain_words_and_code_are_left_alone(text):
    assert reasons(text) == []


def test_long_sentences():
    words = " ".join(["row"] * prose.LONGEST)
    assert reasons(f"Read {words}.") == ['26 words: "Read row row row row row ..."']
    assert reasons(f"Read.  {words[0].upper()}{words[1:]}.") == []
    assert reasons(f"Read:\n\n- {words}\n- {words}") == []


@pytest.mark.parametrize("first", ["A row", "The rows", "Each row", "Nothing"])
def test_functions_without_result_open_with_a_verb(first):
    read, store = (list(prose.docstrings(
        f'def value(){result}:\n    """{first} of a tile."""\n    """The rest."""\n', "a.py"))
        for result in (" -> int", " -> None"))
    found = [finding.reason for text in store for finding in prose.judge(text)]
    assert found == [f'opens with "{first.split()[0]}", but returns None: begin with a verb']
    assert not [finding for text in read for finding in prose.judge(text)]


def test_words_of_the_list():
    assert reasons("Return rows that nobody reads.") == [
        '"nobody": name the pass, thread or operation']


def test_documents_of_assigned_names_are_read():
    source = 'LIMIT = 3\n"""What is the limit."""\nclass A:\n    x: int = 3\n    """Of A."""\n'
    assert [text.name for text in prose.docstrings(source, "a.py")] == ["LIMIT", "x"]


def test_comments_on_consecutive_lines_are_one_text():
    source = 'a = 1  # type: ignore\n# Rows that\n# nobody reads.\nb = "# held"  # the rest\n'
    read = list(prose.comments(source, "a.py"))
    assert [(text.line, text.text) for text in read if text.text] == [
        (2, "Rows that\nnobody reads."), (4, "the rest")]
    assert [finding.reason for text in read for finding in prose.judge(text, opener=False)] == [
        '"nobody": name the pass, thread or operation']


def test_strings_of_errors_are_read():
    source = 'raise Wrong(f"a tile of {n} rows" + " that lies outside", "b")\nprint("held")\n'
    read = list(prose.messages(source, "a.py"))
    assert {text.text for text in read} == {"a tile of ", " rows", " that lies outside", "b"}


@pytest.mark.rest  # `make check` asks the same
def test_sources_and_pages_are_in_plain_words():
    """If this fails for text of yours: `python python/dev/prose.py PATH` lists what to rewrite."""
    paths = prose.files()
    assert len(paths) > 300
    assert [str(finding) for path in paths for finding in prose.findings_of(path)] == []


def test_an_error_is_one_sentence():
    words = " ".join(["row"] * prose.LONGEST)
    (text,) = prose.messages(f"raise ValueError('Read {words}.')", "a.py")
    assert list(prose.judge(text)) == []
