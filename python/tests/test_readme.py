"""Runs the example of the README."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_example(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(example.splitlines()) == 5
    scope = {}
    exec(example, scope)
    assert set(scope["vade"].labels_) == set(range(10))
    assert "(16, 64)" in capsys.readouterr().out
