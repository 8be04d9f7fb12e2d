"""A real server for a test: the binary that DWELL_BIN names."""

from __future__ import annotations

import os
import subprocess
from typing import Any, List

from dwell import Client


class Server:
    """A server in memory, whose clock can be moved; or one in a directory, which can be killed and started again."""

    def __init__(self, *flags: str, listen: str = "127.0.0.1:0") -> None:
        self._flags = flags or ("--store", "memory:", "--dev-clock")
        self.address = self._start(listen)
        self.client = Client(f"http://{self.address}")

    def _start(self, listen: str) -> str:
        command: List[str] = [os.environ["DWELL_BIN"], "serve", "--listen", listen, "--log", "error", *self._flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.split()
            if words[:1] == ["address"]:
                return words[1][len("http://") :]
        raise RuntimeError("the server did not say where it listens")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def start_again(self) -> None:
        self._start(self.address)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: Any) -> None:
        self.kill()
