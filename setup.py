"""Builds the two packages: tfxla_cluster, and tfxla_inspect from the source root inspect/.

A one-line `.pth` goes beside them (also in an editable install): at interpreter start it looks for
TFXLA_FLAGS and does nothing else without it.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.develop import develop
from setuptools.command.editable_wheel import editable_wheel

PTH_NAME = "tfxla_cluster.pth"
PTH_TEXT = "import os; os.environ.get('TFXLA_FLAGS') and __import__('tfxla_cluster.bootstrap')\n"


class BuildWithPth(build_py):
    """Puts the .pth at the root of the wheel, which is site-packages."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            Path(self.build_lib).mkdir(parents=True, exist_ok=True)
            (Path(self.build_lib) / PTH_NAME).write_text(PTH_TEXT)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), str(Path(self.build_lib) / PTH_NAME)]


class NoDevelop(develop):
    """The way older pip takes where `wheel` is installed: it would leave out the .pth and inspect/."""

    def run(self) -> None:
        raise SystemExit("Write: pip install --use-pep517 -e .")


class EditableWithPth(editable_wheel):
    """Adds the .pth to the finished editable wheel, with the source roots.

    setuptools' finder alone comes after all of sys.path: beside a checkout named tfxla_cluster, `import tfxla_cluster`
    would be that folder, as a namespace package.
    """

    def run(self) -> None:
        super().run()
        root = Path(__file__).resolve().parent
        text = f"{root}\n{root / 'inspect'}\n{PTH_TEXT}"
        for wheel in Path(self.dist_dir).glob("tfxla_cluster-*.whl"):
            _add_file(wheel, PTH_NAME, text.encode())


def _add_file(wheel: Path, name: str, data: bytes) -> None:
    """Append a file to a wheel and its line to RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(wheel) as old:
        members = [(item, old.read(item)) for item in old.infolist()]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as new:
        for item, content in members:
            is_record = item.filename.endswith(".dist-info/RECORD")
            new.writestr(item, content + f"{name},sha256={digest},{len(data)}\n".encode() if is_record else content)
        new.writestr(name, data)


def _version() -> str:
    """What the package itself says; it is not imported, its dependencies may not be there yet."""
    text = Path(__file__).with_name("tfxla_cluster").joinpath("__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("tfxla_cluster/__init__.py states no __version__")
    return found[1]


TRITON = 'triton>=3.9; python_version >= "3.11"'  # it has no release for 3.10
TEST = [
    "pytest",
    "pytest-xdist",
    "hypothesis",
    "jax",
    "jaxlib",
    "mpmath",
    "nbclient",
    "nbformat",
    "ipykernel",
    "ruff==0.17.6",  # formatter and rules change between versions
    "mypy==2.4.1",
    "scikit-learn",
    "moto[s3]>=5.2,<6",  # an S3 server
    "flask",  # of which it needs these two
    "flask-cors",
    "s3fs",  # pip takes the one of fsspec's version
]

setup(
    name="tfxla_cluster",
    version=_version(),
    description="Clusters TensorFlow graphs and compiles them to native kernels, with dumps a person can read.",
    python_requires=">=3.10,<3.14",
    packages=[*find_packages(".", include=["tfxla_cluster*"]), *find_packages("inspect")],
    package_dir={"tfxla_inspect": "inspect/tfxla_inspect"},
    package_data={
        "tfxla_inspect": ["*.js", "*.css", "*.html", "**/*.js", "**/*.css", "**/*.html"],
        "tfxla_cluster": ["py.typed", "tf/native_op/*.cc"],
    },
    install_requires=[
        "tensorflow>=2.21,<2.22",
        "llvmlite>=0.45",
        "numpy>=2",  # whose Fourier transforms are ufuncs
        "ml_dtypes",
        "protobuf",
        "fsspec",
        "platformdirs",
        "scipy",  # LAPACK
        "Jinja2",
        "Pygments",
        "graphviz",
        'graphviz-pure==0.2.2; platform_machine == "x86_64"',  # what draws where there is no dot
        TRITON,
    ],
    extras_require={"demo": ["scikit-learn"], "test": TEST, "bench": ["jax", "jaxlib", "torch", "matplotlib"]},
    entry_points={
        "console_scripts": [
            "tfxla-run = tfxla_cluster.cli.run:entry",
            "tfxla-opt = tfxla_cluster.cli.opt:entry",
            "tfxla-exec = tfxla_cluster.cli.exec:entry",
            "tfxla-bench = tfxla_cluster.cli.bench:entry",
            "tfxla-demo = tfxla_cluster.cli.demo:entry",
            "tfxla-inspect = tfxla_inspect.cli:entry",
        ]
    },
    cmdclass={"build_py": BuildWithPth, "editable_wheel": EditableWithPth, "develop": NoDevelop},
)
