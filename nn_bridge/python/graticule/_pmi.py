# SPDX-License-Identifier: BSD-3-Clause
"""The process beside a rank that answers MPI as a launcher would: `graticule.launch` starts it, with the standard library alone.

MPI asks by PMI-1, lines such as `cmd=get kvsname=job key=K`, on the socket PMI_FD. Values and barriers are those of one board, in the process
beside rank 0, to which the others are connected: `put K V`, `get K`, `barrier`, `bye`. This process ends with its rank. Each job has a name of its
own: MPICH 5 names the memory that ranks of a node share after it, so that two jobs of one name would meet there.

  _pmi.py PARENT PMI BOARD [LISTENER RANKS TOKEN SECONDS]      descriptors of sockets; those of rank 0 serve the board as well
"""
import hashlib
import os
import select
import signal
import socket
import sys
import threading
import time
from typing import Dict, List, Optional, Set

NAME = "graticule_job"  #: the key of the job's name


class Board:
    """Values and barriers of a job, and who has arrived."""

    def __init__(self, ranks: int, name: str, seconds: float) -> None:
        self.ranks, self.deadline, self.seconds = ranks, time.monotonic() + seconds, seconds
        self.changed = threading.Condition()
        self.values: Dict[str, str] = {NAME: name}
        self.first_of_node: Dict[int, int] = {}
        self.links: Dict[int, socket.socket] = {}
        self.waiting: Set[int] = set()
        self.barriers = 0
        self.failure = ""

    def missing(self, present: Set[int]) -> str:
        absent = [rank for rank in range(self.ranks) if rank not in present]
        return ", ".join(map(str, absent[:8])) + (f" and {len(absent) - 8} more" if len(absent) > 8 else "")

    def fail(self, text: str) -> None:
        """Tells all ranks that wait, and those that will ask."""
        if not self.failure:
            self.failure = text
            for rank in self.links if self.barriers == 0 and len(self.links) < self.ranks else self.waiting:
                send(self.links[rank], f"failed {text}")
            self.changed.notify_all()

    def arrive(self, rank: int, first_of_node: int, link: socket.socket) -> None:
        with self.changed:
            if rank in self.links or not 0 <= rank < self.ranks:
                raise ValueError(f"rank {rank} of {self.ranks}, twice or beyond")
            if self.failure:
                send(link, f"failed {self.failure}")
                return
            self.links[rank], self.first_of_node[rank] = link, first_of_node
            if len(self.links) == self.ranks:
                self.values["PMI_process_mapping"] = process_mapping([self.first_of_node[rank] for rank in range(self.ranks)])
                for other in self.links.values():
                    send(other, "start")
                self.changed.notify_all()

    def barrier(self, rank: int) -> None:
        """Answers all ranks when the last one has come: at once, and rank 0 last, whose end is the end of the board."""
        with self.changed:
            if self.failure:
                send(self.links[rank], f"failed {self.failure}")
                return
            if not self.waiting and self.barriers == 0:
                self.deadline = time.monotonic() + self.seconds
            self.waiting.add(rank)
            if len(self.waiting) == self.ranks:
                self.barriers += 1
                for other in sorted(self.waiting, reverse=True):
                    send(self.links[other], "ok")
                self.waiting.clear()
            self.changed.notify_all()

    def leave(self, rank: int, orderly: bool) -> None:
        with self.changed:
            if not orderly:
                self.fail(f"rank {rank} of {self.ranks} ended without MPI_Finalize")

    def watch(self) -> None:
        """Ends the wait for ranks that do not arrive, or that never start MPI."""
        with self.changed:
            while self.barriers == 0 and not self.failure:
                here = len(self.links) == self.ranks
                left = self.deadline - time.monotonic()
                if here and not self.waiting:
                    self.changed.wait()  # as long as it takes: no rank waits
                elif left > 0:
                    self.changed.wait(left)
                elif here:
                    self.fail(f"ranks {self.missing(self.waiting)} of {self.ranks} did not start MPI within {self.seconds:g} s of the others")
                else:
                    self.fail(f"ranks {self.missing(set(self.links))} of {self.ranks} did not arrive within {self.seconds:g} s")


def send(link: socket.socket, line: str) -> None:
    try:
        link.sendall(line.encode() + b"\n")
    except OSError:
        pass  # it has ended, which its own thread sees


def process_mapping(first_of_node: List[int]) -> str:
    """Which ranks share a node, in PMI's words: runs of nodes as (first node, nodes, ranks on each). Ranks of a node are neighbors."""
    sizes: List[int] = []
    for rank, first in enumerate(first_of_node):
        if rank > 0 and first == first_of_node[rank - 1]:
            sizes[-1] += 1
        else:
            sizes.append(1)
    runs: List[List[int]] = []
    for node, size in enumerate(sizes):
        if runs and runs[-1][2] == size:
            runs[-1][1] += 1
        else:
            runs.append([node, 1, size])
    return "(vector," + ",".join("({},{},{})".format(*run) for run in runs) + ")"


