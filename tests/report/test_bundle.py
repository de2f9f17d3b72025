import pytest


def test_both_files_are_written_and_are_the_same_each_time(case, tmp_path, write):
    paths = write(case, tmp_path / "new" / "folder")
    assert [p.name for p in paths] == ["report.html", "report.md"]
    before = [p.read_bytes() for p in paths]
    assert write(case, tmp_path / "new" / "folder") == paths
    assert [p.read_bytes() for p in paths] == before
    assert sorted(p.name for p in paths[0].parent.iterdir()) == ["report.html", "report.md"]


def test_a_failed_write_leaves_the_old_report_and_no_part(case, tmp_path, write):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(IsADirectoryError):
        write(case, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
