"""Work done ahead by a few threads, and never so far ahead that it fills the memory."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def done_ahead(
    work: Callable[[Item], Result], items: Iterable[Item], most: int
) -> Iterator[Result]:
    """Yield ``work(item)`` for each item, in order; at most ``most`` results wait to be taken.

    Threads suffice: Pillow and hashlib release the interpreter's lock while they work.
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()
