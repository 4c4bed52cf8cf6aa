"""``noisebound figure`` refuses tables that are none."""

import pytest

from noisebound.cli.figure_command import figure
from noisebound.errors import InvalidValueError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "is not what"),
        (b"{", "is not what"),
        (b"[1]", "is not what"),
        (b"{}", "is not what"),
        (b'{"records": 3}', "is not what"),
        (b'{"records": [1]}', "is not what"),
        (b'{"records": [{"believed_rate": 0.4}]}', "is not what"),
        (b'{"records": []}', "holds no finished runs"),
        (None, "there is no .*pass it as `table`"),
    ],
)
def test_what_is_no_table(tmp_path, content, message):
    table = tmp_path / "rate-sweep.json"
    if content is not None:
        table.write_bytes(content)
    with pytest.raises(InvalidValueError, match=message):
        figure("rate-sweep", table=table, out=tmp_path)
