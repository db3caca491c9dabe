"""The command line `quantize`: thin, each command hands over to the room that does the work."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from quantize.errors import GateError, InputError, PackageError, QuantizeError

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; exit status 0 done, 1 not good enough or damaged, 2 the input is wrong."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except InputError as error:
        sys.stderr.write(f"quantize: {error}\n")
        return EXIT_USAGE
    except (GateError, PackageError) as error:
        sys.stderr.write(f"quantize: {error}\n")
        return EXIT_FAILED
    except QuantizeError as error:
        sys.stderr.write(f"quantize: {error}\n")
        return EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="quantize", description="Makes, proves and measures model packages."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    recipe = commands.add_parser("recipe", help="build a family of models/ from public data")
    recipe.add_argument("family", type=Path, help="folder such as models/waterflow-anomaly")
    recipe.add_argument("--check", action="store_true", help="check the built package instead")
    recipe.add_argument("--json", action="store_true", help="machine-readable output")
    recipe.set_defaults(command=_recipe)

    onnx = commands.add_parser("onnx", help="quantize a float ONNX model to INT8")
    onnx.add_argument("model", type=Path, help="float model with one input and one output")
    onnx.add_argument("--calibration", type=Path, required=True, help="NPZ with typical inputs")
    onnx.add_argument("--out", type=Path, required=True, help="where the INT8 model goes")
    onnx.add_argument("--json", action="store_true", help="machine-readable output")
    onnx.set_defaults(command=_onnx)

    report = commands.add_parser("report", help="prove a package on this machine and measure it")
    report.add_argument("package", type=Path, help="folder with a manifest.json")
    report.add_argument("--json", action="store_true", help="machine-readable output")
    report.set_defaults(command=_report)

    package = commands.add_parser("package", help="make a package from models and a description")
    package.add_argument(
        "description", type=Path, help="TOML description (docs/reference/package.md)"
    )
    package.add_argument("--out", type=Path, required=True, help="folder for the package")
    package.add_argument("--json", action="store_true", help="machine-readable output")
    package.set_defaults(command=_package)
    return parser


def _recipe(options: argparse.Namespace) -> int:
    # Imported here so that `--help` and wrong usage answer at once.
    from quantize.recipe import check, make
    from quantize.report import report_lines

    if not options.check:
        built = make(options.family)
        _say(options, built.report, report_lines(built.report))
        return EXIT_OK
    result = check(options.family)
    lines = [f"  {name} {value:.6g}" for name, value in result.figures.items()]
    lines += [f"  problem: {problem}" for problem in result.problems]
    lines.append(f"  a rebuild here is {'' if result.identical else 'not '}identical byte for byte")
    _say(options, result, [f"{options.family}: {'broken' if result.problems else 'good'}", *lines])
    return EXIT_FAILED if result.problems else EXIT_OK


def _onnx(options: argparse.Namespace) -> int:
    from quantize.own_model import quantize_file

    result = quantize_file(options.model, calibration=options.calibration, out=options.out)
    _say(options, result, result.lines())
    return EXIT_OK


def _report(options: argparse.Namespace) -> int:
    from quantize.package_report import proof_lines, prove

    proof = prove(options.package)
    _say(options, proof, proof_lines(proof))
    return EXIT_FAILED if proof.problems else EXIT_OK


def _package(options: argparse.Namespace) -> int:
    from quantize.description import package_from

    summary = package_from(options.description, out=options.out)
    _say(options, summary, [f"{summary.family} release {summary.release}: {summary.sha256}"])
    return EXIT_OK


def _say(options: argparse.Namespace, value: Any, lines: Any) -> None:
    text = msgspec.json.encode(value).decode() if options.json else "\n".join(lines)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
