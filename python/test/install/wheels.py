"""Small wheels with the file lists of the real ones, installed by pip into a new environment."""

import base64
import hashlib
import shutil
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass, field
from importlib.metadata import files
from pathlib import Path

ROOT = Path(__file__).parents[3]
RIVAL_FILES = (
    "triton/backends/intel/__init__.py",
    "triton/backends/intel/arch_parser.c",
    "triton/backends/intel/compiler.py",
    "triton/backends/intel/driver.c",
    "triton/backends/intel/driver.py",
    "triton/backends/intel/include/sycl_functions.h",
    "triton/backends/intel/lib/libsycl-spir64-unknown-unknown.bc",
    "triton/language/extra/intel/__init__.py",
    "triton/language/extra/intel/libdevice.py",
)


@dataclass(frozen=True)
class Wheel:
    """One wheel to be made: the text of each file, requirements, entry points by group."""

    name: str
    version: str
    files: dict[str, str]
    requires: tuple[str, ...] = ()
    entry_points: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        stem = f"{self.name.replace('-', '_')}-{self.version}"
        info = f"{stem}.dist-info"
        requires = "".join(f"Requires-Dist: {r}\n" for r in self.requires)
        texts = self.files | {
            f"{info}/METADATA":
                f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n{requires}",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": "".join(
                f"[{group}]\n{line}\n" for group, line in self.entry_points.items()),
        }
        record = "".join(f"{name},{_digest(text)},{len(text)}\n" for name, text in texts.items())
        path = folder / f"{stem}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in texts.items():
                archive.writestr(name, text)
            archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
        return path


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def stock_files() -> list[str]:
    """Every fifth file of the installed Triton's wheel, and those that decide."""
    found = sorted(str(f) for f in files("triton") or ())
    below = [name for name in found if name.startswith("triton/") and not name.endswith(".pyc")]
    return sorted({*below[::5], "triton/__init__.py", "triton/compiler/compiler.py"})


def triton_files(owner: str, names: list[str]) -> dict[str, str]:
    """Every file says who brought it; packages can be imported."""
    return {name: f"OWNER = {owner!r}\n" for name in names}


def wheels() -> list[Wheel]:
    stock = stock_files()
    made = [Wheel("triton", "3.9.0", triton_files("stock", stock))]
    for rival, version, torch in (("triton-xpu", "3.7.2", "2.13.0+xpu"),
                                  ("triton-xpu", "3.7.0", "2.11.0+xpu"),
                                  ("pytorch-triton-xpu", "3.4.0", "2.8.0+xpu")):
        files_ = triton_files(f"{rival} {version}", [*stock[: len(stock) // 2], *RIVAL_FILES])
        made.append(Wheel(rival, version, files_, entry_points={
            "triton.backends": "intel = triton.backends.intel"}))
        made.append(Wheel("torch", torch, {"torch/__init__.py": ""},
                          (f'{rival}=={version}; platform_system == "Linux"',)))
    made.append(Wheel("torch", "2.13.0+cpu", {"torch/__init__.py": ""}))
    made.append(Wheel("triton-xe", "0.1.0", {}, ("triton<3.10,>=3.9",),
                      {"triton.backends": "intel = triton_xe.backend"}))
    return made


class Environment:
    """A virtual environment whose pip, or `uv`, sees the wheels of one folder only."""

    def __init__(self, folder: Path, wheelhouse: Path, uv: str = "") -> None:
        venv.create(folder, with_pip=not uv)
        self._pip = [uv, "pip"] if uv else [str(folder / "bin" / "python"), "-m", "pip"]
        self.wheelhouse = wheelhouse
        self.python = str(folder / "bin" / "python")
        self.site = next(folder.glob("lib/python*/site-packages"))
        self._kept = {p.name for p in self.site.iterdir()}
        (folder / "uv.toml").write_text(f"no-index = true\nfind-links = ['{wheelhouse}']\n")
        ours = folder / "ours"  # the package alone: the metadata beside it is not of this place
        ours.mkdir()
        (ours / "triton_xe").symlink_to(ROOT / "triton_xe")
        self._variables = {
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheelhouse), "PYTHONPATH": str(ours),
            "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_COMPILE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "UV_CONFIG_FILE": str(folder / "uv.toml"), "UV_CACHE_DIR": str(folder / "cache"),
            "VIRTUAL_ENV": str(folder),
            "PATH": f"{Path(uv).parent}:/usr/bin:/bin" if uv else "/usr/bin:/bin",
        }

    def clear(self) -> None:
        for path in self.site.iterdir():
            if path.name not in self._kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, env=self._variables, capture_output=True, text=True, cwd=self.site,
            stdin=subprocess.DEVNULL,
        )

    def pip(self, *words: str) -> str:
        done = self.run(*self._pip, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def setup(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.python, "-m", "triton_xe.tools.cli", "setup", *words)

    def owners(self) -> set[str]:
        """Who brought the files of stock Triton that are there; "" for a missing one."""
        texts = (self.site / name for name in stock_files())
        return {p.read_text().split("'")[1] if p.exists() else "" for p in texts}


if __name__ == "__main__":
    for wheel in wheels():
        print(wheel.write(Path(sys.argv[1])))
