import pytest

from quantize.build import build
from quantize.errors import PackageError
from quantize.package import package_problems, read_package, same_package, write_package
from quantize.package_report import proof_lines, prove
from tests.unit.quantize.toy_models import plan


@pytest.fixture(scope="module")
def built():
    return build(plan())


@pytest.fixture
def folder(built, tmp_path):
    write_package(tmp_path / "p", manifest=built.manifest, blobs=built.blobs)
    return tmp_path / "p"


def test_a_package_is_read_back_as_it_was_written(built, folder):
    package = read_package(folder)
    assert package.manifest_bytes == built.manifest
    assert package.blobs == built.blobs
    assert package_problems(package) == []
    assert same_package(package, read_package(folder))


def test_a_rebuild_removes_what_the_older_build_left(built, folder):
    (folder / "golden" / "old.msgpack").write_bytes(b"x")
    write_package(folder, manifest=built.manifest, blobs=built.blobs)
    assert not (folder / "golden" / "old.msgpack").exists()
    read_package(folder)


def test_a_folder_of_something_else_is_not_overwritten(built, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(PackageError, match="not empty and no package"):
        write_package(tmp_path, manifest=built.manifest, blobs=built.blobs)
    assert (tmp_path / "thesis.txt").exists()


def test_a_changed_byte_is_found(folder):
    model = folder / "device-int8.onnx"
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 1
    model.write_bytes(data)
    with pytest.raises(PackageError, match="differs from the manifest's hash"):
        read_package(folder)


@pytest.mark.parametrize("what", ["manifest.json", "hub-float32.onnx"])
def test_a_missing_file_is_named(folder, what):
    (folder / what).unlink()
    with pytest.raises(PackageError, match=what):
        read_package(folder)


def test_a_longer_file_is_refused_without_reading_it_all(folder):
    with (folder / "hub-float32.onnx").open("ab") as file:
        file.write(b"x")
    with pytest.raises(PackageError, match="larger than"):
        read_package(folder)


def test_the_proof_says_what_a_package_is_and_that_it_is_right(folder):
    proof = prove(folder)
    assert (proof.family, proof.release, proof.problems) == ("toy", 3, [])
    assert set(proof.variants) == {"device-int8", "hub-float32"}
    assert "every golden vector is right" in list(proof_lines(proof))[-1]
