"""The state of the installed Triton, and the steps that repair it.

Torch's XPU builds require `triton-xpu` (`pytorch-triton-xpu` before 2.9), which owns the same
folder `triton/` as stock Triton and also registers a backend `intel`.  The one of the two that was
installed last has overwritten files of the other, and removing one removes files of the other.
`examine` reads the metadata of the installed packages; `findings` and `steps` are pure functions of
it.  Nothing here imports triton or torch, because either may be broken.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import Distribution
from pathlib import Path

from triton_xe import triton_versions
from triton_xe.errors import DeviceError

STOCK = "triton"
STOCK_VERSION = "3.9.0"
RIVALS = ("triton-xpu", "pytorch-triton-xpu")
"""Distributions that also own the folder `triton/` and the backend `intel`."""
OURS = "triton-xe"
GROUP, BACKEND = "triton.backends", "intel"
HASHED_BYTES = 1 << 20
"""Size above which files are compared by size alone."""
_PIN = re.compile(r"^\s*([A-Za-z0-9._-]+)\s*\(?\s*==\s*([^\s;,)]+)")


@dataclass(frozen=True)
class Package:
    """One installed distribution: its name as pip normalises it, version and metadata folder."""

    name: str
    version: str
    folder: Path
    is_stand_in: bool = False
    has_record: bool = True
    registers_backend: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class Installation:
    """All facts that determine whether `import triton` finds a complete stock Triton."""

    site: Path
    stock: Package | None = None
    damaged: tuple[str, ...] = ()
    """Files of stock Triton that are missing or overwritten."""
    rivals: tuple[Package, ...] = ()
    required: tuple[tuple[str, str], ...] = ()
    """(rival, version) that the installed torch requires."""
    stand_ins: tuple[Package, ...] = ()
    leftovers: tuple[str, ...] = ()
    """Folders below `triton/backends` that stock Triton does not own."""

    @property
    def unmet(self) -> tuple[tuple[str, str], ...]:
        """Requirements of torch that only a stand-in may satisfy, and none does."""
        held = {(p.name, p.version) for p in self.stand_ins}
        return tuple(pin for pin in self.required if pin not in held)

    @property
    def unneeded(self) -> tuple[Package, ...]:
        """Stand-ins for packages that torch does not require."""
        return tuple(p for p in self.stand_ins if (p.name, p.version) not in self.required)


@dataclass(frozen=True)
class Step:
    """One step of `setup`: a sentence for people, and a command to run or a function to call."""

    what: str
    pip: tuple[str, ...] = ()
    call: Callable[[], object] | None = field(default=None, compare=False)

    def run(self) -> None:
        """Do the step; `DeviceError` with pip's last lines if pip fails."""
        if self.call is not None:
            self.call()
        if not self.pip:
            return
        done = subprocess.run(installer(*self.pip), capture_output=True, text=True)
        if done.returncode:
            tail = (done.stderr or done.stdout).strip().splitlines()[-3:]
            raise DeviceError(
                f"{' '.join(self.pip)} failed: {' '.join(tail)}; repair what it names and run "
                "`triton-xe setup` again, each step may be repeated")


