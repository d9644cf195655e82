# SPDX-License-Identifier: Apache-2.0
"""One half of the interoperation test of the relation recipe; the other is
tests/recipes/interop_relation.c.

    recipe_relation.py API_VERSION write DATABASE     writes with the document's Python code
    recipe_relation.py API_VERSION check DATABASE     reads with it what is there, whoever wrote it

The functions are those of the data modelling document. Changed for Python 3 alone: values are
bytes, so text is encoded and '' is b''.
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


ER_space = fdb.Subspace(("ER",))


@fdb.transactional
def add_attribute_value(tr, entity_ID, attribute, value):
    tr[ER_space.pack((entity_ID, attribute))] = str(value).encode()


@fdb.transactional
def get_attribute_value(tr, entity_ID, attribute):
    return tr[ER_space.pack((entity_ID, attribute))]


@fdb.transactional
def add_user_region(tr, user_ID, region):
    add_attribute_value(tr, user_ID, "region", region)


@fdb.transactional
def add_relationship(tr, relationship, primary_key, foreign_key):
    tr[ER_space.pack((relationship, primary_key, foreign_key))] = b""


@fdb.transactional
def get_relationships(tr, relationship):
    return [
        ER_space.unpack(k)[1:]
        for k, v in tr.get_range_startswith(
            ER_space.pack((relationship,)), streaming_mode=fdb.StreamingMode.want_all
        )
    ]


@fdb.transactional
def get_related_entities(tr, relationship, primary_key):
    items = tr[ER_space.range((relationship, primary_key))]
    return [ER_space.unpack(k)[-1] for k, v in items]


@fdb.transactional
def is_related_entity(tr, relationship, primary_key, foreign_key):
    return tr[ER_space.pack((relationship, primary_key, foreign_key))].present()


@fdb.transactional
def add_user_to_group(tr, user_ID, group_name):
    add_relationship(tr, "belongs_to", user_ID, group_name)


@fdb.transactional
def get_users_groups(tr, user_ID):
    return get_related_entities(tr, "belongs_to", user_ID)


# --- the set that both programs know ---

USERS, GROUPS = 15, 6


def belongs(user, group):
    return (user + group * 2) % 5 < 2


def write():
    for u in range(USERS):
        add_user_region(db, u, "region %d" % (u % 4))
        for g in range(GROUPS):
            if belongs(u, g):
                add_user_to_group(db, u, "group %d" % g)


def check():
    verify(
        all(
            bytes(get_attribute_value(db, u, "region")) == b"region %d" % (u % 4)
            for u in range(USERS)
        ),
        "relation: attributes",
    )
    verify(
        all(
            get_users_groups(db, u) == ["group %d" % g for g in range(GROUPS) if belongs(u, g)]
            for u in range(USERS)
        ),
        "relation: related entities",
    )
    verify(
        get_relationships(db, "belongs_to")
        == [(u, "group %d" % g) for u in range(USERS) for g in range(GROUPS) if belongs(u, g)],
        "relation: all pairs",
    )
    verify(
        all(
            is_related_entity(db, "belongs_to", u, "group %d" % g) == belongs(u, g)
            for u in range(USERS)
            for g in range(GROUPS)
        ),
        "relation: whether two are related",
    )


if MODE == "write":
    write()
else:
    check()
print("finished")
sys.exit(failures != 0)
