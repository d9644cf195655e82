# SPDX-License-Identifier: Apache-2.0
"""Workspaces, beside tests/recipes/interop_workspace.c.

    recipe_workspace.py API_VERSION write|check DATABASE

Between the two lines the code is that of the design recipes, as it stands there.
"""

import sys

import fdb

fdb.api_version(int(sys.argv[1]))
MODE = sys.argv[2]
db = fdb.open(sys.argv[3])

# ---- from the documents ----

class Workspace:
    """Blue/green workspace for atomic batch updates.

    Usage:
        workspace = Workspace(working_dir, db)

        # Read current data
        for k, v in db[workspace.current.range()]:
            process(k, v)

        # Build new version
        with workspace as new_space:
            db[new_space['key1']] = 'value1'
            db[new_space['key2']] = 'value2'
        # On exit, new_space atomically becomes current
    """

    def __init__(self, directory, db):
        self.dir = directory
        self.db = db

    @property
    def current(self):
        """Get the current (active) workspace."""
        return self.dir.create_or_open(self.db, ('current',))

    def __enter__(self):
        """Create a new workspace for staging updates."""
        return self.dir.create_or_open(self.db, ('new',))

    def __exit__(self, exc_type, exc_val, exc_tb):
        """Atomically swap new workspace to current."""
        if exc_type is None:  # Only swap on success
            self._swap(self.db)

    @fdb.transactional
    def _swap(self, tr):
        """Atomic swap: remove current, rename new to current."""
        # Remove old current
        if self.dir.exists(tr, ('current',)):
            self.dir.remove(tr, ('current',))
        # Move new to current
        self.dir.move(tr, ('new',), ('current',))


# Example usage
def refresh_catalog(db, new_items):
    """Replace entire catalog atomically."""
    working_dir = fdb.directory.create_or_open(db, ('catalog_workspace',))
    workspace = Workspace(working_dir, db)

    with workspace as staging:
        # Clear staging area
        del db[staging.range()]

        # Write all new items
        for item_id, data in new_items.items():
            db[staging[item_id]] = fdb.tuple.pack((data,))

    # Swap complete - readers now see new catalog

# ---- end of it ----

ITEMS = 20
failures = 0


def check(holds, name):
    global failures
    print("%s - %s" % ("ok" if holds else "not ok", name), flush=True)
    failures += not holds


def items(generation):
    return {"item %d" % i: "data %d of %d" % (i, generation) for i in range(ITEMS + generation)}


def catalog():
    working_dir = fdb.directory.create_or_open(db, ('catalog_workspace',))
    return Workspace(working_dir, db)


def write():
    for generation in range(1, 4):
        refresh_catalog(db, items(generation))
    staging = catalog().__enter__()  # begun, and left
    for item_id, data in items(4).items():
        db[staging[item_id]] = fdb.tuple.pack((data,))


def found(space):
    return {space.unpack(k)[0]: fdb.tuple.unpack(v)[0] for k, v in db[space.range()]}


def verify():
    workspace = catalog()
    check(found(workspace.current) == items(3), "workspace in Python: what is current")
    check(found(workspace.__enter__()) == items(4), "workspace in Python: what is being built")
    check(sorted(workspace.dir.list(db)) == ["current", "new"], "workspace in Python: no more")


write() if MODE == "write" else verify()
print("finished")
sys.exit(failures != 0)
