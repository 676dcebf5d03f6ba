"""The verdict on each setting that a configuration file makes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SettingVerdict(StrEnum):
    """What becomes of a setting."""

    HONOURED = "honoured"
    IRRELEVANT = "irrelevant here"
    NOT_SUPPORTED = "not supported"


@dataclass(frozen=True, slots=True)
class ConfigSetting:
    """One setting, by its path in the file."""

    path: str
    verdict: SettingVerdict
    why: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.verdict.value}" + (f": {self.why}" if self.why else "")


class SettingVerdicts:
    """Collects verdicts; a path has one, the first that it was given."""

    def __init__(self) -> None:
        self._found: dict[str, ConfigSetting] = {}

    def honoured(self, path: str, why: str = "") -> None:
        """It acts as in kube-scheduler."""
        self._found.setdefault(path, ConfigSetting(path, SettingVerdict.HONOURED, why))

    def irrelevant(self, path: str, why: str) -> None:
        """Nothing here has what it is about, and no pod is placed otherwise for it."""
        self._found.setdefault(path, ConfigSetting(path, SettingVerdict.IRRELEVANT, why))

    def not_supported(self, path: str, why: str) -> None:
        """It does not act, and a pod may be placed otherwise than kube-scheduler would."""
        self._found.setdefault(path, ConfigSetting(path, SettingVerdict.NOT_SUPPORTED, why))

    def all(self) -> tuple[ConfigSetting, ...]:
        """In the order in which they were given."""
        return tuple(self._found.values())
