"""Cases that broke a property before, kept in a folder of the user's and tried first the next time."""

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Found:
    """One small file per implementation, property and dtype, which holds the shrunk case as it prints."""

    folder: Path

    def recall(self, *key: str) -> str | None:
        """The case that was found last, if there is one."""
        try:
            return self._file(*key).read_text()
        except OSError:
            return None

    def keep(self, case: str, *key: str) -> None:
        """Remember the case; a folder that cannot be written to is no reason to fail a run."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file(*key).write_text(case)
        except OSError:
            return

    def forget(self, *key: str) -> None:
        """Drop what was kept, once it breaks nothing any more."""
        self._file(*key).unlink(missing_ok=True)

    def _file(self, *key: str) -> Path:
        return self.folder / hashlib.sha256("\n".join(key).encode()).hexdigest()[:24]
