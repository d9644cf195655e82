# SPDX-License-Identifier: Apache-2.0
"""Blobs, beside tests/recipes/interop_blob.c.

    recipe_blob.py API_VERSION write|check DATABASE

Between the two lines the code is that of the design recipes, as it stands there.
"""

import sys

import fdb

fdb.api_version(int(sys.argv[1]))
MODE = sys.argv[2]
db = fdb.open(sys.argv[3])

# ---- from the documents ----

CHUNK_SIZE = 10000  # 10KB chunks for optimal performance

blob_subspace = fdb.Subspace(('blob',))

@fdb.transactional
def write_blob(tr, blob_id, data):
    """Write a blob by chunking it into multiple keys."""
    # Clear any existing blob data
    del tr[blob_subspace[blob_id].range()]

    # Write chunks
    for offset in range(0, len(data), CHUNK_SIZE):
        chunk = data[offset:offset + CHUNK_SIZE]
        tr[blob_subspace[blob_id][offset]] = chunk

@fdb.transactional
def read_blob(tr, blob_id):
    """Read entire blob by combining chunks."""
    chunks = []
    for k, v in tr[blob_subspace[blob_id].range()]:
        chunks.append(v)
    return b''.join(chunks)

@fdb.transactional
def read_blob_range(tr, blob_id, start, length):
    """Read a range of bytes from a blob."""
    # Find which chunks we need
    start_chunk = (start // CHUNK_SIZE) * CHUNK_SIZE
    end_byte = start + length

    result = b''
    for k, v in tr[blob_subspace[blob_id].range()]:
        offset = blob_subspace[blob_id].unpack(k)[0]
        if offset + len(v) <= start:
            continue
        if offset >= end_byte:
            break

        # Calculate slice within this chunk
        chunk_start = max(0, start - offset)
        chunk_end = min(len(v), end_byte - offset)
        result += v[chunk_start:chunk_end]

    return result

@fdb.transactional
def delete_blob(tr, blob_id):
    """Delete a blob."""
    del tr[blob_subspace[blob_id].range()]

@fdb.transactional
def blob_size(tr, blob_id):
    """Get blob size without reading all data."""
    total = 0
    for k, v in tr[blob_subspace[blob_id].range()]:
        total += len(v)
    return total

# ---- end of it ----

BLOBS = [("one", 1), ("chunk", 10000), ("more", 10001), ("many", 234567),
         ("small chunks", 5000), ("large chunks", 234567)]
failures = 0


def check(holds, name):
    global failures
    print("%s - %s" % ("ok" if holds else "not ok", name), flush=True)
    failures += not holds


def content(length):
    return bytes((i * 31 + i // 251) % 256 for i in range(length))


def write():
    write_blob(db, "gone", b"something")
    delete_blob(db, "gone")
    for name, length in BLOBS:
        write_blob(db, name, b"an older and longer one" * 20000)
        write_blob(db, name, content(length))


def verify():
    for name, length in BLOBS:
        data, start = content(length), length // 3
        check(read_blob(db, name) == data, "blob in Python: all of %s" % name)
        check(read_blob_range(db, name, start, 100) == data[start:start + 100],
              "blob in Python: a part of %s" % name)
        check(blob_size(db, name) == length, "blob in Python: the size of %s" % name)


write() if MODE == "write" else verify()
print("finished")
sys.exit(failures != 0)
