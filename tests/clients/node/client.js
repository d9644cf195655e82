// SPDX-License-Identifier: Apache-2.0

// The npm binding on an embedded database.
//
//     client.js PATH           everything, on a fresh database (PATH `-`: the default one)
//     client.js PATH --again   what the first run left, read by a second process
//
// The package is the published one with its prebuilt native half; only the shared library that half
// loads is Keel's. One line a check, then `finished`, which tells a program that ran to its end
// from one that was cut short.

'use strict'

const assert = require('assert')
const fdb = require('foundationdb')

const API_VERSION = 720
const ROWS = 1000
const TASKS = 30
const WAIT_MS_MAX = 200000

const [path, mode] = process.argv.slice(2)
let db
let failures = 0

const check = async (name, body) => {
  try {
    await body()
    console.log(`ok - ${name}`)
  } catch (problem) {
    failures++
    console.log(`not ok - ${name}: ${String(problem.message || problem).replace(/\s+/g, ' ')}`)
  }
}

const failsWith = async (code, body) => {
  let result
  try {
    result = await body()
  } catch (error) {
    assert.strictEqual(error.code, code, `error ${error.code} (${error.message}), expected ${code}`)
    return error
  }
  throw new Error(`no error, expected ${code}`)
}

const withTimeout = (promise) => {
  let timer
  const limit = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${WAIT_MS_MAX} ms`)), WAIT_MS_MAX)
  })
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer))
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const text = (buffer) => (buffer === undefined ? undefined : buffer.toString())

const number = (row) => {
  const out = Buffer.alloc(4)
  out.writeUInt32BE(row)
  return out
}

const little = (value) => {
  const out = Buffer.alloc(8)
  out.writeBigInt64LE(BigInt(value))
  return out
}

const row = (i) => Buffer.concat([Buffer.from('row/'), number(i)])

const fill = () => db.doTransaction(async (tn) => {
  for (let i = 0; i < ROWS; i++) tn.set(row(i), number(i))
})

const everything = async () => {
  await check('writes and reads back', async () => {
    await db.set('hello', 'world')
    assert.strictEqual(text(await db.get('hello')), 'world')
    await db.set('empty value', '')
    assert.strictEqual(text(await db.get('empty value')), '')
  })

  await check('writes the largest key and the largest value', async () => {
    const key = 'k'.repeat(10000)
    await db.set(key, Buffer.alloc(100000, 'v'))
    assert((await db.get(key)).equals(Buffer.alloc(100000, 'v')))
    await db.clear(key)
    assert.strictEqual(await db.get(key), undefined)
  })

  await check('reads ranges in every streaming mode, backwards, with a limit', async () => {
    await fill()
    const all = [...Array(ROWS).keys()].map((i) => row(i).toString('hex'))
    const modes = fdb.StreamingMode
    for (const streamingMode of [modes.Iterator, modes.WantAll, modes.Small, modes.Medium,
      modes.Large, modes.Serial]) {
      const found = await db.getRangeAll('row/', 'row0', { streamingMode })
      assert.deepStrictEqual(found.map(([key]) => key.toString('hex')), all)
    }
    const last = await db.getRangeAll('row/', 'row0', { limit: 7, reverse: true })
    assert.deepStrictEqual(last.map(([key]) => key.toString('hex')), all.slice(-7).reverse())
  })

  await check('clears a key and a range', async () => {
    await db.doTransaction(async (tn) => {
      tn.clear(row(10))
      tn.clearRange(row(20), row(30))
    })
    assert.strictEqual((await db.getRangeAllStartsWith('row/')).length, ROWS - 11)
    await fill()
    assert.strictEqual((await db.getRangeAllStartsWith('row/')).length, ROWS)
  })

  await check('applies atomic operations', async () => {
    await db.doTransaction(async (tn) => {
      tn.add('atomic/add', little(40))
      tn.add('atomic/add', little(2))
      tn.set('atomic/bits', Buffer.from([0x0f]))
      tn.bitOr('atomic/bits', Buffer.from([0xf0]))
      tn.bitAnd('atomic/bits', Buffer.from([0x3c]))
      tn.bitXor('atomic/bits', Buffer.from([0x01]))
      tn.byteMin('atomic/min', 'pear')
      tn.byteMin('atomic/min', 'apple')
    })
    assert.deepStrictEqual(await db.get('atomic/add'), little(42))
    assert.deepStrictEqual(await db.get('atomic/bits'), Buffer.from([0x3d]))
    assert.strictEqual(text(await db.get('atomic/min')), 'apple')
  })

  await check('versionstamps a key and a value', async () => {
    const stamp = await (await db.doTransaction(async (tn) => {
      tn.setVersionstampSuffixedKey('stamp/', 'key')
      tn.setVersionstampPrefixedValue('stamped value', 'x')
      return tn.getVersionstamp()
    })).promise
    const found = await db.getRangeAllStartsWith('stamp/')
    assert.strictEqual(found.length, 1)
    assert.deepStrictEqual(found[0][0], Buffer.concat([Buffer.from('stamp/'), stamp]))
    const value = await db.getVersionstampPrefixedValue('stamped value')
    assert.deepStrictEqual(value.stamp, stamp)
  })

  await check('of two conflicting transactions one is refused (1020), then retries', async () => {
    await db.set('conflict', '0')
    const first = db.rawCreateTransaction()
    const second = db.rawCreateTransaction()
    assert.strictEqual(text(await first.get('conflict')), '0')
    assert.strictEqual(text(await second.get('conflict')), '0')
    first.set('conflict', '1')
    second.set('conflict', '2')
    await first.rawCommit()
    const error = await failsWith(1020, () => second.rawCommit())
    await second.rawOnError(error.code)
    assert.strictEqual(text(await second.get('conflict')), '1')
    second.set('conflict', '2')
    await second.rawCommit()
    assert.strictEqual(text(await db.get('conflict')), '2')
  })

  await check('a snapshot read does not conflict', async () => {
    const reader = db.rawCreateTransaction()
    assert.strictEqual(text(await reader.snapshot().get('conflict')), '2')
    reader.set('other', '1')
    await db.set('conflict', '3')
    await reader.rawCommit()
  })

  await check(`a counter of ${TASKS} concurrent tasks loses no increment`, async () => {
    let attempts = 0
    await Promise.all([...Array(TASKS).keys()].map(() => db.doTransaction(async (tn) => {
      attempts++
      const value = await tn.get('counter')
      tn.set('counter', little((value ? value.readBigInt64LE() : 0n) + 1n))
    })))
    assert.deepStrictEqual(await db.get('counter'), little(TASKS))
    assert(attempts >= TASKS)
  })

  await check('a watch fires when the value changes, not before', async () => {
    await db.set('watched', '1')
    const watch = await db.getAndWatch('watched')
    let fired = false
    watch.promise.then(() => { fired = true })
    await db.set('unwatched', '1')
    await sleep(50)
    assert.strictEqual(fired, false)
    await db.set('watched', '2')
    assert.strictEqual(await withTimeout(watch.promise), true)
  })

  await check('key, value and transaction too large are refused (2102, 2103, 2101)', async () => {
    await failsWith(2102, () => db.set('x'.repeat(10001), ''))
    await failsWith(2103, () => db.set('large', Buffer.alloc(100001)))
    await failsWith(2101, () => db.doTransaction(async (tn) => {
      for (let i = 0; i < 101; i++) tn.set(`bulk/${i}`, Buffer.alloc(100000))
    }))
    assert.strictEqual((await db.getRangeAllStartsWith('bulk/')).length, 0)
  })

  await check('a transaction cannot be used after its commit (2017)', async () => {
    const tn = db.rawCreateTransaction()
    tn.set('used', '1')
    await tn.rawCommit()
    await failsWith(2017, () => tn.get('used'))
    tn.rawReset()
    assert.strictEqual(text(await tn.get('used')), '1')
  })

  await check('cancelled (1025) and timed out (1031) transactions say so', async () => {
    const cancelled = db.rawCreateTransaction()
    cancelled.rawCancel()
    await failsWith(1025, () => cancelled.get('hello'))
    const late = db.rawCreateTransaction({ timeout: 20 })
    await sleep(100)
    await failsWith(1031, () => late.get('hello'))
  })

  await check('system keys are refused (2004)', async () => {
    await failsWith(2004, () => db.set(Buffer.from([0xff, 0x2f]), ''))
  })

  await check('the tuple and directory layers work', async () => {
    const tuples = db.at('tuples').withKeyEncoding(fdb.encoders.tuple)
    await tuples.doTransaction(async (tn) => {
      for (const value of [2 ** 40, 1, 0, -1, -(2 ** 40)]) tn.set([value], '')
    })
    const found = await tuples.getRangeAllStartsWith([])
    assert.deepStrictEqual(found.map(([key]) => key[0]), [-(2 ** 40), -1, 0, 1, 2 ** 40])
    const users = await fdb.directory.createOrOpen(db, ['app', 'users'])
    await db.at(users).set('1', 'Ada')
    const moved = await users.moveTo(db, ['app', 'people'])
    assert.strictEqual(text(await db.at(moved).get('1')), 'Ada')
    assert.deepStrictEqual((await fdb.directory.listAll(db, 'app')).map(String), ['people'])
  })

  await check('leaves data for a second process', async () => {
    await db.doTransaction(async (tn) => {
      for (let i = 0; i < 100; i++) {
        tn.set(Buffer.concat([Buffer.from('again/'), number(i)]), number(i + 1))
      }
    })
    assert.strictEqual((await db.getRangeAllStartsWith('again/')).length, 100)
  })
}

const again = async () => {
  await check('finds the data of the first process', async () => {
    const found = await db.getRangeAllStartsWith('again/')
    assert.strictEqual(found.length, 100)
    found.forEach(([key, value], i) => {
      assert.deepStrictEqual(key, Buffer.concat([Buffer.from('again/'), number(i)]))
      assert.deepStrictEqual(value, number(i + 1))
    })
    assert.strictEqual((await db.getRangeAllStartsWith('row/')).length, ROWS)
    assert.deepStrictEqual(await db.get('counter'), little(TASKS))
  })

  await check('a read version too old is refused (1007)', async () => {
    const tn = db.rawCreateTransaction()
    tn.setReadVersion(Buffer.from([0, 0, 0, 0, 0, 0, 0, 1]))
    await failsWith(1007, () => tn.get('hello'))
  })

  await check('versions go on where the first process stopped', async () => {
    const { stamp } = await db.getVersionstampPrefixedValue('stamped value')
    const version = await db.rawCreateTransaction().getReadVersion()
    assert(Buffer.compare(version, stamp.subarray(0, 8)) > 0)
  })
}

const main = async () => {
  await check('opens', async () => {
    fdb.setAPIVersion(API_VERSION)
    db = path === '-' ? fdb.open() : fdb.open(path)
    db.setNativeOptions({ transaction_timeout: 60000 })
    assert.strictEqual(await db.get('never written'), undefined)
  })
  await (mode === '--again' ? again() : everything())
  db.close()
  console.log('finished')
  process.exitCode = failures > 0 ? 1 : 0
}

main()
