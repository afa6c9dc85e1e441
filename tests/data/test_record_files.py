"""Files of records: their order, and an error that names a file that is damaged, and where."""

import itertools
import zlib

import numpy as np
import pytest

from sggnn_tf import schema as schemas
from sggnn_tf.data import Examples
from tests.data.records import RECORDS, write
from tests.data.schemas import library


@pytest.fixture(autouse=True)
def _same_start():
    """Without a seed, after which TensorFlow would build its functions anew: nothing here is random."""


def test_files_are_read_in_order(tmp_path):
    for name, part in {"b": RECORDS[:2], "a-1": RECORDS[2:3], "a-0": RECORDS[3:5], "c": RECORDS[5:]}.items():
        write(tmp_path / f"{name}.tfrecord", part)
    files = [tmp_path / "b.tfrecord", str(tmp_path / "a-*.tfrecord"), tmp_path / "c.tfrecord"]
    examples = Examples.from_records(files, library())
    assert examples.records.tolist() == [*RECORDS[:2], *RECORDS[3:5], RECORDS[2], *RECORDS[5:]]
    assert len(examples) == 7
    assert [examples.name_of(place) for place in range(7)] == [
        f"{tmp_path}/{name}"
        for name in (
            "b.tfrecord, record 0",
            "b.tfrecord, record 1",
            "a-0.tfrecord, record 0",
            "a-0.tfrecord, record 1",
            "a-1.tfrecord, record 0",
            "c.tfrecord, record 0",
            "c.tfrecord, record 1",
        )
    ]


def test_compressed_files_and_a_schema_in_a_file(tmp_path):
    (tmp_path / "schema.pbtxt").write_text(schemas.to_text(library()))
    write(tmp_path / "a.tfrecord.gz", RECORDS[:3])
    write(tmp_path / "b.tfrecord", RECORDS[3:])
    for schema in (library(), tmp_path / "schema.pbtxt", str(tmp_path / "schema.pbtxt")):
        examples = Examples.from_records(str(tmp_path / "*.tfrecord*"), schema)
        assert examples.records.tolist() == RECORDS
        assert examples.schema == library()


def test_a_file_that_is_not_there(tmp_path):
    write(tmp_path / "a.tfrecord", RECORDS)
    for missing in (tmp_path / "b.tfrecord", tmp_path / "none" / "*.tfrecord"):
        for files in (missing, str(missing), [tmp_path / "a.tfrecord", missing]):
            with pytest.raises(ValueError, match=rf"no file {str(missing).replace('*', '.')}"):
                Examples.from_records(files, library())


def test_an_empty_file(tmp_path):
    for name in ("empty.tfrecord", "empty.tfrecord.gz"):
        path = write(tmp_path / name, [])
        with pytest.raises(ValueError, match=f"no graphs in {path}"):
            Examples.from_records(path, library())
    full = write(tmp_path / "full.tfrecord", RECORDS[:2])
    examples = Examples.from_records([tmp_path / "empty.tfrecord", full], library())
    assert examples.records.tolist() == RECORDS[:2]
    assert examples.name_of(0) == f"{full}, record 0"


def test_no_files_at_all():
    with pytest.raises(ValueError, match="no graphs"):
        Examples.from_records([], library())


LENGTHS = [len(record) + 16 for record in RECORDS]  # A length and its checksum, 12 bytes, and a checksum, 4 bytes.
STARTS = [0, *itertools.accumulate(LENGTHS)]


def assert_damaged(path, place):
    """An error names the file, and the record that cannot be read or the one before it."""
    with pytest.raises(ValueError, match=str(path)) as error:
        Examples.from_records(path, library())
    message = str(error.value).replace(str(path), "")
    assert "record -1" not in message
    if place:
        assert f"after record {place - 1}" in message or f"record {place}" in message


@pytest.mark.parametrize("place", [0, 1, 4, 6])
@pytest.mark.parametrize("where", [1, 7, 11, 12, 13, 100, -5, -4, -1])
def test_a_file_that_is_cut_short(tmp_path, place, where):
    whole = write(tmp_path / "whole.tfrecord", RECORDS).read_bytes()
    assert len(whole) == STARTS[-1]
    path = tmp_path / "cut.tfrecord"
    path.write_bytes(whole[: STARTS[place] + where if where > 0 else STARTS[place + 1] + where])
    assert_damaged(path, place)


@pytest.mark.parametrize("where", [0, 3, 8, 12, 40, -1])
def test_a_byte_that_is_wrong(tmp_path, where):
    path = write(tmp_path / "damaged.tfrecord", RECORDS)
    content = bytearray(path.read_bytes())
    content[STARTS[2] + where if where >= 0 else STARTS[3] + where] ^= 1
    path.write_bytes(content)
    assert_damaged(path, 2)


def unpacked_sizes(content):
    """For each number of bytes of a compressed file, the number of bytes that they hold."""
    unpack, total, sizes = zlib.decompressobj(wbits=31), 0, [0]
    for byte in content:
        total += len(unpack.decompress(bytes([byte])))
        sizes.append(total)
    return np.array(sizes)


def test_a_compressed_file_that_is_cut_short(tmp_path):
    whole = write(tmp_path / "whole.tfrecord.gz", RECORDS).read_bytes()
    sizes = unpacked_sizes(whole)
    path = tmp_path / "cut.tfrecord.gz"
    cuts = {int(np.argmax(sizes >= size)) for start in STARTS[1:-1] for size in (start, start + 1, start + 200)}
    cuts |= {1, 9, len(whole) // 2, int(np.argmax(sizes == STARTS[-1])) - 1}
    for cut in sorted(cuts):
        path.write_bytes(whole[:cut])
        place = int(np.searchsorted(STARTS, sizes[cut], side="right")) - 1
        assert_damaged(path, place)


def test_a_compressed_file_with_a_byte_that_is_wrong(tmp_path):
    whole = write(tmp_path / "whole.tfrecord.gz", RECORDS).read_bytes()
    path = tmp_path / "damaged.tfrecord.gz"
    for place in (0, 20, len(whole) // 3, len(whole) // 2):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=str(path)):
            Examples.from_records(path, library())


def test_the_name_of_a_file_has_to_say_whether_it_is_compressed(tmp_path):
    for name, other in (("a.tfrecord", "a.tfrecord.gz"), ("b.tfrecord.gz", "b.tfrecord")):
        write(tmp_path / name, RECORDS).rename(tmp_path / other)
        assert_damaged(tmp_path / other, 0)
