"""Processor time beside a round: what is the test's own, and from when on."""

import subprocess
import sys

from runners.serving_watch import Watch

BURN = """
import time
end = time.process_time() + 0.5
while time.process_time() < end:
    pass
print("burnt", flush=True)
time.sleep(600)
"""


def test_what_a_client_used_before_its_round_is_not_counted() -> None:
    client = subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE)
    assert client.stdout is not None
    client.stdout.readline()
    try:
        with Watch((), (), interval_s=60) as watch:
            watch.now()
            before = watch.rows[-1]["cpu_own_s"]
            watch.clients.add(client.pid)
            watch.now()
            assert watch.rows[-1]["cpu_own_s"] - before < 0.3  # loading took half a second
    finally:
        client.kill()
        client.stdout.close()
        client.wait()


def test_a_servers_processes_are_the_tests_own() -> None:
    server = subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        with Watch((), [server.pid], interval_s=60) as watch:
            watch.now()
            before = watch.rows[-1]["cpu_own_s"]
            server.stdout.readline()
            watch.now()
            assert watch.rows[-1]["cpu_own_s"] - before > 0.2
    finally:
        server.kill()
        server.stdout.close()
        server.wait()
