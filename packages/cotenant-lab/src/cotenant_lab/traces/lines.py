"""A text file as blocks of whole lines, plain or gzip, with line numbers and checks of the bytes.

The file is read once, in blocks of a few megabytes, so a table larger than memory can be converted. Compression is
detected by the first bytes, not by the name. Refused here: a missing, empty, binary or non-UTF-8 file, a truncated or
damaged gzip stream, and a "line" of more than 64 MiB. Not handled: encodings other than UTF-8, and line breaks inside
quotes.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from cotenant.model.errors import InvalidInput

BLOCK_BYTES = 32 << 20
LONGEST_LINE = 64 << 20
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines, each ending in a newline."""

    data: bytes
    first_line: int  # number of the block's first line in the file, from 1
    consumed: int  # bytes of the file (compressed, if it is) read so far


def size_of(path: Path) -> int:
    """Bytes of the file. Raises `InvalidInput` where it is missing, unreadable, not a file, or empty."""
    try:
        if not path.is_file():
            what = "a folder" if path.is_dir() else "no such file"
            raise InvalidInput(str(path), what, "a readable file")
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except OSError as error:
        raise InvalidInput(str(path), error.strerror or "unreadable", "a readable file") from error
    if size == 0:
        raise InvalidInput(str(path), "empty file", "a table with at least one row")
    return size


def read_blocks(path: Path, block_bytes: int = BLOCK_BYTES) -> Iterator[LineBlock]:
    """The file's lines, in blocks of about `block_bytes` of text. Line ends become a bare newline; the last line gets
    one.

    Raises `InvalidInput` naming the file and the line where the bytes are not text.
    """
    size_of(path)
    with path.open("rb") as raw:
        compressed = raw.read(2) == GZIP_MAGIC
        raw.seek(0)
        text = gzip.GzipFile(fileobj=raw) if compressed else raw
        line = 1
        rest = b""
        first = True
        while True:
            data = _read(text, block_bytes, path, line)
            if line == 1 and not rest:
                data = data.removeprefix(BYTE_ORDER_MARK)
            if data:
                end = data.rfind(b"\n") + 1
                whole, rest = (rest + data[:end], data[end:]) if end else (b"", rest + data)
                if len(rest) > LONGEST_LINE:
                    raise InvalidInput(f"{path}: line {line}", f"more than {LONGEST_LINE >> 20} MiB", "lines of text")
            else:
                whole, rest = (rest + b"\n" if rest else b""), b""
            if whole:
                if b"\r" in whole:
                    whole = whole.replace(b"\r\n", b"\n")
                _check_text(whole, path, line)
                yield LineBlock(whole, line, raw.tell())
                line += whole.count(b"\n")
                first = False
            if not data:
                break
        if first:
            raise InvalidInput(str(path), "empty file", "a table with at least one row")


def _read(text: gzip.GzipFile | BufferedReader, size: int, path: Path, line: int) -> bytes:
    try:
        return text.read(size)
    except EOFError as error:
        raise InvalidInput(
            f"{path}: near line {line}", "truncated gzip", "a complete gzip file", "fetch it again"
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInput(f"{path}: near line {line}", "damaged gzip", "a valid gzip file", str(error)) from error
    except OSError as error:
        raise InvalidInput(str(path), error.strerror or str(error), "a readable file") from error


def _check_text(data: bytes, path: Path, first_line: int) -> None:
    at = data.find(b"\0")
    if at >= 0:
        bad_line = first_line + data.count(b"\n", 0, at)
        raise InvalidInput(f"{path}: line {bad_line}", "binary data", "lines of text (CSV)")
    if not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            bad_line = first_line + data.count(b"\n", 0, error.start)
            raise InvalidInput(
                f"{path}: line {bad_line}", "bytes that are not UTF-8", "lines of UTF-8 text (CSV)"
            ) from error
