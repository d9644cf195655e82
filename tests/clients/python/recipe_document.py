# SPDX-License-Identifier: Apache-2.0
"""The documents and hierarchies of their documents, beside Keel's (tests/recipes/interop_document.c).

    recipe_document.py API_VERSION write DATABASE     writes the set
    recipe_document.py API_VERSION check DATABASE     compares what is there with the set

Between the marks stands the documents' code. Changed, as Python 3 needs it: iteritems, and '' as a
value, in the hierarchy's; its to_tuples and from_tuples are called hier_..., since both are here.
"""

import sys

import fdb

fdb.api_version(int(sys.argv[1]))
MODE = sys.argv[2]
db = fdb.open(sys.argv[3])

# --- the document's code ---

import json  # noqa: E402
import random  # noqa: E402
import itertools  # noqa: E402

doc_space = fdb.Subspace(('D',))

EMPTY_OBJECT = -2
EMPTY_ARRAY = -1

def to_tuples(item):
    """Convert nested structure to list of path tuples."""
    if item == {}:
        return [(EMPTY_OBJECT, None)]
    elif item == []:
        return [(EMPTY_ARRAY, None)]
    elif isinstance(item, dict):
        return [(k,) + sub for k, v in item.items() for sub in to_tuples(v)]
    elif isinstance(item, list):
        return [(i,) + sub for i, v in enumerate(item) for sub in to_tuples(v)]
    else:
        return [(item,)]

def from_tuples(tuples):
    """Reconstruct nested structure from path tuples."""
    if not tuples:
        return {}
    first = tuples[0]
    if len(first) == 1:
        return first[0]
    if first == (EMPTY_OBJECT, None):
        return {}
    if first == (EMPTY_ARRAY, None):
        return []

    groups = [list(g) for k, g in itertools.groupby(tuples, lambda t: t[0])]
    if first[0] == 0:  # array
        return [from_tuples([t[1:] for t in g]) for g in groups]
    else:  # object
        return {g[0][0]: from_tuples([t[1:] for t in g]) for g in groups}

@fdb.transactional
def insert_doc(tr, doc):
    """Insert a document, returning its ID."""
    if isinstance(doc, str):
        doc = json.loads(doc)
    if 'doc_id' not in doc:
        doc['doc_id'] = random.randint(0, 100000000)
    for tup in to_tuples(doc):
        tr[doc_space.pack((doc['doc_id'],) + tup[:-1])] = \
            fdb.tuple.pack((tup[-1],))
    return doc['doc_id']

@fdb.transactional
def get_doc(tr, doc_id, prefix=()):
    """Get document or subdocument by path prefix."""
    v = tr[doc_space.pack((doc_id,) + prefix)]
    if v.present():
        return from_tuples([prefix + fdb.tuple.unpack(v)])
    else:
        return from_tuples([
            doc_space.unpack(k)[1:] + fdb.tuple.unpack(v)
            for k, v in tr[doc_space.range((doc_id,) + prefix)]
        ])

# --- the hierarchy's code ---

hier_space = fdb.Subspace(('hier',))

def hier_to_tuples(item):
    if item == {}:
        return [(EMPTY_OBJECT, None)]
    elif item == []:
        return [(EMPTY_ARRAY, None)]
    elif type(item) == dict:
        return [(k,) + sub for k, v in item.items() for sub in hier_to_tuples(v)]
    elif type(item) == list:
        return [(k,) + sub for k, v in enumerate(item) for sub in hier_to_tuples(v)]
    else:
        return [(item,)]

@fdb.transactional
def insert_hier(tr, hier):
    if type(hier) == str:
        hier = json.loads(hier)
    for tup in hier_to_tuples(hier):
        tr[hier_space.pack(tup)] = b''

def hier_from_tuples(tuples):
    first = tuples[0]  # The first tuple will tell us what kind of object we have

    if len(first) == 1: return first[0]  # Primitive value
    if first == (EMPTY_OBJECT,None): return {}
    if first == (EMPTY_ARRAY, None): return []

    # For an object or array, we need to group the tuples by their first element
    groups = [list(g) for k, g in itertools.groupby(tuples, lambda t:t[0])]

    if first[0] == 0:   # array
        return [hier_from_tuples([t[1:] for t in g]) for g in groups]
    else:    # object
        return dict((g[0][0], hier_from_tuples([t[1:] for t in g])) for g in groups)

@fdb.transactional
def get_sub_hier(tr, prefix):
    return hier_from_tuples([hier_space.unpack(k)
                             for k, v in tr[hier_space.range(prefix)]])

# --- end of it ---

# The same texts as in interop_document.c, as C prints them: compact, members in order.
DOCUMENTS = [
    '{"doc_id":0,"profile":{"email":"alice@example.com","verified":true},'
    '"tags":["admin","developer"],"user":"alice"}',
    '{"doc_id":1,"e":{},"f":[],"g":[[],{},[{}]],"n":null,"z":{"y":{"x":[null]}}}',
    '{"doc_id":2,"i":[0,-1,-2,255,256,-9223372036854775808,9223372036854775807],'
    '"r":[0.5,-1.25,1e300,2.2250738585072014e-308,0.1]}',
    '{"":{"":1},"doc_id":3,"\u00e9":"\u20ac \U0001f600","\U0001f600":["\u00e9"]}',
    '{"doc_id":4,"s":"a\\u0000b\\n\\"\\\\"}',
    '{"doc_id":5,"l":[0,1,2,3,4,5,6,7,8,9,10,11,[false],{"a":[true]}]}',
]
NAMED = '{"doc_id":"by name","x":1}'
HIERARCHIES = [
    '{"user":{"jones":{"friendOf":"smith","group":["sales","service"]}}}',
    '{"user":{"smith":{"friendOf":"jones","group":["dev","research"]}}}',
    '{"none":null,"user":{"new":{"empty":{},"group":[],"n":[1,2.5,true]}}}',
]

failures = 0


def check(holds, name):
    global failures
    print("%s - %s" % ("ok" if holds else "not ok", name), flush=True)
    failures += not holds


def together(a, b):
    return {k: together(a[k], b[k]) if k in a and k in b else (a if k in a else b)[k]
            for k in {**a, **b}}


if MODE == "write":
    for text in DOCUMENTS:
        insert_doc(db, text)
    insert_doc(db, NAMED)
    for text in HIERARCHIES:
        insert_hier(db, text)
    check(True, "document: Python writes")
else:
    for i, text in enumerate(DOCUMENTS):
        check(get_doc(db, i) == json.loads(text), "document: Python reads document %d" % i)
    check(get_doc(db, "by name") == json.loads(NAMED), "document: Python reads by name")
    profile = json.loads(DOCUMENTS[0])["profile"]
    check(get_doc(db, 0, ("profile",)) == {"profile": profile}, "document: Python reads a part")
    check(get_doc(db, 0, ("tags",)) == {"tags": ["admin", "developer"]},
          "document: Python reads an array")
    # C made this by steps, see its write_by_path.
    check(get_doc(db, 100) == {"a": [1, 3, {"e": []}], "b": {}, "d": {"e": {"f": "g"}}},
          "document: Python reads what C changed by path")
    hierarchy = {}
    for text in HIERARCHIES:
        hierarchy = together(hierarchy, json.loads(text))
    check(get_sub_hier(db, ()) == hierarchy, "hierarchy: Python reads all")
    check(get_sub_hier(db, ("user", "smith")) == {"user": {"smith": hierarchy["user"]["smith"]}},
          "hierarchy: Python reads a part")

print("finished")
sys.exit(1 if failures else 0)
