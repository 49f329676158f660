import os
import stat

import pytest

from clusterplan.errors import ClusterplanError
from clusterplan.files import read_text, write_atomically


def test_what_is_written_is_read_back(tmp_path):
    write_atomically(tmp_path / "a.txt", "größe\n")
    assert read_text(tmp_path / "a.txt") == "größe\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_bytes_are_written_as_they_are(tmp_path):
    write_atomically(tmp_path / "a.bin", b"\r\n\xff")
    assert (tmp_path / "a.bin").read_bytes() == b"\r\n\xff"


def test_a_file_is_replaced_only_by_force(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o640)
    with pytest.raises(ClusterplanError, match="exists; --force replaces it"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    write_atomically(path, "new", force=True)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_comes_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    link = os.link

    def late(source, target):
        path.write_text("somebody else's")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(ClusterplanError, match="exists"):
        write_atomically(path, "new")
    assert path.read_text() == "somebody else's"
    assert len(list(tmp_path.iterdir())) == 1


def test_without_hard_links_it_works_too(tmp_path, monkeypatch):
    def refused(source, target):
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    write_atomically(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "new"


def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.txt"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ClusterplanError, match="cannot be written: No space left on device"):
        write_atomically(path, "new", force=True)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_atomically(tmp_path / "link.txt", "new", force=True)
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


@pytest.mark.parametrize("name", ["", "missing/a.txt", "a.txt\0", "x" * 5000])
def test_a_place_that_cannot_be_written_is_an_error_of_one_line(tmp_path, name):
    with pytest.raises(ClusterplanError) as caught:
        write_atomically(tmp_path / name, "new", force=True)
    assert str(caught.value).isprintable()
    with pytest.raises(ClusterplanError) as caught:
        read_text(tmp_path / name)
    assert str(caught.value).isprintable()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser reads everything")
def test_an_unreadable_file(tmp_path):
    (tmp_path / "a.txt").write_text("secret")
    (tmp_path / "a.txt").chmod(0)
    with pytest.raises(ClusterplanError, match="cannot be read: Permission denied"):
        read_text(tmp_path / "a.txt")
