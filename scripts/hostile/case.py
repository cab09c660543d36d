"""One case: its folder, the commands that run in it, and the checks after each of them."""

import ast
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

# Far above what any case needs: a busy machine is not a finding.
TIMEOUT = 180.0
# A run that got a signal must stop within two seconds; a busy machine gets some more.
STOP_SECONDS = 8.0
NOBODY = 65534
STOPS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
PANIC = re.compile(rb"panicked|RUST_BACKTRACE|stack backtrace|memory allocation of|thread '.*' \(|fatal runtime error")
# C0 other than tab and newline, DEL, and C1 as UTF-8. `\r` would overwrite a line of a log.
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
LEFTOVER = re.compile(r"\.tmp|lock$|~$", re.IGNORECASE)


class Ran:
    """The result of a command: status, both streams, seconds, and the signals it was sent."""

    def __init__(self, status, stdout, stderr, seconds, sent):
        self.status, self.stdout, self.stderr, self.seconds, self.sent = status, stdout, stderr, seconds, sent
        self.piped = self.heard = True

    def json(self):
        return json.loads(self.stdout)


class Case:
    """A numbered case of a family. Its random numbers depend only on seed, family and index."""

    def __init__(self, lab, family, index, seed, folder):
        self.lab, self.family, self.index, self.dir = lab, family, index, Path(folder)
        self.rng = random.Random(f"{seed}:{family}:{index}")
        self.inputs: dict[Path, bytes] = {}
        self.findings: list[tuple[str, str, str]] = []
        self.commands: list[str] = []
        self.runs = 0
        self.skipped = None
        self.before: set[Path] = set()
        self.dir.mkdir(mode=0o755)

    # Making files.

    def put(self, name, data: bytes, guard: bool = True):
        """Writes a file into the folder; with `guard` it is an input that no command may change."""
        path = self.dir / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if guard:
            self.inputs[path] = data
        return name

    def put_all(self, prefix, files: dict[str, bytes]):
        for name, data in files.items():
            self.put(f"{prefix}/{name}", data)
        return prefix

    def path(self, name):
        return self.dir / os.fsdecode(name)

    # Running and checking.

    def fail(self, kind, text):
        self.findings.append((kind, text, self.commands[-1] if self.commands else ""))

    def run(self, *args, outputs=(), keeps=(), status=None, expect=None, after=(), memory_mb=1024, fsize=None,
            stdout=None, stderr=None, cwd=None, as_nobody=False, timeout=TIMEOUT, strays=True, stdin=None):
        """Runs the command and does all checks that apply to any run.

        outputs: files that may be written (completely). keeps: files or folders that may remain after a failed run.
        status: the only statuses allowed. expect: (statuses, finding's kind, why). after: (seconds, signal) to send.
        """
        process, started = self.start(*args, memory_mb=memory_mb, fsize=fsize, stdout=stdout, stderr=stderr, cwd=cwd,
                                      as_nobody=as_nobody, stdin=stdin)
        ran = self.finish(process, started, after, timeout)
        ran.piped, ran.heard = stdout is None, stderr is None
        self.check(ran, args, outputs, keeps, strays)
        if status is not None and ran.status not in status:
            self.fail("status", f"exit {ran.status}, expected {sorted(status)}: {tail(ran)}")
        if expect is not None and ran.status not in expect[0]:
            self.fail(expect[1], f"{expect[2]} (exit {ran.status}): {tail(ran)}")
        return ran

    def start(self, *args, memory_mb=1024, fsize=None, stdout=None, stderr=None, cwd=None, as_nobody=False, stdin=None):
        argv = [os.fsencode(self.lab.binary)] + [os.fsencode(a) for a in args]
        folder = self.path(cwd) if cwd else self.dir
        limits = "".join(
            [f"ulimit -v {memory_mb * 1024}; " if memory_mb else "", f"ulimit -f {fsize}B; " if fsize is not None else "",
             "as nobody: " if as_nobody else ""])
        streams = "".join([f" >{stdout}" if stdout else "", f" 2>{stderr}" if stderr else ""])
        self.commands.append(f"cd {folder} && ({limits}pervade {' '.join(quoted(a) for a in argv[1:])}{streams})")
        self.runs += 1
        # Files that an earlier, killed run of this case left are ignored.
        self.before = {path for path in self.dir.rglob("*") if LEFTOVER.search(path.name)}

        def before():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if memory_mb:
                resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
            if fsize is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (fsize, fsize))
            if as_nobody:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            if stdout == "&-":
                os.close(1)
            if stderr == "&-":
                os.close(2)

        opened = [open(name, "wb") for name in (stdout, stderr) if name and name.startswith("/")]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        for key, name in (("stdout", stdout), ("stderr", stderr)):
            if name and name.startswith("/"):
                pipes[key] = opened.pop(0)
            elif name == "&-":
                pipes[key] = subprocess.DEVNULL
        process = subprocess.Popen(argv, cwd=folder, stdin=stdin or subprocess.DEVNULL, preexec_fn=before, env=self.lab.env,
                                   **pipes)
        for key in ("stdout", "stderr"):
            if hasattr(pipes[key], "close"):
                pipes[key].close()
        return process, time.monotonic()

    def finish(self, process, started, after=(), timeout=TIMEOUT):
        sent = []
        try:
            for delay, what in after:
                try:
                    out = process.communicate(timeout=delay)
                    return Ran(process.returncode, out[0] or b"", out[1] or b"", time.monotonic() - started, sent)
                except subprocess.TimeoutExpired:
                    process.send_signal(what)
                    sent.append(what)
            signalled = time.monotonic()
            out = process.communicate(timeout=STOP_SECONDS if sent else timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out = process.communicate()
            kind = "slow stop" if sent else "hang"
            self.fail(kind, f"still running {time.monotonic() - (signalled if sent else started):.1f} s later; {last(out[1])}")
            sent.append(signal.SIGKILL)
        return Ran(process.returncode, out[0] or b"", out[1] or b"", time.monotonic() - started, sent)

    def check(self, ran, args, outputs=(), keeps=(), strays=True):
        if {"-h", "--help", "-V", "--version", "help"} & {word for word in args if isinstance(word, str)}:
            # Whatever the other arguments, these only print.
            args = ["help"]
        self.check_status(ran, args)
        self.check_talk(ran, args)
        self.check_inputs()
        self.check_outputs(ran, args, outputs)
        if strays:
            self.check_strays(ran, outputs, keeps)

    def check_status(self, ran, args):
        allowed = {0, 1, 2} | {STOPS[s] for s in ran.sent if s in STOPS} | {-s for s in ran.sent}
        if ran.status not in allowed:
            what = f"died of {signal.Signals(-ran.status).name}" if ran.status < 0 else f"exit {ran.status}"
            self.fail("death" if ran.status < 0 else "status", f"{what}: {tail(ran)}")
        if ran.status == 1 and args[0] not in ("evaluate", "doctor"):
            self.fail("status", f"exit 1 from `{args[0]}`, which checks nothing: {tail(ran)}")

    def check_talk(self, ran, args):
        for name, stream in (("stderr", ran.stderr), ("stdout", ran.stdout)):
            if PANIC.search(stream):
                self.fail("panic text", f"{name}: {last(stream, PANIC)}")
        shown = ran.stderr
        if args and "--json" not in args and args[0] in ("inspect", "evaluate", "fit", "demo", "doctor", "reproduce"):
            shown += ran.stdout
        if found := CONTROL.search(shown):
            self.fail("control characters", repr(shown[max(0, found.start() - 30):found.end() + 10]))
        errors = [line for line in ran.stderr.split(b"\n") if line.startswith(b"error:")]
        if ran.status == 2 and ran.heard and len(errors) != 1:
            self.fail("error lines", f"{len(errors)} lines begin with `error:`: {ran.stderr[-300:]!r}")
        if ran.status == 0 and errors:
            self.fail("error lines", f"exit 0 with {errors[0]!r}")
        usage = b"For more information, try" in ran.stderr
        if "--json" in args and ran.status in (0, 1, 2) and ran.piped and not usage and not ran.sent:
            self.check_json(ran)

    def check_json(self, ran):
        try:
            if not isinstance(json.loads(ran.stdout), dict):
                raise ValueError("no object")
        except ValueError as e:
            self.fail("json", f"exit {ran.status}, stdout {ran.stdout[:120]!r}: {e}")

    def check_inputs(self):
        for path, data in self.inputs.items():
            try:
                now = path.read_bytes()
            except OSError as e:
                now = None
                self.fail("input lost", f"{path.relative_to(self.dir)}: {e}")
            if now is not None and now != data:
                self.fail("input changed", f"{path.relative_to(self.dir)}: {len(data)} bytes before, {len(now)} now")
                path.write_bytes(data)

    def check_outputs(self, ran, args, outputs):
        for flag, name in zip(args, args[1:]):
            if ran.status == 0 and flag in ("-o", "--record", "--log") and not os.path.lexists(self.path(name)):
                self.fail("no output", f"exit 0, and there is no {os.fsencode(name)!r}")
        for name in outputs:
            path = self.path(name)
            if path in self.inputs or os.path.islink(path) or not os.path.isfile(path):
                continue
            killed = signal.SIGKILL in ran.sent
            if trouble := broken(path, partial_log=ran.status != 0 or killed):
                self.fail("half-written", f"{os.fsencode(path.name)!r}: {trouble} (exit {ran.status})")

    def check_strays(self, ran, outputs, keeps):
        allowed = {self.path(name) for name in outputs}
        if ran.status != 0:
            allowed |= {self.path(name) for name in keeps}
        killed = signal.SIGKILL in ran.sent
        for path in sorted(self.dir.rglob("*")):
            if path in self.inputs or path in allowed or (path.is_symlink() and not LEFTOVER.search(path.name)):
                continue
            if path.is_dir() and any(p != path and p.is_relative_to(path) for p in self.known(allowed)):
                continue
            inside = any(path.is_relative_to(folder) for folder in allowed)
            if LEFTOVER.search(path.name) and (killed or path in self.before):
                continue
            if LEFTOVER.search(path.name):
                self.fail("leftover", f"{path.relative_to(self.dir)} (exit {ran.status})")
            elif not inside and not killed and path not in self.known(allowed):
                self.fail("stray file", f"{path.relative_to(self.dir)} (exit {ran.status})")

    def known(self, allowed):
        return allowed | set(self.inputs) | self.lab_made

    lab_made: set = set()

    def expected(self, *names):
        """Folders and links that the case itself created."""
        self.lab_made = self.lab_made | {self.path(name) for name in names}

    def clean(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def broken(path, partial_log=False):
    """Why an output is incomplete, or None."""
    data, kind = path.read_bytes(), path.suffix.lower()
    try:
        if kind == ".npy":
            start = 10 + struct.unpack("<H", data[8:10])[0]
            header = ast.literal_eval(data[10:start].decode().strip())
            size = math.prod(header["shape"]) * item_bytes(header["descr"])
            return None if len(data) == start + size else f"{len(data)} bytes for {header}"
        if kind == ".csv":
            rows = data.split(b"\n")
            widths = {row.count(b",") for row in rows[:-1]} if b'"' not in data else {0}
            return None if rows[-1] == b"" and len(widths) == 1 else "lines of unequal length, or cut short"
        if kind == ".json":
            json.loads(data)
        if kind == ".jsonl":
            for line in data.split(b"\n")[:-1] if partial_log else data.splitlines():
                json.loads(line)
        if kind == ".parquet":
            return None if data[:4] == data[-4:] == b"PAR1" else "no Parquet file"
        if kind == ".png":
            return None if data[:4] == b"\x89PNG" and data[-8:-4] == b"IEND" else "no PNG file"
        if kind in (".pervade", ".safetensors"):
            return broken_tensors(data)
    except (ValueError, TypeError, KeyError, SyntaxError, struct.error) as e:
        return f"{type(e).__name__} {e}"
    return None


def item_bytes(kind):
    """Bytes of an element of a `.npy` file: one number, or a record of several."""
    if isinstance(kind, str):
        return int(kind[2:])
    return sum(item_bytes(field[1]) * math.prod(field[2] if len(field) > 2 else ()) for field in kind)


def broken_tensors(data):
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    end = max([t["data_offsets"][1] for name, t in header.items() if name != "__metadata__"], default=0)
    return None if len(data) == 8 + n + end else f"{len(data)} bytes, header says {8 + n + end}"


def quoted(word: bytes) -> str:
    text = word.decode("utf-8", "surrogateescape")
    if len(text) > 400:
        return f"$(python3 -c 'print(\"{text[:1]}\" * {len(text)})')"
    if re.fullmatch(r"[\w@%+=:,./-]+", text, re.ASCII):
        return text
    if all(32 <= b < 127 for b in word):
        return "'" + text.replace("'", "'\\''") + "'"
    return "$'" + "".join(chr(b) if 32 <= b < 127 and b not in b"\\'" else f"\\x{b:02x}" for b in word) + "'"


def tail(ran):
    return last(ran.stderr) or last(ran.stdout)


def last(stream, pattern=None):
    lines = [line for line in (stream or b"").split(b"\n") if line.strip()]
    if pattern:
        lines = [line for line in lines if pattern.search(line)][:1]
    errors = [line for line in lines if line.startswith(b"error:")]
    return ascii((errors or lines or [b""])[-1][:240].decode("utf-8", "replace"))
