"""Install test packages with entry points, as pip would."""

from pathlib import Path


def install(folder: Path, entry_points: str, package: str = "toys", **modules: str) -> Path:
    """Write a package to `folder`: the sources `modules` by name, and metadata with `entry_points`; return `folder`."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    return folder
