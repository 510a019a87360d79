"""What the ranks of test_ranks.py run."""

import os
import threading

import torch
import torch.distributed as dist

from models.errors import ValuesWrong


def talk(rank, payload):
    rank.say({"hello": rank.rank, "payload": payload})
    numbers = torch.full((4,), float(rank.rank + 1))
    dist.all_reduce(numbers)
    return {
        "sum": numbers.tolist(),
        "rows": rank.gather([rank.rank, 0.5]),
        "agreed": rank.agree(rank.rank + 7),
        "variable": os.environ.get("GLOO_SOCKET_IFNAME"),
    }


def refuse(rank, payload):
    if rank.rank == 1:
        raise ValuesWrong("Seven came back as eight.", "Replace the cable.")
    dist.all_reduce(torch.zeros(1))


def stumble(rank, payload):
    if rank.rank == 1:
        raise KeyError("no such place")
    dist.all_reduce(torch.zeros(1))


def die(rank, payload):
    with rank.within("the deep end", 60):
        if rank.rank == 1:
            os.kill(os.getpid(), 9)
        dist.all_reduce(torch.zeros(1))


def hang(rank, payload):
    rank.say({"pid": os.getpid()})
    with rank.within("the sleepy hollow", payload["limit_s"]):
        if rank.rank == 1:
            threading.Event().wait()
        dist.all_reduce(torch.zeros(1))
