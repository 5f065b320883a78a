"""A COMMIT that somebody waits for elsewhere: in a thread, while its caller gets the next batch ready.

SQLite gives up the interpreter's lock for the whole of it, so the copying, the checksums and the wait for the disk cost
the caller nothing.  From `start` to `wait` the connection belongs to the thread.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

import apsw

from wakeline.store.sqlite.connection import roll_back

_log = logging.getLogger(__name__)

Then = Callable[[Exception | None], None]  # what is done as soon as it is known whether the commit succeeded


class Behind:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._asked: queue.SimpleQueue[Then] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.is_busy = False

    def start(self, then: Then) -> None:
        if self._thread is None:  # most stores never see that much at once
            self._thread = threading.Thread(target=self._run, name="wakeline-commits", daemon=True)
            self._thread.start()
        self.is_busy = True
        self._asked.put(then)

    def wait(self) -> Exception | None:
        """Until it is over: why it failed, if it did."""
        error = self._ended.get()
        self.is_busy = False
        return error

    def _run(self) -> None:
        while True:
            then, error = self._asked.get(), self._commit()
            try:
                then(error)
            except Exception as bug:  # noqa: BLE001 - the next batch is served whatever becomes of this answer
                if not isinstance(bug, ConnectionError):  # the server died, and its end of the line tells
                    _log.error("a commit could not be answered because of a bug", exc_info=bug)
            self._ended.put(error)

    def _commit(self) -> Exception | None:
        try:
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whoever waits hears of it, whatever it is
            with suppress(apsw.Error):
                roll_back(self._connection)
            return error
        return None
