# SPDX-License-Identifier: Apache-2.0
"""The shell, driven through a pseudo-terminal."""
import os

from terminal import CONTROL_C, CONTROL_D, IN_TRANSACTION, PROMPT, TAB, UP, Terminal


def test_prompt_commands_end_of_file(keel):
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        assert terminal.command("set hello world").startswith("Committed at version ")
        assert terminal.command("get hello") == "world"
        assert terminal.command("get hello; get hello") == "world\nworld"
        assert "no such key" in terminal.command("get nothing")
        assert "Did you mean get" in terminal.command("gett hello")
        assert "is not closed" in terminal.command('get "open')
        assert terminal.command("   ") == ""
        assert terminal.leave() == 0


def test_exit_and_quit(keel):
    for word in ("exit", "quit"):
        with Terminal(keel, keel.db) as terminal:
            terminal.expect(PROMPT)
            terminal.type(word + "\n")
            assert terminal.end() == 0


def test_the_first_failing_command_ends_a_line(keel):
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        printed = terminal.command("set a 1; get nothing; set b 2")
        assert "no such key" in printed
        assert terminal.command("getrange") == "a is 1"


def test_transaction_over_several_lines(keel):
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        terminal.command("begin", IN_TRANSACTION)
        assert terminal.command("set a 1", IN_TRANSACTION) == ""
        assert terminal.command("get a", IN_TRANSACTION) == "1"
        assert "open already" in terminal.command("begin", IN_TRANSACTION)
        assert terminal.command("commit").startswith("Committed at version ")
        terminal.command("begin", IN_TRANSACTION)
        terminal.command("set b 2", IN_TRANSACTION)
        terminal.command("rollback")
        assert terminal.command("getrange") == "a is 1"
        terminal.command("begin", IN_TRANSACTION)
        assert terminal.leave() == 0
        assert "was not committed" in terminal.everything


def test_control_c_at_the_prompt(keel):
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        for _ in range(5):
            terminal.type("set oops 1")
            terminal.expect("set oops 1")
            terminal.interrupt()
            terminal.expect("^C")
            terminal.expect(PROMPT)
        assert "no such key" in terminal.command("set b 2; get oops")
        terminal.command("begin", IN_TRANSACTION)
        terminal.interrupt()
        terminal.expect("still open")
        terminal.expect(IN_TRANSACTION)
        terminal.command("set a 1", IN_TRANSACTION)
        terminal.command("commit")
        assert terminal.command("get a") == "1"
        assert terminal.leave() == 0


def test_control_c_during_a_watch(keel):
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        terminal.command("set a 1")
        for _ in range(3):
            terminal.type("watch a\n")
            terminal.expect("watch a")
            while terminal.read(0.3):  # it waits: nothing more is printed
                pass
            terminal.interrupt()
            terminal.expect("watch: interrupted")
            terminal.expect(PROMPT)
        assert terminal.command("get a") == "1"
        assert terminal.leave() == 0


def test_control_c_ends_a_single_command(keel):
    with Terminal(keel, keel.db, "watch", "a") as terminal:
        while not os.path.exists(keel.db) or terminal.read(0.3):
            pass
        terminal.interrupt()
        assert terminal.end() == 130


def test_control_c_during_a_long_range(keel):
    keel.script("".join(f"set ({i}) {i}\n" for i in range(2000)))
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        terminal.command("begin", IN_TRANSACTION)
        terminal.command("set a 1", IN_TRANSACTION)
        # Not one Ctrl-C may end the shell, whether it comes during the command or at the prompt.
        terminal.type("getrange --all\n")
        terminal.expect("(5) is 5")
        terminal.interrupt()
        terminal.expect("keel")
        terminal.type("\nget (7)\n")
        terminal.expect("7\r\n")
        assert terminal.leave() == 0


def test_history(keel):
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        terminal.command("set a 1")
        terminal.command("get a")
        terminal.type(UP + UP)
        terminal.expect("set a 1")
        terminal.type("\n")
        terminal.expect("Committed")
        terminal.expect(PROMPT)
        assert terminal.leave() == 0
    history = os.path.join(keel.directory, ".keel_history")
    assert os.stat(history).st_mode & 0o077 == 0, "the history is nobody else's business"
    with open(history) as file:
        assert "040" in file.read()  # libedit writes spaces as \040
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        terminal.type(UP + UP)
        terminal.expect("get a")
        terminal.type("\n")
        terminal.expect("1")
        terminal.expect(PROMPT)
        assert terminal.leave() == 0


