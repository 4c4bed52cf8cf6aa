"""``noisebound figure`` refuses tables that are none."""

import pytest

from noisebound.cli.figure_command import figure
from noisebound.errors import InvalidValueError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "is not what"),
        (b"{", "is not what"),
        (b"a,b\n1,2\n", "is not what"),
        (b"method,column,believed_rate,mean\nce+b,digits-0.4,0.4,80\n", "is not what"),
        (b"method,column,believed_rate,mean,std\nce+b,digits-0.4,high,80,\n", "is not what"),
        (b"method,column,believed_rate,mean,std\nce+b,svhn,0.4,80,\n", "is not what"),
        (b"method,column,believed_rate,mean,std\n", "holds no finished runs"),
        (b"", "holds no finished runs"),
        (None, "there is no .*pass it as `table`"),
    ],
)
def test_what_is_no_table(tmp_path, content, message):
    table = tmp_path / "rate-sweep.csv"
    if content is not None:
        table.write_bytes(content)
    with pytest.raises(InvalidValueError, match=message):
        figure("rate-sweep", table=table, out=tmp_path)
