"""Images as docker saves them, made of names and contents."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def layer_of(files: Mapping[str, bytes | str | None], *, mode: int = 0o755) -> bytes:
    """A layer: content, `-> target` for a symbolic link, `=> target` for a hard one, None for a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.mode = mode
            if content is None:
                info.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                info.type = tarfile.SYMTYPE if content.startswith("-> ") else tarfile.LNKTYPE
                info.linkname = content[3:]
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


def save_image(path: Path, layers: Sequence[bytes], config: Mapping[str, object], *, wrong: str = "") -> Path:
    """An archive of one image. `wrong`: a digest that is told for the first layer instead of its own."""
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    if wrong:
        digests[0] = wrong
    document = json.dumps({"config": config, "rootfs": {"type": "layers", "diff_ids": digests}}).encode()
    name = f"{hashlib.sha256(document).hexdigest()}.json"
    names = [f"layer{number}/layer.tar" for number in range(len(layers))]
    manifest = json.dumps([{"Config": name, "RepoTags": ["test:1"], "Layers": names}]).encode()
    with tarfile.open(path, "w") as tar:
        for member, data in ((name, document), ("manifest.json", manifest), *zip(names, layers, strict=True)):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path