def serve_rank(board: Board, link: socket.socket, token: str) -> None:
    lines = link.makefile("r", encoding="utf-8", newline="\n")
    greeting = lines.readline().split()
    if len(greeting) != 3 or greeting[0] != token:
        lines.close()
        link.close()  # a rank of an earlier attempt, or a stranger
        return
    rank, orderly = int(greeting[1]), False
    try:
        board.arrive(rank, int(greeting[2]), link)
    except ValueError:
        lines.close()
        link.close()  # twice: of an earlier attempt
        return
    try:
        for line in lines:
            command, _, rest = line.rstrip("\n").partition(" ")
            if command == "put":
                key, _, value = rest.partition(" ")
                with board.changed:
                    board.values[key] = value
                send(link, "ok")
            elif command == "get":
                with board.changed:
                    value = board.values.get(rest)
                send(link, "none" if value is None else f"value {value}")
            elif command == "barrier":
                board.barrier(rank)
            elif command == "bye":
                orderly = True
    except OSError:
        pass
    board.leave(rank, orderly)


def serve_board(listener: socket.socket, ranks: int, token: str, seconds: float) -> None:
    board = Board(ranks, "graticule_" + hashlib.sha256(token.encode()).hexdigest()[:32], seconds)
    threading.Thread(target=board.watch, daemon=True).start()
    while True:
        link, _ = listener.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve_rank, args=(board, link, token), daemon=True).start()


class Answers:
    """What a launcher answers to one rank."""

    def __init__(self, board: socket.socket) -> None:
        self.link, self.lines = board, board.makefile("r", encoding="utf-8", newline="\n")

    def ask(self, line: str) -> str:
        send(self.link, line)
        answer = self.lines.readline().rstrip("\n")
        if answer.startswith("failed ") or not answer:
            sys.stderr.write(f"graticule.launch: {answer[7:] or 'rank 0 has ended'}\n")
            sys.stderr.flush()
            os._exit(1)  # the end of the socket is an error within MPI
        return answer

    def to(self, line: str) -> Optional[str]:
        """The answer to a line of PMI-1; None where the rank must end."""
        words = dict(word.partition("=")[::2] for word in line.split(" value=")[0].split() if "=" in word)
        command = words.get("cmd", words.get("mcmd", ""))
        if command == "init":
            return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
        if command == "get_maxes":
            return "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"
        if command == "get_appnum":
            return "cmd=appnum rc=0 appnum=0"
        if command == "get_my_kvsname":
            return f"cmd=my_kvsname rc=0 kvsname={self.ask(f'get {NAME}')[len('value '):]}"
        if command == "get_universe_size":
            return f"cmd=universe_size rc=0 size={os.environ.get('PMI_SIZE', '1')}"
        if command == "put":
            self.ask(f"put {words['key']} {line.partition(' value=')[2]}")
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            answer = self.ask(f"get {words['key']}")
            return f"cmd=get_result rc=0 msg=success {answer.replace('value ', 'value=', 1)}" if answer != "none" else \
                "cmd=get_result rc=-1 msg=key_not_found value=unknown"
        if command == "barrier_in":
            self.ask("barrier")
            return "cmd=barrier_out rc=0"
        if command == "finalize":
            send(self.link, "bye")
            return "cmd=finalize_ack rc=0"
        if command == "abort":
            return None
        return f"cmd={command}_result rc=-1 msg=torchrun_cannot_do_this"


def end_rank(parent: int, pmi: socket.socket) -> None:
    """After MPI_Abort, which waits for its launcher: the end of the socket ends the rank with its exit code, and torchrun ends the others."""
    pmi.close()
    deadline = time.monotonic() + 10
    while os.getppid() == parent and time.monotonic() < deadline:
        time.sleep(0.05)
    if os.getppid() == parent:
        os.kill(parent, signal.SIGKILL)
    os._exit(0)


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the rank's own affair; this process ends with it
        signal.signal(ignored, signal.SIG_IGN)
    parent, (pmi, board) = int(sys.argv[1]), (socket.socket(fileno=int(text)) for text in sys.argv[2:4])
    if len(sys.argv) > 4:
        listener = socket.socket(fileno=int(sys.argv[4]))
        threading.Thread(target=serve_board, args=(listener, int(sys.argv[5]), sys.argv[6], float(sys.argv[7])), daemon=True).start()
    answers, pending = Answers(board), b""
    while True:
        # A process that the rank forked may hold the socket open: the end of the rank is seen by the parent, too.
        if not select.select([pmi], [], [], 1.0)[0]:
            if os.getppid() != parent:
                os._exit(0)
            continue
        got = pmi.recv(65536)
        if not got:
            os._exit(0)
        *lines, pending = (pending + got).split(b"\n")
        for line in lines:
            answer = answers.to(line.decode())
            if answer is None:
                end_rank(parent, pmi)
            else:
                send(pmi, answer)


if __name__ == "__main__":
    main()
