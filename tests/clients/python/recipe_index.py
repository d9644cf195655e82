# SPDX-License-Identifier: Apache-2.0
"""One half of the interoperation test of the index recipe; the other is
tests/recipes/interop_index.c.

    recipe_index.py API_VERSION write DATABASE     writes with the documents' Python code
    recipe_index.py API_VERSION check DATABASE     reads with it what is there, whoever wrote it

The functions are those of the documents. Changed for Python 3 alone: values are bytes, so text is
encoded and '' is b'', and an absent value is asked for with present(); names that two
documents give to different things differ.
"""

import sys

import fdb

fdb.api_version(int(sys.argv[1]))
MODE = sys.argv[2]
db = fdb.open(sys.argv[3])
failures = 0


def verify(holds, name):
    global failures
    print("%s - %s" % ("ok" if holds else "not ok", name), flush=True)
    failures += not holds


# --- simple indexes, from the recipes ---

user = fdb.Subspace(("user",))
index = fdb.Subspace(("zipcode_index",))


@fdb.transactional
def set_user(tr, ID, name, zipcode):
    """Store user and update zipcode index atomically."""
    tr[user[ID][zipcode]] = name.encode()
    tr[index[zipcode][ID]] = b""


@fdb.transactional
def get_user(tr, ID):
    """Retrieve user by primary key."""
    for k, v in tr[user[ID].range()]:
        return v
    return None


@fdb.transactional
def get_user_ids_in_region(tr, zipcode):
    """Query index to find all users in a zipcode."""
    return [index.unpack(k)[1] for k, _ in tr[index[zipcode].range()]]


# --- index maintenance, from the best practices ---

users = fdb.Subspace(("users",))
email_index = fdb.Subspace(("email_index",))
region_index = fdb.Subspace(("region_index",))


@fdb.transactional
def update_user_email(tr, user_id, old_email, new_email):
    # Update data
    tr[users[user_id]["email"]] = new_email.encode()

    # Update index - remove old, add new
    del tr[email_index[old_email]]
    tr[email_index[new_email]] = user_id.encode()


@fdb.transactional
def set_user_region(tr, user_id, new_region):
    # Read old value to remove from index
    old_region = tr[users[user_id]["region"]]

    # Update data
    tr[users[user_id]["region"]] = new_region

    # Update index
    if old_region.present():
        del tr[region_index[old_region][user_id]]
    tr[region_index[new_region][user_id]] = b""


# --- indexes, from the data modelling document ---

user_space = fdb.Subspace(("model user",))
region_idx = fdb.Subspace(("region_idx",))


@fdb.transactional
def add_user(tr, user_ID, name, region):
    tr[user_space.pack((user_ID, region))] = str(name).encode()
    tr[region_idx.pack((region, user_ID))] = b""


@fdb.transactional
def get_users_in_region(tr, region):
    items = tr[region_idx.range((region,))]
    return [region_idx.unpack(k)[-1] for k, v in items]


# --- the set that both programs know ---

COUNT = 50


def write():
    for i in range(COUNT):
        set_user(db, "user%02d" % i, "name %d" % i, 10000 + i % 7)
        set_user_region(db, "user%02d" % i, b"nowhere")
        set_user_region(db, "user%02d" % i, b"region %d" % (i % 3))
        update_user_email(db, "user%02d" % i, "old%d@x" % i, "user%d@x" % i)
        add_user(db, i, "name %d" % i, "region %d" % (i % 4))


def check():
    verify(
        all(get_user(db, "user%02d" % i) == b"name %d" % i for i in range(COUNT)),
        "index: records by id",
    )
    verify(
        all(
            get_user_ids_in_region(db, 10000 + z)
            == ["user%02d" % i for i in range(COUNT) if i % 7 == z]
            for z in range(7)
        ),
        "index: ids by zipcode",
    )
    verify(
        all(
            get_users_in_region(db, "region %d" % r) == [i for i in range(COUNT) if i % 4 == r]
            for r in range(4)
        ),
        "index: ids by region",
    )
    verify(
        all(
            bytes(db[email_index["user%d@x" % i]]) == b"user%02d" % i
            and db[email_index["old%d@x" % i]] is None
            for i in range(COUNT)
        ),
        "index: unique, the id in the value",
    )
    verify(
        sorted(region_index.unpack(k) for k, v in db[region_index.range()])
        == sorted((b"region %d" % (i % 3), "user%02d" % i) for i in range(COUNT)),
        "index: entries that moved",
    )
    verify(
        sum(1 for _ in db[index.range()]) == COUNT and sum(1 for _ in db[user.range()]) == COUNT,
        "index: nothing besides",
    )


if MODE == "write":
    write()
else:
    check()
print("finished")
sys.exit(failures != 0)