def test_completion_of_commands(keel):
    keel.ok("set", "a", "1")
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        terminal.type("getv" + TAB)
        terminal.expect("ersion ")  # the editor prints what is new
        terminal.type("\n")
        assert terminal.expect(PROMPT).strip().isdigit()
        terminal.type("getr" + TAB + "a\n")
        terminal.expect("a is 1")
        terminal.expect(PROMPT)
        terminal.type("get" + TAB)  # several: they are listed
        terminal.expect("get  getkey  getrange  getversion")
        terminal.type(CONTROL_C)
        terminal.expect("^C")
        terminal.expect(PROMPT)
        terminal.type("help rollb" + TAB + "\n")
        terminal.expect("usage: keel DB rollback")


def make_directory(keel, path):
    keel.ok("mkdir", path)


def test_completion_of_directories(keel):
    for path in ("/app", "/app/users", "/app/orders", "/archive", "/app/with space"):
        make_directory(keel, path)
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        terminal.type("set /app/us" + TAB + "(7) seven\n")
        terminal.expect("Committed")
        terminal.expect(PROMPT)
        assert terminal.command("getrange /app/users()") == "/app/users(7) is seven"
        terminal.type("getrange /a" + TAB)
        terminal.expect("/app  /archive")
        terminal.type(CONTROL_C)
        terminal.expect("^C")
        terminal.expect(PROMPT)
        terminal.type("set /app/w" + TAB + "(1) x\n")
        terminal.expect("Committed")
        terminal.expect(PROMPT)
        assert terminal.command("getrange /app/with\\ space()") == "/app/with\\ space(1) is x"
        terminal.type("ls " + TAB)
        terminal.expect("/a")
        terminal.type(TAB)
        terminal.expect("/app  /archive")
        terminal.type("r" + TAB + "\n")
        terminal.expect(PROMPT)
        assert "There is no" not in terminal.unread


def test_more(keel):
    keel.script("".join(f"set k{i:02} {i}\n" for i in range(60)))
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        printed = terminal.command("getrange")
        assert printed.startswith("k00 is 0\n") and printed.endswith('k24 is 24\nThere are more rows: "more" shows them'), printed
        printed = terminal.command("more 30")
        assert printed.startswith("k25 is 25\n") and "k54 is 54\nThere are more" in printed, printed
        assert terminal.command("more") == "\n".join(f"k{i} is {i}" for i in range(55, 60))
        assert "no rows left" in terminal.command("more")


def test_clearrange_asks(keel):
    keel.script("".join(f"set k{i:02} {i}\n" for i in range(26)))
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        terminal.command("clearrange k00 k01")  # few: unasked
        terminal.command("set k00 0")
        for answer in ("n\n", "\n", CONTROL_D, CONTROL_C):
            terminal.type("clearrange k\n")
            terminal.expect("more than 25 rows. Go on? [y/N] ")
            terminal.type(answer)
            terminal.expect(PROMPT)
        assert "k25 is 25" in terminal.command("getrange --limit 100")
        terminal.type("clearrange k\n")
        terminal.expect("[y/N] ")
        terminal.type("y\n")
        terminal.expect("Committed")
        terminal.expect(PROMPT)
        assert terminal.command("getrange") == ""


def test_long_lines_and_unicode(keel):
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        terminal.command("set grüße Wörter→")
        assert terminal.command("get grüße") == "Wörter→"
        assert terminal.command("get (\"users\", 42)").endswith("there is no such key")
        terminal.command("set (\"users\", 42) \"two words\"")
        assert terminal.command("get (\"users\", 42)") == '"two words"'


def test_background_watch(keel):
    with Terminal(keel, keel.db) as terminal:
        terminal.expect(PROMPT)
        terminal.command("watch --background a")
        assert "a is now 1" in terminal.command("set a 1")
        terminal.command("watch -b a")
        assert "a is gone" in terminal.command("clear a")
        assert "now" not in terminal.command("set a 2")
