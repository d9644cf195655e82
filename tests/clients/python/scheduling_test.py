# SPDX-License-Identifier: Apache-2.0
"""Runs the class scheduling program as it stands and audits what it left.

`class_scheduling.py` is, byte for byte, the complete program that ends FoundationDB's class
scheduling tutorial (Apache-2.0); it must never be edited. It opens the default database, so this
test runs in a fresh working directory and the program makes `./keel.db` there. The audit is a
process of its own, started after the program has ended: what it finds was durable.

The rule, for every class: seats left plus students attending is 100.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "class_scheduling.py")

SEATS = 100
CLASSES = 1620
STUDENTS = 10
CLASSES_PER_STUDENT_MAX = 5

# Run after the audit, in one more process: the tutorial's students fighting over a few classes, so
# that nearly every transaction conflicts.
CONTENTION = """
import sys
sys.path.insert(0, %r)
import class_scheduling
class_scheduling.init(class_scheduling.db)
class_scheduling.class_names = class_scheduling.class_names[:4]
class_scheduling.run(10, 20)
""" % HERE

failures = 0


def check(name, passed, detail=""):
    global failures
    if passed:
        print("ok - " + name, flush=True)
    else:
        failures += 1
        print("not ok - " + name + ": " + detail.replace("\n", " | ")[-600:], flush=True)


def run(arguments):
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run([sys.executable] + arguments, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, timeout=600)


def audit():
    """Prints the audit of the database in the working directory; the arithmetic is done here."""
    import fdb

    fdb.api_version(740)
    db = fdb.open()
    scheduling = fdb.directory.open(db, ("scheduling",))
    course, attends = scheduling["class"], scheduling["attends"]

    @fdb.transactional
    def read(tr):
        seats = dict((course.unpack(k)[0], fdb.tuple.unpack(v)[0]) for k, v in tr[course.range(())])
        pairs = [attends.unpack(k) for k, _ in tr[attends.range(())]]
        return seats, pairs

    seats, pairs = read(db)
    taken, load = {}, {}
    for student, name in pairs:
        taken[name] = taken.get(name, 0) + 1
        load[student] = load.get(student, 0) + 1
    wrong = [c for c, left in seats.items() if left + taken.get(c, 0) != SEATS]
    unknown = [c for c in taken if c not in seats]
    print("%d %d %d %d %d %d" % (len(seats), len(pairs), len(wrong), len(unknown), len(load),
                                 max(load.values()) if load else 0))


def audited(label):
    result = run([os.path.abspath(__file__), "--audit"])
    check(label + ": a second process opens the database", result.returncode == 0, result.stderr)
    if result.returncode != 0:
        return
    classes, attendances, wrong, unknown, students, load_max = map(int, result.stdout.split())
    check(label + ": every class is there", classes == CLASSES, "%d classes" % classes)
    check(label + ": seats left and attendance agree in every class",
          wrong == 0 and unknown == 0, "%d wrong, %d unknown" % (wrong, unknown))
    check(label + ": students attend, none more than five classes",
          0 < attendances and students <= STUDENTS and load_max <= CLASSES_PER_STUDENT_MAX,
          "%d attendances, %d students, at most %d" % (attendances, students, load_max))


def main():
    result = run([PROGRAM])
    check("scheduling: the program ends well", result.returncode == 0, result.stderr)
    check("scheduling: it prints what the tutorial says",
          result.stdout == "initialized\nRan 100 transactions\n", result.stdout)
    check("scheduling: no transaction failed", result.stderr == "", result.stderr)
    check("scheduling: the default database is ./keel.db", os.path.isdir("keel.db"),
          " ".join(os.listdir(".")))
    audited("scheduling")

    result = run(["-c", CONTENTION])
    check("contended: the program ends well, no transaction failed",
          (result.returncode, result.stdout, result.stderr) == (0, "Ran 200 transactions\n", ""),
          result.stdout + result.stderr)
    audited("contended")
    print("finished", flush=True)
    sys.exit(1 if failures else 0)


if "--audit" in sys.argv[1:]:
    audit()
else:
    main()
