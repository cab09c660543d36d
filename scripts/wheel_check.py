"""Checks wheels and programs for publication: glibc symbols, the wheel's tag, licence files, size, paths of the machine.

usage: python scripts/wheel_check.py GLIBC FILE...

GLIBC is the oldest version that they are for, as in 2.17. Needs auditwheel, which brings pyelftools.
"""

import io
import os
import pathlib
import subprocess
import sys
import zipfile

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

# The loader and what glibc and gcc bring to every Linux; anything else would have to be in the wheel.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libgcc_s.so.1",
          "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
LICENCES = ("LICENSE-MIT", "LICENSE-APACHE", "LICENSE-THIRD-PARTY")
LARGEST = 30_000_000


def main():
    glibc, files = sys.argv[1], [pathlib.Path(name) for name in sys.argv[2:]]
    problems = [f"{file}: {problem}" for file in files for problem in (wheel if file.suffix == ".whl" else program)(file, glibc)]
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def wheel(file, glibc):
    problems = []
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        for name in names:
            if name.endswith(".so"):
                problems += binary(f"{file.name}: {name}", archive.read(name), glibc)
        for licence in LICENCES:
            if not any(name.endswith(f".dist-info/licenses/{licence}") for name in names):
                problems.append(f"has no {licence}")
    tag = f"manylinux_{glibc.replace('.', '_')}_"
    if tag not in file.name or "-abi3-" not in file.name:
        problems.append(f"is not tagged abi3 and {tag}...")
    if "x86_64" in file.name:
        shown = subprocess.run(["auditwheel", "show", str(file)], capture_output=True, text=True, check=True).stdout
        if tag not in " ".join(shown.split()):
            problems.append(f"auditwheel does not find it fit for {tag}...:\n{shown}")
    return problems


def program(file, glibc):
    return binary(file.name, file.read_bytes(), glibc)


def binary(name, content, glibc):
    """The problems of one ELF file; prints its newest glibc symbol and its size."""
    elf = ELFFile(io.BytesIO(content))
    needed, versions = set(), set()
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            versions |= {entry.name for _, entries in section.iter_versions() for entry in entries if entry.name.startswith("GLIBC_")}
    for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED"):
        needed.add(tag.needed)
    newest = max((number(version) for version in versions), default=(0,))
    print(f"{name}: {len(content) / 1e6:.1f} MB, needs glibc {'.'.join(map(str, newest))}")
    problems = []
    if newest > number(glibc):
        problems.append(f"{name} needs glibc {'.'.join(map(str, newest))}")
    if needed - SYSTEM:
        problems.append(f"{name} needs {', '.join(sorted(needed - SYSTEM))}")
    if len(content) > LARGEST:
        problems.append(f"{name} has {len(content):,} bytes, more than {LARGEST:,}")
    for path in {str(pathlib.Path.cwd()), str(pathlib.Path.home() / ".cargo"), os.environ.get("CARGO_HOME") or "\0no such path"}:
        if path.encode() in content:
            problems.append(f"{name} contains the path {path}")
    return problems


def number(version):
    return tuple(int(part) for part in version.removeprefix("GLIBC_").split("."))


if __name__ == "__main__":
    sys.exit(main())
