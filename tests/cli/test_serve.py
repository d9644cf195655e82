# SPDX-License-Identifier: Apache-2.0
"""keel serve: the socket in the directory, TCP by a cluster file, who is let in, how it ends."""
import os
import signal
import socket
import stat
import subprocess
import time

from run import TIMEOUT_SECONDS


def start(keel, *arguments, environment=None, pass_fds=(), preexec=None):
    process = subprocess.Popen([keel.binary, *arguments], cwd=keel.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment, pass_fds=pass_fds, preexec_fn=preexec)
    return process, process.stdout.readline()


def stop(process):
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0, (process.returncode, errors)


def run(keel, *arguments):
    return subprocess.run([keel.binary, *arguments], cwd=keel.directory, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


def test_serve_over_both(keel):
    process, line = start(keel, "serve", "a.db", "--listen", "127.0.0.1:0")
    try:
        assert line.startswith("ready: ") and "127.0.0.1:" in line, line
        path = os.path.join(keel.directory, "a.db.cluster")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert run(keel, "a.db", "set", "x", "1").returncode == 0
        assert run(keel, "a.db.cluster", "get", "x").stdout == "1\n"
        assert run(keel, "a.db.cluster", "set", "y", "2").returncode == 0
        assert run(keel, "a.db", "get", "y").stdout == "2\n"
        assert run(keel, "a.db.cluster", "getrange").stdout.count("\n") >= 2
    finally:
        stop(process)
    assert run(keel, "a.db", "get", "y").stdout == "2\n"


def test_serve_asks_for_the_secret(keel):
    process, _ = start(keel, "serve", "a.db", "--listen", "127.0.0.1:0", "--cluster-file", "c.cluster")
    try:
        text = open(os.path.join(keel.directory, "c.cluster")).read()
        wrong = text.replace(text[5:9], "0000" if text[5:9] != "0000" else "1111", 1)
        open(os.path.join(keel.directory, "wrong.cluster"), "w").write(wrong)
        refused = run(keel, "wrong.cluster", "get", "x")
        assert refused.returncode == 1 and "(6000)" in refused.stderr, refused
    finally:
        stop(process)


def test_serve_keeps_its_secret(keel):
    texts = []
    for _ in range(2):
        process, _ = start(keel, "serve", "a.db", "--listen", "127.0.0.1:0")
        texts.append(open(os.path.join(keel.directory, "a.db.cluster")).read().split("@")[0])
        stop(process)
    assert texts[0] == texts[1] and len(texts[0]) == len("keel:") + 32


def test_serve_refuses_the_world(keel):
    refused = run(keel, "serve", "a.db", "--listen", "0.0.0.0:0", "--seconds", "0.1")
    assert refused.returncode == 1 and "--insecure" in refused.stderr, refused
    allowed = run(keel, "serve", "a.db", "--listen", "0.0.0.0:0", "--insecure", "--seconds", "0.1")
    assert allowed.returncode == 0 and allowed.stdout.startswith("ready: "), allowed


def test_serve_refuses_what_it_cannot(keel):
    assert run(keel, "serve", "a.db", "--listen", "127.0.0.1:70000").returncode == 1
    assert run(keel, "serve", "a.db", "--seconds", "x").returncode == 2
    assert run(keel, ":memory:", "serve").returncode == 1
    open(os.path.join(keel.directory, "other.cluster"), "w").write("something else\n")
    taken = run(keel, "serve", "a.db", "--listen", "127.0.0.1:0", "--cluster-file", "other.cluster", "--seconds", "0.1")
    assert taken.returncode == 1 and "other.cluster" in taken.stderr, taken
    assert open(os.path.join(keel.directory, "other.cluster")).read() == "something else\n"
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        refused = run(keel, "serve", "a.db", "--listen", "127.0.0.1:%d" % busy.getsockname()[1])
        assert refused.returncode == 1 and "cannot listen" in refused.stderr, refused


def test_serve_waits_for_the_owner(keel):
    first, _ = start(keel, "serve", "a.db")
    second = subprocess.Popen([keel.binary, "serve", "a.db"], cwd=keel.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "another process has" in second.stderr.readline()
    stop(first)
    assert second.stdout.readline().startswith("ready: ")
    stop(second)


def test_serve_speaks_to_systemd(keel):
    with socket.socket() as listener, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        name = os.path.join(keel.directory, "notify")
        notified.bind(name)
        notified.settimeout(TIMEOUT_SECONDS)

        def hand_in():
            os.dup2(listener.fileno(), 3)
            os.set_inheritable(3, True)
            os.environ["LISTEN_PID"] = str(os.getpid())

        # The process id is known only in the child, so a shell sets it.
        command = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve a.db'
        environment = dict(os.environ, NOTIFY_SOCKET=name)
        process = subprocess.Popen(["sh", "-c", command, keel.binary], cwd=keel.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment, close_fds=False, preexec_fn=hand_in)
        assert notified.recv(1000).startswith(b"READY=1")
        assert str(listener.getsockname()[1]) in process.stdout.readline()
        assert run(keel, "a.db.cluster", "set", "x", "1").returncode == 0
        stop(process)


def test_a_server_that_is_gone_is_reported(keel):
    process, _ = start(keel, "serve", "a.db", "--listen", "127.0.0.1:0")
    stop(process)
    environment = dict(os.environ, KEEL_OWNER_TIMEOUT="0.3")
    gone = subprocess.run([keel.binary, "a.db.cluster", "get", "x"], cwd=keel.directory, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environment)
    assert gone.returncode == 1 and "(20021)" in gone.stderr, gone


def test_a_stopped_owner_is_reported(keel):
    process, _ = start(keel, "serve", "a.db")
    environment = dict(os.environ, KEEL_OWNER_TIMEOUT="0.3")
    process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(0.1)
        silent = subprocess.run([keel.binary, "a.db", "get", "x"], cwd=keel.directory, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environment)
    finally:
        process.send_signal(signal.SIGCONT)
    assert silent.returncode == 1 and "(20021)" in silent.stderr, silent
    stop(process)