def normalised(name: str) -> str:
    """A distribution's name as pip compares it.

    >>> normalised("PyTorch_Triton.XPU")
    'pytorch-triton-xpu'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def examine(path: Sequence[str] | None = None) -> Installation:
    """Examine the packages on `path` (`sys.path`)."""
    found: dict[str, Distribution] = {}
    for distribution in importlib.metadata.distributions(path=list(path or sys.path)):
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(normalised(name), distribution)
    site = _site(found, path)
    packages = {name: _package(name, d) for name, d in found.items()
                if name in (STOCK, *RIVALS)}
    present = [packages[name] for name in RIVALS if name in packages]
    stock = packages.get(STOCK)
    return Installation(
        site,
        stock,
        damaged_files(found[STOCK]) if stock else (),
        tuple(p for p in present if not p.is_stand_in),
        tuple(_pins(found["torch"])) if "torch" in found else (),
        tuple(p for p in present if p.is_stand_in),
        tuple(_leftovers(site, found.get(STOCK))),
    )


def _site(found: dict[str, Distribution], path: Sequence[str] | None) -> Path:
    """The folder that contains, or will contain, `triton/`."""
    for name in (STOCK, *RIVALS, "torch"):
        if name in found:
            return Path(str(found[name].locate_file("")))
    return Path(path[0] if path else sysconfig.get_path("platlib"))


def _package(name: str, found: Distribution) -> Package:
    folder = Path(str(getattr(found, "_path", found.locate_file(""))))
    return Package(
        name, found.version, folder,
        is_stand_in=(found.read_text(MARK) is not None),
        has_record=found.read_text("RECORD") is not None,
        registers_backend=any(
            e.group == GROUP and e.name == BACKEND for e in found.entry_points),
    )


def _pins(torch: Distribution) -> Iterable[tuple[str, str]]:
    for requirement in torch.requires or ():
        found = _PIN.match(requirement)
        if found and normalised(found[1]) in RIVALS:
            yield normalised(found[1]), found[2]


def damaged_files(found: Distribution) -> tuple[str, ...]:
    """Files below `triton/` that the distribution installed and that have changed since."""
    record = found.read_text("RECORD")
    if record is None:
        return ("RECORD",)
    broken = []
    for line in record.splitlines():
        name, digest, size = line.rsplit(",", 2) if line.count(",") >= 2 else (line, "", "")
        if not name.startswith(f"{STOCK}/") or name.endswith(".pyc") or not digest:
            continue
        if not _is_intact(Path(str(found.locate_file(name))), digest, int(size)):
            broken.append(name)
    return tuple(broken)


def _is_intact(file: Path, digest: str, size: int) -> bool:
    if not file.is_file() or file.stat().st_size != size:
        return False
    if size > HASHED_BYTES:
        return True
    algorithm, _, wanted = digest.partition("=")
    seen = hashlib.new(algorithm, file.read_bytes()).digest()
    return base64.urlsafe_b64encode(seen).rstrip(b"=").decode() == wanted


def _leftovers(site: Path, stock: Distribution | None) -> Iterable[str]:
    """`triton/backends/intel`, which does not belong to stock Triton."""
    folder = site / STOCK / "backends" / BACKEND
    owned = (stock.read_text("RECORD") or "") if stock else ""
    if folder.exists() and f"{STOCK}/backends/{BACKEND}/" not in owned:
        yield folder.relative_to(site).as_posix()


def findings(seen: Installation) -> list[str]:
    """Problems, one sentence each; empty if stock Triton is complete and alone."""
    said = [
        f"{rival} is installed: it has the same folder `triton/` as stock Triton and registers "
        f"the backend `{BACKEND}` too" for rival in seen.rivals
    ]
    if seen.stock is None:
        said.append("stock Triton is not installed")
    elif triton_versions.find(seen.stock.version) is None:
        said.append(f"{seen.stock} is installed; this plugin is made for {STOCK} "
                    f"{triton_versions.span()}")
    elif seen.damaged:
        said.append(
            f"{len(seen.damaged)} files of stock {seen.stock} are missing or another package's, "
            f"among them {seen.damaged[0]}")
    if not seen.rivals:
        said += [f"{name} is left over from a package that is gone" for name in seen.leftovers]
        said += [f"torch asks for {name} {version}, which is not installed: pip would bring it"
                 for name, version in seen.unmet]
    said += [f"the stand-in {p} is for another torch" for p in seen.unneeded]
    return said


def steps(seen: Installation) -> list[Step]:
    """Steps that repair stock Triton and keep torch's requirement satisfied, in order."""
    todo = [_removal(rival) for rival in seen.rivals]
    todo += [_folder_removal(seen.site / name) for name in seen.leftovers]
    held = seen.stock.version if seen.stock else ""
    is_known = triton_versions.find(held) is not None
    if not is_known or seen.damaged or seen.rivals:
        version = held if is_known else STOCK_VERSION
        todo.append(Step(
            f"install stock Triton {version} whole (no other package is touched)",
            ("install", "--force-reinstall", "--no-deps", f"{STOCK}=={version}")))
    todo += [_stand_in_removal(p) for p in seen.unneeded]
    todo += [
        Step(f"tell pip that torch's requirement {name}=={version} is met (a distribution "
             "without files that says so)",
             call=partial(write_stand_in, seen.site, name, version))
        for name, version in seen.unmet
    ]
    return todo


def undo_steps(seen: Installation) -> list[Step]:
    """Steps that restore the packages which the stand-ins replace."""
    todo = [_stand_in_removal(p) for p in seen.stand_ins]
    todo += [
        Step(f"install {p.name} {p.version} again (it overwrites stock Triton)",
             ("install", "--force-reinstall", "--no-deps", f"{p.name}=={p.version}"))
        for p in seen.stand_ins if json.loads((p.folder / MARK).read_text())["replaced"]
    ]
    return todo


def _removal(rival: Package) -> Step:
    if rival.has_record:
        return Step(f"uninstall {rival} (what it shares with stock Triton comes back below)",
                    ("uninstall", rival.name))
    return _folder_removal(rival.folder)


def _folder_removal(folder: Path) -> Step:
    return Step(f"remove {folder.parent.name}/{folder.name}, which stock Triton has not",
                call=lambda: shutil.rmtree(folder, ignore_errors=True))


def _stand_in_removal(package: Package) -> Step:
    return Step(f"remove the stand-in {package}", call=lambda: shutil.rmtree(package.folder))


MARK = "triton_xe_stand_in.json"
"""File in a stand-in's metadata folder that identifies it."""
_METADATA = """Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: Stand-in without files, made by triton-xe: torch asks for {name}, stock Triton is used
Home-page: https://triton-lang.org

This distribution holds nothing.  `triton-xe setup` made it so that pip sees torch's requirement
{name}=={version} as met while stock Triton and triton-xe do the work; `triton-xe setup --undo`
removes it.
"""


def write_stand_in(site: Path, name: str, version: str, *, replaced: bool = True) -> Path:
    """Write the metadata folder of a distribution without files; pip can list and uninstall it."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "METADATA": _METADATA.format(name=name, version=version),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: {OURS}\nRoot-Is-Purelib: true\n"
                 "Tag: py3-none-any\n",
        "INSTALLER": f"{OURS}\n",
        MARK: json.dumps({"for": f"{name}=={version}", "replaced": replaced}) + "\n",
    }
    for file, text in texts.items():
        (folder / file).write_text(text)
    names = (*texts, "RECORD")
    (folder / "RECORD").write_text("".join(f"{folder.name}/{file},,\n" for file in names))
    return folder


def installer(what: str, *words: str) -> list[str]:
    """The command that installs into, or uninstalls from, this interpreter: its pip,
    otherwise uv.
    """
    uv = shutil.which("uv")
    if uv is not None and importlib.util.find_spec("pip") is None:
        return [uv, "pip", what, "--python", sys.executable, *words]
    consent = ["-y"] if what == "uninstall" else []
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", what, *consent, *words]


__all__ = [
    "Installation", "Package", "Step", "examine", "findings", "steps", "undo_steps",
    "write_stand_in",
]
