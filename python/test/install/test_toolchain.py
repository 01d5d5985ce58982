"""`triton-xe toolchain`, with programs that stand for debootstrap, chroot and apt-get."""

import os
import platform
import shutil
import sys
from pathlib import Path

import pytest

from triton_xe.tools import cli
from triton_xe.tools.commands import toolchain

DEBOOTSTRAP = '#!/bin/sh\nmkdir -p "$3/usr/bin" && echo "made $3"\n'
CHROOT = f"""#!/bin/sh
root=$1; shift 4
case "$*" in
*search*) echo "llvm-spirv-9 - old"; echo "llvm-spirv-22 - new";;
*install*) [ -z "$FAIL" ] || {{ echo "E: no space"; exit 100; }}
    mkdir -p "$root/{toolchain.intel.LIBRARIES}"
    for name in {" ".join(name.replace("*", "1") for name in toolchain.NEEDED)}; do
        : > "$root/$name"
    done;;
esac
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A PATH with nothing else, and the rights of root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in {"debootstrap": DEBOOTSTRAP, "chroot": CHROOT}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return folder


def test_it_installs_once(programs, tmp_path, capsys):
    root = tmp_path / "root"
    assert cli.main(["toolchain", str(root)]) == 0
    assert toolchain.is_complete(root)
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == f"done: {root}"
    assert any("libze1, spirv-tools, llvm-spirv-22 ..." in line for line in said)
    assert "made" in (tmp_path / "root.log").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "root", "root.log"]
    assert cli.main(["toolchain", str(root)]) == 0
    assert capsys.readouterr().out == f"already complete: {root}\n"
    (root / "usr/bin/spirv-val").unlink()
    assert cli.main(["toolchain", str(root)]) == 0
    assert toolchain.is_complete(root)


def test_a_failure_leaves_nothing_half_done(programs, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FAIL", "1")
    assert cli.main(["toolchain", str(tmp_path / "root")]) == 1
    said = capsys.readouterr().err
    assert "failed: E: no space (the whole of it: " in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "root.log"]


def test_what_cannot_work_is_refused_first(programs, tmp_path, capsys, monkeypatch):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    assert cli.main(["toolchain", str(tmp_path / "other")]) == 1
    assert "other holds something else" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cli.main(["toolchain", str(tmp_path / "root")]) == 1
    assert f"sudo {sys.executable} -m triton_xe.tools.cli toolchain" in capsys.readouterr().err
    (programs / "debootstrap").unlink()
    if shutil.which("debootstrap", path=toolchain.search_path()) is None:
        assert cli.main(["toolchain", str(tmp_path / "root")]) == 1
        assert "apt-get install debootstrap" in capsys.readouterr().err
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert cli.main(["toolchain", str(tmp_path / "root")]) == 1
    assert "x86_64 only; this is aarch64" in capsys.readouterr().err


def test_advice_names_only_what_is_installed():
    """No message or page tells a user to run a file of the repository."""
    folder = Path(toolchain.__file__).parents[3]
    texts = [path for room in ("triton_xe", "backend", "runtime", "lowering")
             for path in (folder / room).rglob("*.py")]
    assert len(texts) > 100
    assert [path for path in texts if "scripts/" in path.read_text()] == []
