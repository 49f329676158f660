"""Measured runs: what a table may hold, and what is said of one that cannot be read."""

import pytest

from clusterplan.catalog import measured_files
from clusterplan.errors import ClusterplanError
from clusterplan.files import LARGEST_FILE_BYTES
from clusterplan.measured import LARGEST_TABLE_BYTES, parse_measured, read_measured

HEAD = "id,source,accelerator,layers,sp,step_time_s,memory_definition,notes"


def one(line, head=HEAD):
    return parse_measured(f"{head}\n{line}\n", "runs.csv")[0]


def test_cells_become_numbers_yes_or_no_and_words():
    row = one("a,paper,H100-SXM-80GB,32,1,1.5,device,")
    assert (row.id, row.source, row.accelerator, row.line) == ("a", "paper", "H100-SXM-80GB", 2)
    assert (row.layers, row.sp, row.step_time_s, row.memory_definition) == (32, True, 1.5, "device")
    assert row.notes is None
    assert row.hidden is None


def test_whole_numbers_may_be_written_with_a_point_and_spaces_are_no_matter():
    row = one(" a , paper ,H100, 32.0 ,0,,,")
    assert (row.id, row.layers, row.sp, row.step_time_s) == ("a", 32, False, None)


def test_unknown_columns_are_left_aside():
    assert one("a,paper,H100,7", "id,source,accelerator,colour").id == "a"


@pytest.mark.parametrize(
    ("line", "where", "told"),
    [
        ("a,paper,H100,many,1,1,,", "layers", "must be a number, not 'many'"),
        ("a,paper,H100,1.5,1,1,,", "layers", "must be a whole number, not 1.5"),
        ("a,paper,H100,-1,1,1,,", "layers", "must be finite and not negative, not -1"),
        ("a,paper,H100,1,2,1,,", "sp", "must be 0 or 1, not 2"),
        ("a,paper,H100,1,1,inf,,", "step_time_s", "must be finite and not negative, not inf"),
        ("a,paper,H100,1,1,nan,,", "step_time_s", "must be finite and not negative, not nan"),
        ("a,paper,H100,1,1,1,vram,", "memory_definition", "must be one of allocated, reserved, device, not 'vram'"),
        (",paper,H100,1,1,1,,", "id", "is empty"),
        ("a,,H100,1,1,1,,", "source", "is empty"),
    ],
)
def test_a_wrong_cell_is_named_with_line_and_column(line, where, told):
    with pytest.raises(ClusterplanError) as wrong:
        parse_measured(f"{HEAD}\nfine,paper,H100,1,1,1,,\n{line}\n", "runs.csv")
    assert (wrong.value.where, wrong.value.message) == (f"runs.csv: line 3: {where}", told)


@pytest.mark.parametrize(
    ("text", "where", "told"),
    [
        ("id,source\na,b\n", "runs.csv", "has no column accelerator"),
        ("colour\nred\n", "runs.csv", "has no column id and no column source and no column accelerator"),
        ("id;source;accelerator\na;b;c\n", "runs.csv", "has cells between ';', not between commas"),
        (f"{HEAD}\n", "runs.csv", "has a header but no row"),
        (f"{HEAD},layers\n", "runs.csv", "has the column layers twice"),
        (f"{HEAD}\na,b,c,1,1,1,,,9\n", "runs.csv: line 2", "has more cells than the header"),
        (f"{HEAD}\na,b,c\n", "runs.csv: line 2", "has fewer cells than the header"),
    ],
)
def test_a_wrong_table_is_named(text, where, told):
    with pytest.raises(ClusterplanError) as wrong:
        parse_measured(text, "runs.csv")
    assert (wrong.value.where, wrong.value.message) == (where, told)


def test_a_quote_that_is_never_closed_is_no_csv():
    with pytest.raises(ClusterplanError, match="is not CSV"):
        parse_measured(f'{HEAD}\n"a,b,c,1,1,1,,\n', "runs.csv")


def test_a_line_is_where_its_record_begins():
    rows = parse_measured(f'{HEAD}\na,p,H100,1,1,1,,"two\nlines"\nb,p,H100,1,1,1,,\n', "runs.csv")
    assert [row.line for row in rows] == [2, 4]


def test_a_file_is_read_with_its_byte_order_mark(tmp_path):
    file = tmp_path / "runs.csv"
    file.write_bytes(b"\xef\xbb\xbfid,source,accelerator\r\na,b,c\r\n")
    assert read_measured(file)[0].accelerator == "c"


def test_a_table_may_be_larger_than_a_profile_but_not_huge(tmp_path):
    file = tmp_path / "runs.csv"
    row = f"a,b,c,{'x' * 1000}\n"
    file.write_text("id,source,accelerator,notes\n" + row * (LARGEST_FILE_BYTES // len(row) + 2))
    assert len(read_measured(file)) == LARGEST_FILE_BYTES // len(row) + 2
    with file.open("r+b") as stream:
        stream.truncate(LARGEST_TABLE_BYTES + 1)
    with pytest.raises(ClusterplanError, match=r"has 67,108,865 bytes; at most 67,108,864 are read"):
        read_measured(file)


@pytest.mark.parametrize(
    ("content", "told"), [(b"", "is empty"), (b"\xff\xfe\x00", "is not UTF-8 text"), (None, "is a directory")]
)
def test_a_file_that_is_no_table_is_named(content, told, tmp_path):
    file = tmp_path / "runs.csv"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(ClusterplanError, match=told) as wrong:
        read_measured(file)
    assert wrong.value.where == str(file)


def test_a_step_takes_its_time_or_what_the_rate_of_tokens_says():
    head = "id,source,accelerator,seq_len,global_batch,accelerators,step_time_s,tokens_per_s,tokens_per_s_per_accel"
    # 4 sequences of 100 tokens: 400 tokens a step
    assert one("a,b,c,100,4,8,3,,", head).measured_step_s == 3
    assert one("a,b,c,100,4,8,,200,", head).measured_step_s == 2
    assert one("a,b,c,100,4,8,,,10", head).measured_step_s == 5
    assert one("a,b,c,100,4,,,,10", head).measured_step_s is None
    assert one("a,b,c,,4,8,,200,", head).measured_step_s is None


def test_runs_that_come_with_the_package_say_where_they_are_from_and_are_there_once():
    rows = [row for file in measured_files() for row in read_measured(file)]
    assert len(rows) > 300
    assert len({row.id for row in rows}) == len(rows)
    assert {row.quality for row in rows} == {"A", "B"}
    assert all(row.memory_definition is None for row in rows if row.peak_mem_gib is None)
    assert not [row.id for row in rows if "superseded" in (row.notes or "")]
