"""Paths and names in code font, in pages and in docstrings, exist in the sources."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("backend", "benchmarks", "docs", "examples", "lowering", "python", "runtime",
         "third_party", "triton_xe")
FILES = sorted(str(file.relative_to(ROOT)) for found in (
    ROOT.glob("*"), *((ROOT / room).rglob("*") for room in ROOMS)) for file in found
    if file.is_file() and "__pycache__" not in file.parts)
PAGES = [file for file in FILES if file.endswith(".md") and "/reports/" not in file]
SOURCES = [file for file in FILES if file.endswith(".py") and not file.endswith("names_in_docs.py")]
OTHER_TEXTS = (".c", ".cpp", ".h", ".toml", ".yml", ".mlir", "Makefile")
SPAN = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
DOCSTRING = re.compile(r'"""(.*?)"""', re.DOTALL)
PATH = re.compile(r"(?<![\w./*])[\w-]+(?:/[\w-]+)+(?:\.(?:py|md|csv|c))?(?![\w/*.])")
NAME = re.compile(r"(?<![$-])\b[A-Za-z]*(?:_[A-Za-z]|[a-z][A-Z])\w*")
PLACEHOLDER = re.compile(r"(--[\w-]+) [A-Z_]+|\w*\*\w*")
HYPHEN = re.compile(r"(?<=[a-z])-(?=[a-z])")
COMMENT = re.compile(r"# .*")
OF_OTHERS = {
    "TRITON_STORE_BINARY_ONLY", "test_tensor_descriptor", "xdsl_opt", "_functorch", "PrivateUse1",
    "get_float32_matmul_precision", "register_backend", "_import_device_backends", "combine_mode",
    "IntxWeightOnlyConfig", "plain_int32", "pre_commit", "qemu_aarch64",
}
"""Names of Triton, xDSL, torch, torchao and tools that no source of ours mentions."""


def words(text):
    """Words of a text; those with hyphens, such as names of passes, have underscores here too."""
    return set(re.findall(r"\w+", text)) | set(re.findall(r"\w+", text.replace("-", "_")))


@cache
def names():
    """Names and words of the sources, without their docstrings and comments."""
    code = (COMMENT.sub("", DOCSTRING.sub("", (ROOT / file).read_text())) for file in SOURCES)
    texts = ((ROOT / file).read_text() for file in FILES if file.endswith(OTHER_TEXTS))
    return set().union(words(" ".join(FILES)), *map(words, code), *map(words, texts))


@cache
def ends_of_paths():
    """Ends of the paths of files and folders, with and without a suffix."""
    paths = {path for file in FILES for path in [Path(file), *Path(file).parents[:-1]]}
    return {"/".join(each.parts[k:]) for path in paths for each in (path, path.with_suffix(""))
            for k in range(len(path.parts))}


@cache
def folders():
    return {part for file in SOURCES for part in Path(file).parts[:-1]}


def missing_paths(text):
    """Paths in code font that begin with a folder of sources and lead nowhere."""
    paths = [path for span in SPAN.findall(text) for path in PATH.findall(span)]
    return [path for path in paths
            if path.split("/")[0] in folders() and path not in ends_of_paths()]


def missing_names(page):
    """Names in code font that neither the sources nor the page's own code have."""
    own = words(" ".join(FENCED.findall(page)))
    spans = PLACEHOLDER.sub(r"\1", " ".join(SPAN.findall(FENCED.sub("", page))))
    spans = HYPHEN.sub("_", spans)
    return set(NAME.findall(spans)) - names() - own - OF_OTHERS


def test_what_is_missing_is_found():
    assert missing_paths("`lowering/emit/emitter.py`, `emit/emitter`, `and/or`, `emit/*.py`") == []
    assert missing_paths("`lowering/emit/gone.py`") == ["lowering/emit/gone.py"]
    assert missing_names("`TRITON_XE_DEBUG=1`, `FolderKernel`, `--out TARGET_FILE`") == set()
    assert missing_names("`no_name()` of `NoClass`, `no-pass`") == {
        "no_name", "NoClass", "no_pass"}


@pytest.mark.parametrize("page", PAGES)
def test_pages(page):
    text = (ROOT / page).read_text()
    assert missing_paths(text) == []
    assert missing_names(text) == set()


def test_docstrings_name_files_that_exist():
    found = {file: missing for file in SOURCES
             if (missing := missing_paths(" ".join(DOCSTRING.findall((ROOT / file).read_text()))))}
    assert found == {}
