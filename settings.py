"""Every setting and where it came from.

Environment variables with the prefix ``LINKWORTH_`` win over the defaults.
"""

import os
import sys
from functools import lru_cache
from pathlib import Path

import platformdirs
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

ROOT = Path(__file__).resolve().parent
SHIPPED_DATA = ROOT / "data"


def _default_data_dir() -> Path:
    return Path(platformdirs.user_data_dir("linkworth", appauthor=False))


class Settings(BaseSettings):
    """What a person or an administrator can set, all with the prefix ``LINKWORTH_``."""

    model_config = SettingsConfigDict(env_prefix="LINKWORTH_", extra="ignore")

    data_dir: Path = Field(
        default_factory=_default_data_dir,
        description="Folder for the database, raw files and logs.",
    )
    database_url: str = Field(
        default="",
        description="SQLAlchemy URL; empty means linkworth.sqlite in the data folder.",
    )
    read_only: bool = Field(
        default=False, description="Demo mode: shows everything, starts and deletes nothing."
    )
    start_worker: bool = Field(
        default=True, description="Whether the app starts a worker when none is alive."
    )
    runner_python: Path = Field(
        default=Path(sys.executable), description="Interpreter that runs the measuring programs."
    )
    vllm_python: Path | None = Field(
        default=None,
        description="Interpreter that has vLLM; unset means .venv-vllm beside the app.",
    )
    model_roots: list[Path] = Field(
        default_factory=list, description="Folders below which model folders may be chosen."
    )
    default_time_limit_s: float = Field(
        default=1800, gt=0, description="Time limit of a job unless the form says otherwise."
    )
    telemetry_hz: float = Field(default=2.0, gt=0, le=20, description="NVML samples a second.")

    @field_validator("vllm_python", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return value or None

    @property
    def url(self) -> str:
        """The database URL that is used."""
        return self.database_url or f"sqlite:///{self.data_dir / 'linkworth.sqlite'}"

    @property
    def files_dir(self) -> Path:
        """Where raw result files and logs are kept."""
        return self.data_dir / "files"

    def vllm_interpreter(self) -> Path | None:
        """The interpreter to start vLLM with, or None where none is installed."""
        if self.vllm_python is not None:
            return self.vllm_python
        beside = ROOT / ".venv-vllm" / "bin" / "python"
        return beside if beside.exists() else None


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings of this process, read once."""
    return Settings()


def sources() -> dict[str, str]:
    """Name of each setting -> where its value came from, for the page that shows them."""
    return {
        name: f"environment variable LINKWORTH_{name.upper()}"
        if f"LINKWORTH_{name.upper()}" in os.environ
        else "default"
        for name in Settings.model_fields
    }
