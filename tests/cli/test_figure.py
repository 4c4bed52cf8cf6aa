"""``noisebound figure`` refuses a file that is not its table."""

import pytest

from noisebound.cli.figure_command import figure
from noisebound.errors import InvalidValueError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "is not a table"),
        (b"{", "is not a table"),
        (b"a,b\n1,2\n", "is not a table"),
        (b"method,column,believed_rate,mean\nce+b,digits-0.4,0.4,80\n", "is not a table"),
        (b"method,column,believed_rate,mean,std\nce+b,digits-0.4,high,80,\n", "is not a table"),
        (b"method,column,believed_rate,mean,std\nce+b,svhn,0.4,80,\n", "holds no finished runs"),
        (b"method,column,believed_rate,mean,std\n", "holds no finished runs"),
        (b"", "is not a table"),
        (None, "there is no .*pass it as `table`"),
    ],
)
def test_a_file_that_is_not_the_table(tmp_path, content, message):
    table = tmp_path / "rate-sweep.csv"
    if content is not None:
        table.write_bytes(content)
    with pytest.raises(InvalidValueError, match=message):
        figure("rate-sweep", table=table, out=tmp_path)
